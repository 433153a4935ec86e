"""The tasks. A community has at most one unfinished crawl, by every way in: the task declares its own key.

| who asks | priority |
| --- | --- |
| a person on the page | 60: a person waits for it |
| the API, a schedule | their own, 0 by default; 10 to 30 are good ones for schedules |
| the check for what is stale | 10 |
| a link on another page | 0: no person waits for it |

Crawls are in a queue of their own, so that its figures are those of crawls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from threading import RLock
from typing import Any

from sqlalchemy import Connection, Engine

from community_crawler import communities, database, settings
from community_crawler.crawling import Busy, Closed, Crawler, TooMany, Useless
from community_crawler.politeness import NotYet
from oncue import (
    BACKGROUND,
    SCHEDULED,
    USER_REQUESTED,
    Cancel,
    Conflict,
    Exponential,
    JobNotFound,
    Oncue,
    Receipt,
    Retry,
    Skip,
    Snooze,
    cron,
    current_job,
)

QUEUE = "crawl"
UPKEEP = "upkeep"
STALE = 10
MOST_SNOOZES = 20
"""A page that asks for patience again and again uses up retries from then on, so that its job ends some day."""

app = Oncue(name="crawler")
_settings = settings.load()
RESET_AFTER = timedelta(minutes=_settings.reset_after_min)
_opening = RLock()  # the first jobs of a worker begin at the same time


def key_of(subreddit_id: int) -> str:
    return f"community:{subreddit_id}"


def engine() -> Engine:
    """The database that oncue's tables are in too, opened when it is first needed."""
    with _opening:
        return _opened()


@cache
def _opened() -> Engine:
    opened = database.connect(app.settings.database_url)
    database.create_tables(opened)
    database.create_views(opened, app.settings.schema)
    return opened


def _crawler() -> Crawler:
    with _opening:
        return _made()


@cache
def _made() -> Crawler:
    return Crawler(engine(), _settings, now)


def forget() -> None:
    """Close the database. It is opened anew when it is needed, under the settings that hold then."""
    with _opening:
        if _opened.cache_info().currsize:
            _opened().dispose()
        _opened.cache_clear()
        _made.cache_clear()


async def now() -> datetime:
    """The database's time, which all workers share: hosts may disagree."""
    return await app.now()


@app.task(
    queue=QUEUE, priority=BACKGROUND, key=key_of, max_runtime=RESET_AFTER, retry=Exponential(_settings.retry_delay)
)
async def crawl(subreddit_id: int) -> dict[str, Any]:
    """Fetch a community's page, keep it with its links, and enqueue what is new among them."""
    job = current_job()
    try:
        crawler = await asyncio.to_thread(_crawler)
        crawled = await crawler.crawl(subreddit_id, enqueue_discovered)
    except NotYet as error:
        if isinstance(error, TooMany) and job.attempt > MOST_SNOOZES:
            raise Retry(str(error), after=error.after) from None
        raise Snooze(error.after, str(error)) from None
    except Busy as error:
        raise Retry(str(error), after=error.after) from None
    except Closed as error:
        raise Skip(str(error)) from None
    except Useless as error:
        raise Cancel(str(error)) from None
    job.rows(crawled.new)
    return {"status": crawled.status, "links": crawled.links, "new": crawled.new}


def enqueue_discovered(connection: Connection, new: Sequence[int]) -> None:
    """In the transaction that keeps the page: a worker that is killed has written both or neither."""
    crawl.using(enqueued_by="crawler", on=connection).enqueue_many(new)


@app.task(queue=UPKEEP, priority=SCHEDULED, schedule=cron(_settings.stale_check))
async def recrawl_stale(slot: datetime) -> dict[str, int]:
    """Crawl again what was not refreshed for STALE_DAYS."""
    asked = 0
    after = timedelta(days=_settings.stale_days)
    batches = communities.stale(await asyncio.to_thread(engine), slot, after)
    while batch := await asyncio.to_thread(next, batches, None):
        receipts = await crawl.using(priority=STALE, enqueued_by="recrawl_stale").aenqueue_many(batch)
        asked += sum(receipt.created for receipt in receipts)
        current_job().rows(asked)
    return {"asked": asked}


async def request(subreddit_id: int, priority: int = USER_REQUESTED, by: str = "user") -> Receipt:
    """Ask for a crawl of a community. One that is asked for already, less urgently, becomes as urgent as this."""
    receipt = await crawl.using(priority=priority, enqueued_by=by).aenqueue(subreddit_id)
    if not receipt.created:
        await hurry(receipt.id, priority)
    return receipt


async def hurry(job_id: int, priority: int) -> None:
    """Make a crawl that is asked for already at least as urgent as this."""
    with suppress(Conflict, JobNotFound):  # it has ended meanwhile: a moment ago is recent enough
        if (await app.jobs.get(job_id)).priority < priority:
            await app.jobs.prioritize(job_id, priority)


async def add_community(name: str) -> int:
    """The number of a community of the site that names belong to; it is added if it is new."""
    return await asyncio.to_thread(communities.add, engine(), _settings.site, name, await now())


def community_named(name: str) -> int | None:
    return communities.id_of(engine(), _settings.site, name)
