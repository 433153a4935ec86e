"""How many jobs match a filter, and finding those with a key or a group without reading the whole table."""

from __future__ import annotations

from typing import Any

import pytest

from oncue.model import JobCount, JobFilter
from oncue.store import Store
from tests.store.scene import NOW, a_batch, after, enter, put, settle, take


async def a_shop(store: Store) -> dict[str, list[int]]:
    """Jobs of two queues and two tasks: some wait, one runs, some have ended; some have a group or a key."""
    node = await enter(store)
    ended = await put(store, 3)
    await settle(store, await take(store, node, 3))
    running = await put(store)
    await take(store, node, 1)
    waiting = await put(store, 2, task="write", queue="mail")
    grouped = await put(store, 2, task="write", queue="mail", group="tenant:7")
    keyed = [(await store.jobs.enqueue([a_batch(keys=["invoice:7"])]))[0].id]
    addressed = await put(store, address="node:beta", task="print", created_at=after(minutes=5))
    return {
        "ended": ended,
        "running": running,
        "waiting": waiting,
        "grouped": grouped,
        "keyed": keyed,
        "addressed": addressed,
    }


FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["ended", "running", "waiting", "grouped", "keyed", "addressed"]),
    ({"states": ("succeeded",)}, ["ended"]),
    ({"states": ("running",)}, ["running"]),
    ({"states": ("queued", "running")}, ["running", "waiting", "grouped", "keyed", "addressed"]),
    ({"queue": "mail"}, ["waiting", "grouped"]),
    ({"task": "write"}, ["waiting", "grouped"]),
    ({"group": "tenant:7"}, ["grouped"]),
    ({"key": "invoice:7"}, ["keyed"]),
    ({"queue": "mail", "group": "tenant:7", "states": ("queued",)}, ["grouped"]),
    ({"queue": "nowhere"}, []),
    ({"address": "node:beta"}, ["addressed"]),
    ({"since": after(minutes=1)}, ["addressed"]),
    ({"until": after(minutes=1), "states": ("succeeded",)}, ["ended"]),
    ({"since": NOW, "until": after(minutes=1), "task": "write"}, ["waiting", "grouped"]),
]


@pytest.mark.parametrize(("wanted", "names"), FILTERS, ids=lambda value: str(value)[:60])
async def test_counted_are_those_that_are_listed(store: Store, wanted: dict[str, Any], names: list[str]) -> None:
    jobs = await a_shop(store)
    ids = sorted((job_id for name in names for job_id in jobs[name]), reverse=True)
    assert [job.id for job in await store.jobs.find(JobFilter(**wanted))] == ids
    assert (await store.jobs.count(JobFilter(**wanted), 100)).matching == len(ids)
    newest = await store.jobs.newest(JobFilter(**wanted))
    assert [job.id for job in await store.jobs.among(newest, JobFilter(**wanted, short=True))] == ids


async def middle(store: Store, task: str) -> int:
    return (await store.jobs.newest(JobFilter(task=task)))[14]


async def test_counting_looks_at_no_more_than_it_is_told(store: Store) -> None:
    await put(store, 30)
    await put(store, 2, group="tenant:7")
    await put(store, 30, task="write")
    assert await store.jobs.count(JobFilter(), 50) == JobCount(50, 50)
    assert await store.jobs.count(JobFilter(states=("queued",)), 50) == JobCount(50, 50)
    assert await store.jobs.count(JobFilter(task="write"), 50) == JobCount(30, 30)
    assert await store.jobs.count(JobFilter(task="write", before=await middle(store, "write")), 50) == JobCount(15, 15)
    assert await store.jobs.count(JobFilter(group="tenant:7"), 40) == JobCount(2, 40)
    assert await store.jobs.count(JobFilter(group="tenant:7"), 30) == JobCount(0, 30)


async def test_the_newest_go_on_from_an_id(store: Store) -> None:
    ids = await put(store, 5)
    assert await store.jobs.newest(JobFilter(limit=2)) == [ids[4], ids[3]]
    assert await store.jobs.newest(JobFilter(states=("queued",), before=ids[3], limit=2)) == [ids[2], ids[1]]
    assert await store.jobs.newest(JobFilter(before=ids[0])) == []
