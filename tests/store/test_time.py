from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from oncue.store import SqliteStore, Store
from tests.store.scene import NOW, a_step, enter, plan


async def test_the_database_tells_its_time_in_utc(store: Store) -> None:
    told = await store.time()
    assert told.utcoffset() == timedelta(0)
    assert abs(told - datetime.now(UTC)) < timedelta(minutes=1)


async def test_time_does_not_run_backwards(store: Store) -> None:
    first = await store.time()
    assert await store.time() >= first


async def test_a_host_clock_that_steps_back_does_not_take_an_embedded_database_with_it(tmp_path: Path) -> None:
    hour = timedelta(hours=1)
    readings = iter([NOW, NOW - hour])
    store = SqliteStore(str(tmp_path / "oncue.db"), wall=lambda: next(readings))
    await store.open()
    try:
        assert await store.time() == NOW
        await store.nodes.beat(await enter(store), NOW, NOW + hour)
        assert await store.time() == NOW
    finally:
        await store.close()


async def test_what_is_known_of_the_time_does_not_run_backwards_either(tmp_path: Path) -> None:
    """A beat may come late, and a decision is a sign of the time as good as a beat."""
    hour = timedelta(hours=1)
    store = SqliteStore(str(tmp_path / "oncue.db"), wall=lambda: NOW - 9 * hour)
    await store.open()
    try:
        node = await enter(store)
        schedule = await plan(store)
        assert await store.slots.decide([a_step(schedule, cursor=NOW)], NOW, by="tests") == [True]
        assert await store.time() == NOW
        await store.nodes.beat(node, NOW + hour, NOW + 2 * hour, 1)
        await store.nodes.beat(node, NOW, NOW + hour, 1)
        assert await store.time() == NOW + hour
    finally:
        await store.close()
