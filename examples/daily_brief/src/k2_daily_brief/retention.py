"""retention_cleanup: old news goes, what was published stays. Doing it twice changes nothing.

Only the tables of PURGE_ALLOWED are ever deleted from. A cluster goes as a whole, once its last article is old enough
and no published brief refers to any of it; its count would be wrong otherwise.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, Engine, Select, Table, delete, select

from k2_daily_brief.database import locked, writing
from k2_daily_brief.tables import (
    cluster_articles,
    event_clusters,
    published_brief_items,
    raw_articles,
)

PURGE_ALLOWED = (cluster_articles, event_clusters, raw_articles)
"""In this order: what refers to something goes before it."""

_log = logging.getLogger(__name__)


class NotPurgeable(Exception):
    """Nothing is ever deleted from this table."""


def clean_up(engine: Engine, now: datetime, keep: timedelta) -> dict[str, int]:
    """Delete what is older than that, in one transaction; how many rows of each table."""
    oldest = now - keep
    with writing(engine) as connection:
        locked(connection, event_clusters)
        finished = _finished_clusters(oldest)
        counts = {
            cluster_articles.name: purge(connection, cluster_articles, cluster_articles.c.cluster_id.in_(finished)),
            event_clusters.name: purge(connection, event_clusters, event_clusters.c.id.in_(finished)),
            raw_articles.name: purge(connection, raw_articles, _is_loose(oldest)),
        }
    _log.info("cleaned up %s", " ".join(f"{table}={count}" for table, count in counts.items()))
    return counts


def purge(connection: Connection, table: Table, rows: ColumnElement[bool]) -> int:
    """Delete rows of a table that is on the list; how many. Raises NotPurgeable for any other."""
    if table not in PURGE_ALLOWED:
        allowed = ", ".join(sorted(allowed.name for allowed in PURGE_ALLOWED))
        raise NotPurgeable(f"{table.name}: nothing is deleted from this table; only from {allowed}")
    return connection.execute(delete(table).where(rows)).rowcount


def _finished_clusters(oldest: datetime) -> Select[tuple[int]]:
    """Clusters that have seen no news since then, and of which nothing was published."""
    published_articles = select(published_brief_items.c.raw_article_id)
    with_published = select(cluster_articles.c.cluster_id).where(
        cluster_articles.c.raw_article_id.in_(published_articles)
    )
    return select(event_clusters.c.id).where(
        event_clusters.c.last_article_at < oldest,
        event_clusters.c.id.not_in(select(published_brief_items.c.cluster_id)),
        event_clusters.c.id.not_in(with_published),
        event_clusters.c.founder_id.not_in(published_articles),
    )


def _is_loose(oldest: datetime) -> ColumnElement[bool]:
    """Old articles that nothing refers to (any more)."""
    return (
        (raw_articles.c.published_at < oldest)
        & raw_articles.c.id.not_in(select(published_brief_items.c.raw_article_id))
        & raw_articles.c.id.not_in(select(cluster_articles.c.raw_article_id))
        & raw_articles.c.id.not_in(select(event_clusters.c.founder_id))
    )
