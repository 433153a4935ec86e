"""Keeping what pages say: all of it or nothing, and twice is as good as once."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest
from community_crawler import communities as keeping
from community_crawler.communities import Target, add, find, keep, stale
from community_crawler.database import reading
from community_crawler.parsing import Page
from community_crawler.tables import communities, links
from sqlalchemy import Connection, Engine, select

from tests.examples.conftest import NOW

ORIGIN = "http://site.example"


def nothing(connection: Connection, new: Sequence[int]) -> None:
    """Enqueues nothing."""


def page(*names: str) -> Page:
    return Page("A title", "About it", 7, names)


def target(engine: Engine, name: str, now: datetime = NOW) -> Target:
    found = find(engine, add(engine, ORIGIN, name, now), now)
    assert found is not None
    return found


def names(engine: Engine) -> list[str]:
    with reading(engine) as connection:
        return sorted(connection.scalars(select(communities.c.name)))


def edges(engine: Engine) -> set[tuple[str, str]]:
    source, goal = communities.alias(), communities.alias()
    query = select(source.c.name, goal.c.name).select_from(links)
    query = query.join(source, source.c.id == links.c.source_id).join(goal, goal.c.id == links.c.target_id)
    with reading(engine) as connection:
        return {(one, other) for one, other in connection.execute(query)}


def test_a_page_is_kept_with_its_links_and_only_what_is_new_is_enqueued(engine: Engine) -> None:
    enqueued: list[int] = []
    here, known = target(engine, "here"), target(engine, "known")
    assert here.url == f"{ORIGIN}/r/here"

    def enqueue(connection: Connection, new: Sequence[int]) -> None:
        enqueued.extend(new)

    assert keep(engine, here, page("b", "known", "a"), '"1"', NOW, enqueue) == 2
    assert names(engine) == ["a", "b", "here", "known"]
    assert edges(engine) == {("here", "a"), ("here", "b"), ("here", "known")}
    assert len(enqueued) == 2
    assert not {here.id, known.id}.intersection(enqueued)

    assert keep(engine, here, page("b", "known", "a"), '"1"', NOW, enqueue) == 0
    assert keep(engine, here, page("c", "a"), '"2"', NOW, enqueue) == 1
    assert edges(engine) == {("here", "a"), ("here", "c")}
    assert len(enqueued) == 3
    assert target(engine, "here").etag == '"2"'


@pytest.mark.contract("QUE-3")
def test_what_cannot_be_enqueued_was_not_found(engine: Engine) -> None:
    """Otherwise it would be known, and never be crawled."""

    def enqueue(connection: Connection, new: Sequence[int]) -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        keep(engine, target(engine, "here"), page("a", "b"), None, NOW, enqueue)
    assert (names(engine), edges(engine)) == (["here"], set())


def test_workers_that_find_the_same_at_the_same_time_share_it(engine: Engine) -> None:
    """Neither waits for the other in turn, and what is new is new to one of them."""
    found: list[int] = []

    def enqueue(connection: Connection, new: Sequence[int]) -> None:
        found.extend(new)

    sources = [target(engine, f"source{number}") for number in range(4)]
    shared = [f"n{number}" for number in range(40)]

    def crawl(number: int) -> int:
        turned = shared[number * 10 :] + shared[: number * 10]
        return keep(engine, sources[number], page(*turned[:: 1 if number % 2 else -1]), None, NOW, enqueue)

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(crawl, range(4))) == 40
    assert len(set(found)) == len(found) == 40
    assert len(edges(engine)) == 160


@pytest.mark.contract("QUE-18")
def test_what_was_not_refreshed_for_long_is_stale_in_bounded_batches(engine: Engine) -> None:
    month = timedelta(days=30)
    for number in range(5):
        add(engine, ORIGIN, f"never{number}", NOW - month - timedelta(seconds=1))
    kinds = ("fresh", "old", "failing", "hopeless")
    fresh, old, failing, hopeless = (target(engine, name, NOW - 2 * month) for name in kinds)
    keep(engine, fresh, page(), None, NOW - month, nothing)
    keep(engine, old, page(), None, NOW - 1.5 * month, nothing)
    keeping.keep_unchanged(engine, old, NOW - 1.2 * month)
    keep(engine, failing, page(), None, NOW - 1.5 * month, nothing)
    keeping.keep_failure(engine, failing, 500, "it failed", NOW - timedelta(hours=25))
    keeping.keep_failure(engine, hopeless, 500, "it failed", NOW - timedelta(hours=23))
    batches = list(stale(engine, NOW, month, batch=3))
    assert [len(batch) for batch in batches] == [3, 3, 1]
    stale_ones = {number for batch in batches for number in batch}
    assert {old.id, failing.id} <= stale_ones
    assert not {fresh.id, hopeless.id}.intersection(stale_ones)


def test_a_failure_says_why_and_keeps_what_is_known(engine: Engine) -> None:
    here = target(engine, "here")
    keep(engine, here, page("a"), '"1"', NOW, nothing)
    later = NOW + timedelta(hours=1)
    keeping.keep_failure(engine, here, 502, "the server answered 502", later)
    with reading(engine) as connection:
        row = connection.execute(select(communities).where(communities.c.id == here.id)).one()
    assert (row.status, row.last_status, row.last_error) == ("failing", 502, "the server answered 502")
    assert (row.title, row.refreshed_at, row.checked_at) == ("A title", NOW, later)
    assert edges(engine) == {("here", "a")}
