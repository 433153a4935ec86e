"""The pool of PostgreSQL connections: none is left behind."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from oncue.store.connections import Connections


async def test_a_pool_that_is_cut_off_while_it_closes_leaves_no_connection_open(postgres_url: str) -> None:
    pool = Connections(postgres_url, 3, prepare=True, timeout=30)
    async with AsyncExitStack() as loans:
        lent = [await loans.enter_async_context(pool.use()) for _ in range(3)]
    closing = asyncio.create_task(pool.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    assert closing.cancelled()
    assert [connection.is_closed() for connection in lent] == [True] * 3
