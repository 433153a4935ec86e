"""event_clustering: articles that no cluster has yet find their place. Doing it twice changes nothing.

It goes in steps of a few hundred articles, oldest first, each written in one transaction: a crash leaves whole steps
behind, and the next run goes on from there. The count of a cluster rises only with a link that was really inserted.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, Select, func, select, update

from k2_daily_brief.database import insert_new, locked, reading, writing
from k2_daily_brief.similarity import WINDOW, Choice, Text, assign
from k2_daily_brief.tables import cluster_articles, event_clusters, raw_articles

STEP = 200

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClusterReport:
    linked: int = 0
    clusters: int = 0

    def __add__(self, other: ClusterReport) -> ClusterReport:
        return ClusterReport(self.linked + other.linked, self.clusters + other.clusters)


def cluster(engine: Engine, threshold: float) -> ClusterReport:
    """Place every article that has no place yet."""
    report = ClusterReport()
    while step := _one_step(engine, threshold):
        report += step
    _log.info("clustered linked=%d new_clusters=%d", report.linked, report.clusters)
    return report


def _one_step(engine: Engine, threshold: float) -> ClusterReport | None:
    """Place the oldest ones. None if there were none, or if somebody else has placed them meanwhile."""
    with reading(engine) as connection:
        newcomers = _unplaced(connection)
        placed = _placed_around(connection, newcomers) if newcomers else []
    choices = assign(placed, newcomers, threshold) if newcomers else []
    if not choices:
        return None
    report = write(engine, choices)
    return report if report.linked else None


# --- reading ----------------------------------------------------------------------------------------------------------


def _texts(query: Select[Any], connection: Connection) -> list[Text]:
    rows = connection.execute(query.order_by(raw_articles.c.published_at, raw_articles.c.id))
    return [Text(row.id, f"{row.title}\n{row.summary}", row.published_at, row.cluster_id) for row in rows]


def _articles_with_place() -> Select[Any]:
    links = raw_articles.outerjoin(cluster_articles, cluster_articles.c.raw_article_id == raw_articles.c.id)
    columns = (raw_articles.c.id, raw_articles.c.title, raw_articles.c.summary, raw_articles.c.published_at)
    return select(*columns, cluster_articles.c.cluster_id).select_from(links)


def _unplaced(connection: Connection) -> list[Text]:
    return _texts(_articles_with_place().where(cluster_articles.c.cluster_id.is_(None)).limit(STEP), connection)


def _placed_around(connection: Connection, newcomers: Sequence[Text]) -> list[Text]:
    """All articles of the clusters that any of these could join."""
    near = select(event_clusters.c.id).where(
        event_clusters.c.last_article_at >= newcomers[0].published_at - WINDOW,
        event_clusters.c.first_article_at <= newcomers[-1].published_at + WINDOW,
    )
    return _texts(_articles_with_place().where(cluster_articles.c.cluster_id.in_(near)), connection)


# --- writing ----------------------------------------------------------------------------------------------------------


def write(engine: Engine, choices: Sequence[Choice]) -> ClusterReport:
    """Write a step. What was placed or purged since it was read is left alone."""
    report = ClusterReport()
    with writing(engine) as connection:
        locked(connection, event_clusters)
        free = _still_free(connection, [choice.article_id for choice in choices])
        for choice in choices:
            if choice.article_id in free:
                report += _link(connection, choice)
    return report


def _still_free(connection: Connection, ids: Sequence[int]) -> set[int]:
    placed = select(cluster_articles.c.raw_article_id)
    query = select(raw_articles.c.id).where(raw_articles.c.id.in_(ids), raw_articles.c.id.not_in(placed))
    return set(connection.scalars(query))


def _link(connection: Connection, choice: Choice) -> ClusterReport:
    begins = choice.founder_id == choice.article_id
    cluster_id = _begin(connection, choice) if begins else _existing(connection, choice)
    if cluster_id is None:
        return ClusterReport()
    row = {"cluster_id": cluster_id, "raw_article_id": choice.article_id, "similarity": choice.similarity}
    if insert_new(connection, cluster_articles, row) is None:
        return ClusterReport()
    _count(connection, cluster_id, choice)
    return ClusterReport(linked=1, clusters=int(begins))


def _begin(connection: Connection, choice: Choice) -> int | None:
    row = {
        "founder_id": choice.article_id,
        "article_count": 0,
        "first_article_at": choice.published_at,
        "last_article_at": choice.published_at,
    }
    return insert_new(connection, event_clusters, row)


def _existing(connection: Connection, choice: Choice) -> int | None:
    """The cluster that was chosen, if it is still there."""
    key = event_clusters.c.founder_id == choice.founder_id
    if choice.cluster_id is not None:
        key = event_clusters.c.id == choice.cluster_id
    return connection.execute(select(event_clusters.c.id).where(key)).scalar()


def _count(connection: Connection, cluster_id: int, choice: Choice) -> None:
    first, last = event_clusters.c.first_article_at, event_clusters.c.last_article_at
    least, most = (func.min, func.max) if connection.dialect.name == "sqlite" else (func.least, func.greatest)
    connection.execute(
        update(event_clusters)
        .where(event_clusters.c.id == cluster_id)
        .values(
            article_count=event_clusters.c.article_count + 1,
            first_article_at=least(first, choice.published_at, type_=first.type),
            last_article_at=most(last, choice.published_at, type_=last.type),
        )
    )
