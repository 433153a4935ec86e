from __future__ import annotations

import asyncio
import gc
import logging
from typing import Any

import asyncpg
import pytest

from oncue.model import Released
from oncue.store import PostgresStore, Store
from tests.conftest import MakeStore
from tests.store.scene import NOW, after, enter, put, settle, take


class Bell:
    """Counts wake-ups, and lets a test wait for the next one."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        self._rung.set()

    async def heard(self) -> None:
        async with asyncio.timeout(60):
            await self._rung.wait()
        self._rung.clear()

    async def quiet(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        except TimeoutError:
            return True
        return False


async def watched(store: Store) -> Bell:
    """A bell on this store, after its first ring, which says only that somebody listens now."""
    bell = Bell()
    await store.watch(lambda _: bell.ring())
    await bell.heard()
    return bell


async def test_an_enqueue_elsewhere_is_noticed(store: Store, make_store: MakeStore) -> None:
    bell = await watched(store)
    await put(await make_store())
    await bell.heard()
    assert len(await take(store, await enter(store))) == 1


async def test_every_one_of_many_enqueues_is_followed_by_a_wake_up(store: Store, make_store: MakeStore) -> None:
    bell, other = await watched(store), await make_store()
    node = await enter(store)
    taken = 0
    for _ in range(20):
        await put(other)
        await bell.heard()
        while not (claims := await take(store, node)):
            await bell.heard()
        taken += len(claims)
    assert taken == 20


async def test_a_large_enqueue_elsewhere_is_noticed(store: Store, make_store: MakeStore) -> None:
    bell = await watched(store)
    await put(await make_store(), 10_001)
    await bell.heard()


async def test_a_released_job_and_a_request_to_cancel_are_noticed(store: Store, make_store: MakeStore) -> None:
    other = await make_store()
    node = await enter(other)
    await put(other, 2)
    first, second = await take(other, node)
    bell = await watched(store)
    await settle(other, [first], Released())
    await bell.heard()
    await other.jobs.request_cancel(second.id, second.claim_no, NOW)
    await bell.heard()


async def test_a_resumed_queue_is_noticed(store: Store, make_store: MakeStore) -> None:
    other = await make_store()
    await other.queues.pause("default", NOW)
    bell = await watched(store)
    await other.queues.resume("default", after(seconds=1))
    await bell.heard()


async def test_looking_for_work_wakes_nobody(store: Store, make_store: MakeStore) -> None:
    other = await make_store()
    node = await enter(other)
    bell = await watched(store)
    assert await take(other, node) == []
    assert await other.jobs.promote(NOW, 10) is None
    assert await other.nodes.expire(NOW) == []
    assert await bell.quiet(0.1)


REFUSE = """
create function public.pg_notify(text, text) returns void language plpgsql
    as $$ begin raise exception 'too many notifications'; end $$
"""


async def test_a_hint_that_is_refused_is_told_once(postgres_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is sent in the background, where nobody waits for it: an error that nobody takes floods the standard error."""
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    connection = await asyncpg.connect(postgres_url)
    await connection.execute(REFUSE)
    store = PostgresStore(f"{postgres_url}&search_path=public,pg_catalog")
    try:
        with caplog.at_level(logging.WARNING, "oncue"):
            for _ in range(5):
                await store.queues.pause("default", NOW)
                await store.queues.resume("default", NOW)
    finally:
        await store.close()  # sends what waits to be told
        await connection.execute("drop function public.pg_notify(text, text)")
        await connection.close()
    gc.collect()
    assert unhandled == []
    (told,) = caplog.messages
    assert told.endswith("so they find them by polling: PostgreSQL refused: too many notifications")
