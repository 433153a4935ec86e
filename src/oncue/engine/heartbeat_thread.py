"""The heartbeat's own thread, event loop and connection: a handler that keeps the main loop busy costs no lease."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future

from oncue.clock import Clock
from oncue.engine.runner import Runner
from oncue.engine.service import Service
from oncue.engine.starting import Patience, unless
from oncue.errors import StoreError
from oncue.store.contract import Store
from oncue.telemetry import Telemetry


class HeartbeatThread:
    """Runs services on `store` in a thread until it is stopped."""

    def __init__(
        self,
        store: Store,
        services: Sequence[Service],
        clock: Clock,
        telemetry: Telemetry,
        end_leases: Callable[[], Awaitable[None]],
        patience: Patience,
    ) -> None:
        self._store = store
        self._services = services
        self._clock = clock
        self._telemetry = telemetry
        self._end_leases = end_leases
        self._patience = patience
        self._beating: Future[None] = Future()
        self._ended: Future[None] = Future()
        self._looping: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=self._run, name="oncue-heartbeat", daemon=True)

    async def start(self) -> None:
        """Returns after the first beat; raises what kept it from beating."""
        self._thread.start()
        await asyncio.shield(asyncio.wrap_future(self._beating))

    async def stop(self) -> None:
        if self._thread.ident is None:
            return
        loop, stopping = await asyncio.wrap_future(self._looping)
        with contextlib.suppress(RuntimeError):  # it has ended by itself
            loop.call_soon_threadsafe(stopping.set)
        await asyncio.wrap_future(self._ended)

    def _run(self) -> None:
        try:
            asyncio.run(self._beat())
        except BaseException as error:
            if not self._beating.done():
                self._beating.set_exception(error)
            else:
                raise
        finally:
            self._ended.set_result(None)

    async def _beat(self) -> None:
        stopping = asyncio.Event()
        self._looping.set_result((asyncio.get_running_loop(), stopping))
        runner = Runner(self._clock, self._telemetry)
        try:
            if await unless(stopping.wait(), self._patience.take(self._first_beat)):
                self._beating.set_result(None)
                runner.start(self._services)
            await stopping.wait()
        finally:
            await runner.stop()
            with contextlib.suppress(StoreError):
                await self._end_leases()
            await self._store.close()

    async def _first_beat(self) -> bool:
        await self._store.open()
        for service in self._services:
            await service.tick(self._clock.now())
        return True
