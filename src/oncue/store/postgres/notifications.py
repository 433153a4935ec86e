"""Wake-ups by LISTEN and NOTIFY. They are hints: a process that hears none polls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

import asyncpg

from oncue.errors import StoreError, StoreUnavailable
from oncue.model import State
from oncue.store.contract import Wake
from oncue.store.postgres.connections import Connections
from oncue.store.postgres.hints import Debounce, TravellingHint

NOW, LATER = "", "later"  # what a notification says; the statements send the first
LATER_GAP = 0.1

_log = logging.getLogger("oncue.store")


class Notifications:
    def __init__(self, connections: Connections, channel: str, *, listen: bool) -> None:
        self._connections = connections
        self._channel = channel
        self._hints = Debounce(lambda: self._notify(NOW))
        self._later_hints = Debounce(lambda: self._notify(LATER), gap=LATER_GAP)
        self._listen = listen
        self._can_notify = True
        self._watcher: asyncio.Task[None] | None = None

    def take(self) -> TravellingHint | None:
        """The hint that the caller may send itself, along with what it writes."""
        return self._hints.take()

    def send(self) -> None:
        """Tell the other processes soon that something may have changed."""
        self._hints.send()

    def send_for(self, states: Collection[State]) -> None:
        """Jobs took these states: tell the nodes that may claim them, now or later."""
        if "queued" in states:
            self._hints.send()
        if "scheduled" in states or "retrying" in states:
            self._later_hints.send()

    async def watch(self, wake: Wake) -> None:
        if self._listen and self._watcher is None:
            self._watcher = asyncio.get_running_loop().create_task(self._keep_listening(wake))

    async def close(self) -> None:
        await self._hints.close()
        await self._later_hints.close()
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)

    async def _keep_listening(self, wake: Wake) -> None:
        """Hold one connection that listens, for as long as the store is open."""
        heard = True
        while True:
            try:
                await self._listen_once(wake)
                heard = True
            except (StoreError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                if heard and await self._answers():  # else the services report that it does not
                    _log.warning("this process hears of new jobs by polling until it can listen again: %s", error)
                    heard = False
            await asyncio.sleep(1.0)

    async def _answers(self) -> bool:
        """Whether the database answers on another connection."""
        try:
            async with self._connections.use() as connection:
                await connection.fetchval("select 1")
        except StoreError:
            return False
        return True

    async def _listen_once(self, wake: Wake) -> None:
        connection = await self._connections.connect()
        cut = asyncio.Event()
        connection.add_termination_listener(lambda _: cut.set())
        try:
            async with asyncio.timeout(self._connections.timeout):
                await connection.add_listener(self._channel, lambda *told: wake(told[-1] == LATER))
            wake(True)  # for what was sent while this process did not listen
            await cut.wait()
        finally:
            connection.terminate()

    async def _notify(self, what: str) -> None:
        """Send a hint in the background. While the database is away, the services report that."""
        try:
            async with self._connections.use() as connection:
                await connection.execute("select pg_notify($1, $2)", self._channel, what)
            self._can_notify = True
        except StoreUnavailable:
            pass
        except StoreError as error:
            if self._can_notify:
                _log.warning("this process cannot tell others of new jobs, so they find them by polling: %s", error)
            self._can_notify = False
