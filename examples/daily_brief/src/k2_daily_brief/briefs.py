"""The brief: events by how much is told of them. Today's changes with the news, a finished day's is published for good.

`published_briefs` and `published_brief_items` are only ever inserted into. What they refer to is kept by retention.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import groupby
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, Engine, Select, select

from k2_daily_brief.database import insert_new, locked, writing
from k2_daily_brief.tables import (
    cluster_articles,
    event_clusters,
    feeds,
    published_brief_items,
    published_briefs,
    raw_articles,
)

TODAY = timedelta(hours=24)
MOST_EVENTS = 50
MOST_PUBLISHED_EVENTS = 20
DAYS_BACK = 3
"""A worker that was away publishes so many finished days when it is back."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Entry:
    """One article in a brief."""

    article_id: int
    title: str
    summary: str
    url: str
    source: str
    published_at: datetime


@dataclass(frozen=True, slots=True)
class Event:
    """What several articles tell of, in the order they appeared."""

    cluster_id: int
    entries: tuple[Entry, ...]

    @property
    def title(self) -> str:
        return self.entries[0].title

    @property
    def sources(self) -> int:
        return len({entry.source for entry in self.entries})

    @property
    def latest_at(self) -> datetime:
        return self.entries[-1].published_at


# --- reading ----------------------------------------------------------------------------------------------------------


def current(connection: Connection, now: datetime) -> list[Event]:
    """The events of the last day, biggest first."""
    return _between(connection, now - TODAY, now)[:MOST_EVENTS]


def published(connection: Connection, day: date) -> list[Event] | None:
    """A finished day's brief as it was published; None if there is none."""
    brief_id = connection.execute(select(published_briefs.c.id).where(published_briefs.c.day == day)).scalar()
    if brief_id is None:
        return None
    items = published_brief_items
    query = _entries(items.c.cluster_id, items.c.raw_article_id).where(items.c.brief_id == brief_id)
    return _events(connection.execute(query.order_by(items.c.position)))


def published_days(connection: Connection) -> list[date]:
    """The days that have a published brief, newest first."""
    return list(connection.scalars(select(published_briefs.c.day).order_by(published_briefs.c.day.desc())))


def _between(connection: Connection, start: datetime, end: datetime) -> list[Event]:
    links = cluster_articles.c
    query = (
        _entries(links.cluster_id, links.raw_article_id)
        .where(raw_articles.c.published_at >= start, raw_articles.c.published_at <= end)
        .order_by(links.cluster_id, raw_articles.c.published_at, raw_articles.c.id)
    )
    return sorted(_events(connection.execute(query)), key=_size, reverse=True)


def _size(event: Event) -> tuple[int, int, datetime, int]:
    return len(event.entries), event.sources, event.latest_at, -event.cluster_id


def _entries(cluster_id: Any, article_id: Any) -> Select[Any]:
    return (
        select(
            cluster_id.label("cluster_id"),
            *(raw_articles.c[name] for name in ("id", "title", "summary", "url", "published_at")),
            feeds.c.title.label("feed_title"),
        )
        .join_from(cluster_id.table, raw_articles, raw_articles.c.id == article_id)
        .join(feeds, feeds.c.id == raw_articles.c.feed_id)
    )


def _events(rows: Iterable[Any]) -> list[Event]:
    return [
        Event(cluster_id, tuple(_entry(row) for row in group))
        for cluster_id, group in groupby(rows, key=lambda row: int(row.cluster_id))
    ]


def _entry(row: Any) -> Entry:
    source = row.feed_title or urlsplit(row.url).netloc
    return Entry(row.id, row.title, row.summary, row.url, source, row.published_at)


# --- publishing -------------------------------------------------------------------------------------------------------


def publish_finished_days(engine: Engine, now: datetime, zone: ZoneInfo) -> list[date]:
    """Publish the days that are over and have no brief yet; which ones. A day without news has no brief."""
    today = now.astimezone(zone).date()
    days = [today - timedelta(days=back) for back in range(DAYS_BACK, 0, -1)]
    done = [day for day in days if _publish(engine, day, now, zone)]
    for day in done:
        _log.info("published day=%s", day)
    return done


def _publish(engine: Engine, day: date, now: datetime, zone: ZoneInfo) -> bool:
    with writing(engine) as connection:
        locked(connection, event_clusters)
        start, end = (datetime.combine(at, time(), zone) for at in (day, day + timedelta(days=1)))
        events = _between(connection, start, end - timedelta(microseconds=1))[:MOST_PUBLISHED_EVENTS]
        if not events:
            return False
        brief_id = insert_new(connection, published_briefs, {"day": day, "published_at": now})
        if brief_id is None:
            return False
        connection.execute(published_brief_items.insert(), _items(brief_id, events))
    return True


def _items(brief_id: int, events: Sequence[Event]) -> list[dict[str, int]]:
    pairs = [(event.cluster_id, entry.article_id) for event in events for entry in event.entries]
    return [
        {"brief_id": brief_id, "position": position, "cluster_id": cluster_id, "raw_article_id": article_id}
        for position, (cluster_id, article_id) in enumerate(pairs, 1)
    ]
