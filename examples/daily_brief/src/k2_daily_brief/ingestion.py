"""rss_ingestion: every feed is fetched, and articles that are new are kept. Doing it twice changes nothing.

An article is known by its address, which is unique in the table: a duplicate is not looked for, it is refused by the
insert. What a server told us for next time (its ETag) is written in the same transaction as the articles that came
with it; a crash between the two could otherwise lose them for good, since the server would say "not modified".
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import astuple, dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

import aiohttp
from sqlalchemy import Connection, Engine, select, update

from k2_daily_brief import articles, fetching
from k2_daily_brief.articles import Article, Feed
from k2_daily_brief.database import insert_new, reading, writing
from k2_daily_brief.fetching import Fetched, FetchFailed, Known, Limits
from k2_daily_brief.settings import Settings
from k2_daily_brief.tables import feeds, raw_articles

_log = logging.getLogger(__name__)


class AllFeedsFailed(Exception):
    """Not one feed could be read: then it is us, or the network, and somebody should know."""


class Source(NamedTuple):
    """A feed as we know it before we ask."""

    id: int
    url: str
    known: Known


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of asking one feed. `feed` is None if it failed, or if nothing has changed."""

    source: Source
    status: int | None
    error: str | None
    known: Known
    feed: Feed | None


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What a run did. Adding two of them counts them together."""

    feeds: int = 0
    unchanged: int = 0
    failed: int = 0
    fetched: int = 0
    new: int = 0
    duplicates: int = 0
    too_old: int = 0

    def __add__(self, other: IngestReport) -> IngestReport:
        return IngestReport(*(ours + theirs for ours, theirs in zip(astuple(self), astuple(other), strict=True)))


async def ingest(engine: Engine, settings: Settings, now: datetime) -> IngestReport:
    """Fetch all feeds and keep what is new. One feed's failure is recorded and stops no other."""
    sources = await asyncio.to_thread(register, engine, settings.feeds)
    oldest = now - timedelta(days=settings.retention_days)
    report = IngestReport()
    async with aclosing(_answers(sources, settings, now)) as answers:
        async for answer in answers:
            report += await asyncio.to_thread(keep, engine, answer, now, oldest)
    _log.info("ingested feeds=%d unchanged=%d failed=%d fetched=%d new=%d duplicates=%d too_old=%d", *astuple(report))
    if report.failed == report.feeds:
        raise AllFeedsFailed(f"none of the {report.feeds} feeds could be read; the table `feeds` says why")
    return report


def register(engine: Engine, urls: Sequence[str]) -> list[Source]:
    """A row for each feed, with what its server told us last time."""
    with writing(engine) as connection:
        for url in urls:
            insert_new(connection, feeds, {"url": url})
    with reading(engine) as connection:
        rows = connection.execute(select(feeds).where(feeds.c.url.in_(urls)).order_by(feeds.c.id))
        return [Source(row.id, row.url, Known(row.etag, row.last_modified)) for row in rows]


# --- asking -----------------------------------------------------------------------------------------------------------


async def _answers(sources: Sequence[Source], settings: Settings, now: datetime) -> AsyncGenerator[Answer, None]:
    """Ask all feeds, some at once, and give the answers as they come."""
    seats = asyncio.Semaphore(settings.feeds_at_once)
    limits = Limits(settings.feed_timeout, settings.feed_max_bytes)
    async with fetching.session() as http:
        asking = [asyncio.create_task(_ask(http, source, seats, limits, now)) for source in sources]
        try:
            for answer in asyncio.as_completed(asking):
                yield await answer
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)


async def _ask(
    http: aiohttp.ClientSession, source: Source, seats: asyncio.Semaphore, limits: Limits, now: datetime
) -> Answer:
    try:
        async with seats:
            fetched = await fetching.fetch(http, source.url, source.known, limits)
    except FetchFailed as error:
        return _failed(source, error.status, str(error))
    try:
        feed = await asyncio.to_thread(_parse, fetched, now)
    except Exception as error:  # whatever a stranger's document does to the parser is that feed's failure alone
        return _failed(source, fetched.status, str(error) or type(error).__name__)
    return Answer(source, fetched.status, None, fetched.known, feed)


def _parse(fetched: Fetched, now: datetime) -> Feed | None:
    return None if fetched.content is None else articles.parse(fetched.content, fetched.content_type, now)


def _failed(source: Source, status: int | None, error: str) -> Answer:
    _log.warning("feed failed url=%s status=%s error=%s", source.url, status, error)
    return Answer(source, status, error, source.known, None)


# --- keeping ----------------------------------------------------------------------------------------------------------


def keep(engine: Engine, answer: Answer, now: datetime, oldest: datetime) -> IngestReport:
    """Write one feed's answer: its new articles and its state, together."""
    found = () if answer.feed is None else answer.feed.articles
    recent = [article for article in found if article.published_at >= oldest]
    with writing(engine) as connection:
        new = sum(_is_new(connection, answer.source.id, article, now) for article in recent)
        _remember(connection, answer, now)
    return IngestReport(
        feeds=1,
        unchanged=int(answer.status == 304),
        failed=int(answer.error is not None),
        fetched=len(found),
        new=new,
        duplicates=len(recent) - new,
        too_old=len(found) - len(recent),
    )


def _is_new(connection: Connection, feed_id: int, article: Article, now: datetime) -> bool:
    """Insert an article, unless its address is there already."""
    row = {
        "feed_id": feed_id,
        "url": article.url,
        "title": article.title,
        "summary": article.summary,
        "published_at": article.published_at,
        "fetched_at": now,
    }
    return insert_new(connection, raw_articles, row) is not None


def _remember(connection: Connection, answer: Answer, now: datetime) -> None:
    state = {
        "etag": answer.known.etag,
        "last_modified": answer.known.last_modified,
        "last_status": answer.status,
        "last_error": answer.error,
        "last_fetched_at": now,
    }
    if answer.feed is not None and answer.feed.title:
        state["title"] = answer.feed.title
    connection.execute(update(feeds).where(feeds.c.id == answer.source.id).values(state))
