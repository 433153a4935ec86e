"""Whose turn it is at a site: one rule for all workers together, kept by the database."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from community_crawler.communities import add
from community_crawler.crawling import Closed, Crawler, Useless
from community_crawler.database import writing
from community_crawler.fetching import FetchFailed
from community_crawler.politeness import NotYet, Politeness
from community_crawler.settings import Settings
from community_crawler.site.server import Manners
from community_crawler.sites import OCCUPIED, Turn, end_visit, leave_alone, site_id, take_turn
from sqlalchemy import Engine

from tests.examples.conftest import NOW
from tests.examples.crawler.conftest import Serve
from tests.examples.crawler.serving import Served

SECOND = timedelta(seconds=1)
PER_SECOND = 20


@pytest.fixture
def site(engine: Engine) -> int:
    with writing(engine) as connection:
        return site_id(connection, "http://site.example")


def take(engine: Engine, site: int, now: datetime, delay: float = 1.0, at_once: int = 2) -> Turn:
    return take_turn(engine, site, now, delay=delay, at_once=at_once, longest=10.0)


def test_there_is_a_pause_between_any_two_visits(engine: Engine, site: int) -> None:
    assert take(engine, site, NOW).visit is not None
    assert take(engine, site, NOW + 0.4 * SECOND) == Turn(None, 0.6)
    assert take(engine, site, NOW + SECOND).visit is not None
    with writing(engine) as connection:
        other = site_id(connection, "http://other.example")
    assert take(engine, other, NOW).visit is not None


def test_no_more_visits_at_once_than_allowed_and_a_dead_workers_visit_ends_by_itself(engine: Engine, site: int) -> None:
    first = take(engine, site, NOW, delay=0.0)
    assert first.visit is not None
    assert take(engine, site, NOW, delay=0.0).visit is not None
    assert take(engine, site, NOW, delay=0.0) == Turn(None, OCCUPIED)
    end_visit(engine, site, first.visit, NOW)
    assert take(engine, site, NOW, delay=0.0).visit is not None
    assert take(engine, site, NOW + 9 * SECOND, delay=0.0).visit is None
    assert take(engine, site, NOW + 10 * SECOND, delay=0.0).visit is not None


def test_a_site_that_asks_for_patience_is_left_alone_by_everybody(engine: Engine, site: int) -> None:
    leave_alone(engine, site, NOW + 5 * SECOND)
    leave_alone(engine, site, NOW + 3 * SECOND)
    assert take(engine, site, NOW + SECOND) == Turn(None, 4.0)
    assert take(engine, site, NOW + 5 * SECOND).visit is not None


def test_of_many_who_ask_at_the_same_moment_one_may_go(engine: Engine, site: int) -> None:
    with ThreadPoolExecutor(8) as threads:
        turns = list(threads.map(lambda _: take(engine, site, NOW, at_once=8), range(8)))
    assert sum(turn.visit is not None for turn in turns) == 1


async def test_whoever_would_wait_for_long_is_told_when_to_come_back(engine: Engine, site: int) -> None:
    async def now() -> datetime:
        return NOW

    politeness = Politeness(engine, at_once=2, longest=10.0, now=now)
    await politeness.leave_alone(site, 3600)
    with pytest.raises(NotYet) as told:
        async with politeness.visit(site, 0.0):
            pass
    assert told.value.after == 3600


async def test_a_visit_that_fails_gives_its_seat_back(engine: Engine, site: int) -> None:
    async def now() -> datetime:
        return NOW

    politeness = Politeness(engine, at_once=1, longest=10.0, now=now)
    for _ in range(3):
        with pytest.raises(RuntimeError):
            async with asyncio.timeout(10), politeness.visit(site, 0.0):
                raise RuntimeError("whatever")


@pytest.fixture
def here(serve: Serve) -> Served:
    return serve(32, Manners(crawl_delay=1 / PER_SECOND, slow=0.0, failures=0))


async def test_two_processes_together_keep_the_pace(engine: Engine, here: Served) -> None:
    """What the site asks for in robots.txt, as the site itself sees it. Only waiting for the pause takes time here."""
    at_once = 2
    numbers = [add(engine, here.origin, name, NOW) for name in here.site.communities]

    async def now() -> datetime:
        return datetime.now(UTC)

    crawlers = [Crawler(engine, Settings(at_once=at_once), now) for _ in range(2)]

    async def crawl(position: int, number: int) -> None:
        with suppress(Closed, Useless, FetchFailed):
            await crawlers[position % 2].crawl(number, lambda connection, new: None)

    await crawl(0, numbers[0])
    await asyncio.gather(*(crawl(position, number) for position, number in enumerate(numbers)))
    seen = here.site.watch
    most = PER_SECOND + at_once + 1  # robots.txt itself comes without a pause
    assert seen.requests > most, "too few to tell"
    assert seen.most_in_a_second <= most
    assert seen.most_at_once <= at_once
