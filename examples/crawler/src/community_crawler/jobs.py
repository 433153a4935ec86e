"""The tasks, all in the queue `crawl`: one crawl for each community at a time, whoever asks for it.

| who asks | priority |
| --- | --- |
| a person (the page, the API) | 60: somebody waits for it |
| a schedule | its own, 10 to 30 |
| the check for what is stale | 10 |
| a link on another page | 0: nobody waits for it |
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
from community_crawler.parsing import is_name
from community_crawler.politeness import NotYet
from oncue import (
    BACKGROUND,
    SCHEDULED,
    USER_REQUESTED,
    Cancel,
    Conflict,
    Exponential,
    Oncue,
    Receipt,
    Retry,
    Skip,
    Snooze,
    cron,
    current_job,
)

QUEUE = "crawl"
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
    return opened


def _crawler() -> Crawler:
    with _opening:
        return _made()


@cache
def _made() -> Crawler:
    return Crawler(engine(), _settings, now)


def forget() -> None:
    """Close the database. Whoever needs it opens it anew, under the settings that hold then."""
    with _opening:
        if _opened.cache_info().currsize:
            _opened().dispose()
        _opened.cache_clear()
        _made.cache_clear()


async def now() -> datetime:
    """The database's time, which all workers share: hosts may disagree."""
    return (await app.connected()).now()


@app.task(queue=QUEUE, priority=BACKGROUND, max_runtime=RESET_AFTER, retry=Exponential(_settings.retry_delay))
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
    """In the transaction that keeps the page: whoever is killed has written both or neither."""
    crawl.using(key=key_of, enqueued_by="crawler", on=connection).enqueue_many(new)


@app.task(queue=QUEUE, priority=SCHEDULED)
async def request_crawl(subreddit_id: int | None = None, name: str | None = None) -> dict[str, int]:
    """Ask for a crawl at this job's own priority: what schedules run, and what people enqueue over HTTP.

    It is a job of its own because the crawl may be asked for already, and then has to become more urgent. A community
    that is known by its name only is added.
    """
    number = await asyncio.to_thread(_number, subreddit_id, name, await now())
    here = await app.job(current_job().id)
    receipt = await request(number, here.priority, here.enqueued_by)
    return {"subreddit_id": number, "job_id": receipt.id}


def _number(subreddit_id: int | None, name: str | None, now: datetime) -> int:
    if subreddit_id is not None:
        if communities.find(engine(), subreddit_id, now) is None:
            raise Cancel(f"there is no community {subreddit_id}")
        return subreddit_id
    if name is None or not is_name(name):
        raise Cancel(f"expected the id or the name of a community, not {name!r}")
    return communities.add(engine(), _settings.site, name, now)


@app.task(queue=QUEUE, priority=SCHEDULED, schedule=cron(_settings.stale_check))
async def recrawl_stale(slot: datetime) -> dict[str, int]:
    """Crawl again what was not refreshed for STALE_DAYS."""
    asked = 0
    after = timedelta(days=_settings.stale_days)
    batches = communities.stale(await asyncio.to_thread(engine), slot, after)
    while batch := await asyncio.to_thread(next, batches, None):
        receipts = await crawl.using(key=key_of, priority=STALE, enqueued_by="recrawl_stale").aenqueue_many(batch)
        asked += sum(receipt.created for receipt in receipts)
        current_job().rows(asked)
    return {"asked": asked}


async def request(subreddit_id: int, priority: int = USER_REQUESTED, by: str = "user") -> Receipt:
    """Ask for a crawl of a community. One that is asked for already, less urgently, becomes as urgent as this."""
    receipt = await crawl.using(key=key_of, priority=priority, enqueued_by=by).aenqueue(subreddit_id)
    if not receipt.created:
        with suppress(Conflict):  # it has ended meanwhile: a moment ago is recent enough
            if (await app.job(receipt.id)).priority < priority:
                await app.prioritize(receipt.id, priority)
    return receipt
