from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from oncue.store import SqliteStore, Store
from tests.store.scene import NOW, enter


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
        await store.beat(await enter(store), NOW, NOW + hour)
        assert await store.time() == NOW
    finally:
        await store.close()
