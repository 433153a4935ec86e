"""Statements on PostgreSQL that are waited for too long, all timed by one timer."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator

import asyncpg
import pytest

from oncue.errors import StoreUnavailable
from oncue.store.postgres.connections import Connections

SHORT = 0.05
SLEEPS = "select count(*) from pg_stat_activity where query = 'select pg_sleep(61)' and state = 'active'"


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncIterator[Connections]:
    pool = Connections(url, 4, prepare=True, timeout=30.0)
    yield pool
    await pool.close()


async def sleep(pool: Connections, seconds: float) -> None:
    async with pool.use(seconds) as connection:
        await connection.fetch("select pg_sleep(61)")


async def lent(pool: Connections) -> None:
    """Wait until somebody has a connection."""
    async with asyncio.timeout(30):
        for pause in itertools.repeat(0.001):
            if pool.watch.loans:
                return
            await asyncio.sleep(pause)


async def test_a_statement_that_takes_too_long_is_given_up_and_cancelled(postgres_url: str) -> None:
    async with opened(postgres_url) as pool:
        with pytest.raises(StoreUnavailable, match="it took too long"):
            await sleep(pool, SHORT)
        watcher = await asyncpg.connect(postgres_url)
        async with asyncio.timeout(30):
            while await watcher.fetchval(SLEEPS):
                await watcher.execute("select pg_sleep(0.02)")
        await watcher.close()
        async with pool.use() as connection:
            assert await connection.fetchval("select 1") == 1


async def test_one_that_may_take_longer_goes_on_while_others_are_given_up(postgres_url: str) -> None:
    async with opened(postgres_url) as pool, pool.use() as long:
        patient = asyncio.ensure_future(long.fetchval("select 2 from pg_sleep(0.3)"))
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="it took too long"):
                await sleep(pool, SHORT)
        assert await patient == 2


async def test_a_caller_that_is_cancelled_is_cancelled(postgres_url: str) -> None:
    async with opened(postgres_url) as pool:
        caller = asyncio.ensure_future(sleep(pool, 30.0))
        await lent(pool)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller


async def test_a_caller_that_is_cancelled_when_its_time_is_over_is_cancelled(postgres_url: str) -> None:
    async with opened(postgres_url) as pool:
        caller = asyncio.ensure_future(sleep(pool, 30.0))
        await lent(pool)
        (loan,) = pool.watch.loans
        loan.end()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller


async def test_one_that_tidies_up_after_it_was_cancelled_hears_that_the_database_is_slow(postgres_url: str) -> None:
    async with opened(postgres_url) as pool:
        heard: list[str] = []

        async def tidy() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                try:
                    await sleep(pool, SHORT)
                except StoreUnavailable as error:
                    heard.append(str(error))

        caller = asyncio.ensure_future(tidy())
        await asyncio.sleep(0)
        caller.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await caller
        assert "it took too long" in heard[0]
