"""The pool of PostgreSQL connections: none is left behind."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import asyncpg

from oncue.store.postgres.connections import Connections, translated


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


async def test_operators_can_tell_its_sessions_from_others(postgres_url: str) -> None:
    asked = "select current_setting('application_name')"
    for url, name in ((postgres_url, "oncue"), (f"{postgres_url}&application_name=shop", "shop")):
        pool = Connections(url, 1, prepare=True, timeout=30)
        async with pool.use() as connection:
            assert await connection.fetchval(asked) == name
        await pool.close()


def test_a_cut_connection_is_told_in_words_and_not_by_the_state_of_the_driver() -> None:
    error = translated(asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress"))
    assert str(error) == "PostgreSQL does not answer: the connection was cut in the middle of an operation"


def test_a_statement_that_a_pooler_lost_is_told_with_what_to_set() -> None:
    """The driver's own advice is about its arguments, which an operator cannot reach."""
    error = translated(asyncpg.InvalidSQLStatementNameError("prepared statement does not exist\nHINT: …"))
    assert "set ONCUE_PG_PREPARE=false" in str(error)
    assert "HINT" not in str(error)
