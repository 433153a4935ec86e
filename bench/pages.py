"""How many statements a piece of work sends to PostgreSQL, and how many pages those touch.

The work itself runs: a verb of the store, a pass of the scheduler, a bare claim. Its connections are counted as it uses
them, so no figure repeats a statement or its parameters, and none has to change when they do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import asyncpg

# Pages of tables, indexes and sequences that this session has asked for, in the buffers or not. The server hands them
# over to its statistics only between transactions, so within one the difference is exact.
ASKED_FOR = """
select coalesce(sum(pg_stat_get_xact_blocks_fetched(oid)), 0)::bigint
  from pg_class where relnamespace = 'public'::regnamespace
"""
SENDING = ("execute", "executemany", "fetch", "fetchrow", "fetchval")


@dataclass
class Tally:
    statements: int = 0
    pages: int = 0


class Counting:
    """A connection that counts what is sent on it."""

    def __init__(self, connection: asyncpg.Connection, tally: Tally) -> None:
        self._connection = connection
        self._tally = tally

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._connection, name)
        return partial(self._counted, found) if name in SENDING else found

    async def _counted(self, send: Callable[..., Awaitable[Any]], *words: Any, **options: Any) -> Any:
        async with self._connection.transaction():
            before = await self._connection.fetchval(ASKED_FOR)
            answer = await send(*words, **options)
            self._tally.pages += await self._connection.fetchval(ASKED_FOR) - before
        self._tally.statements += 1
        return answer


def counted(store: Any) -> Tally:
    """Count what this store sends from now on. It must not have connected yet."""
    tally, connections = Tally(), store.database.connections
    connect = connections.connect

    async def counting() -> Any:
        return Counting(await connect(), tally)

    connections.connect = counting
    return tally
