"""A dashboard that runs while a browser looks at it: a real server in a thread, and if asked a worker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from oncue import Oncue
from oncue.observe.prometheus import PrometheusMetrics
from oncue.server.address import ListenAddress, listen
from oncue.server.api import AccessMode
from oncue.server.health import Readiness
from oncue.server.http import HttpServer
from oncue.server.site import Site, site

T = TypeVar("T")


class Running:
    """From `start` to `stop`. `do(lambda app: app.jobs.get(1))` runs a verb in the server's event loop."""

    def __init__(
        self, app: Oncue, *, access: AccessMode = AccessMode.LOOPBACK, with_worker: bool = False, prefix: str = ""
    ) -> None:
        self.app = app
        self._access = access
        self._with_worker = with_worker
        self._prefix = prefix
        self._began: Future[str] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def start(self) -> Running:
        self._thread.start()
        self.url = self._began.result(timeout=30)
        return self

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(timeout=30)

    def do(self, verb: Callable[[Oncue], Coroutine[Any, Any, T]]) -> T:
        return asyncio.run_coroutine_threadsafe(verb(self.app), self._loop).result(timeout=30)

    async def _run(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        registry = PrometheusMetrics(self.app.internals.telemetry).registry
        self.site: Site = site(self.app, Readiness(self.app), registry, self._access)
        listening = listen(ListenAddress("127.0.0.1", 0))
        server = HttpServer(under(self._prefix, self.site), listening)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}{self._prefix}"
        try:
            await server.start()
            if self._with_worker:
                async with self.app.worker():
                    self._began.set_result(url)
                    await self._end.wait()
            else:
                await self.app.internals.connected()
                self._began.set_result(url)
                await self._end.wait()
        except BaseException as error:
            if not self._began.done():
                self._began.set_exception(error)
            raise
        finally:
            await self.site.aclose()
            await server.close()
            await self.app.aclose()


def under(prefix: str, inner: Any) -> Any:
    """The application mounted below a prefix, as other applications do it."""
    if not prefix:
        return inner

    async def mounted(scope: Any, receive: Any, send: Any) -> None:
        await inner({**scope, "root_path": prefix}, receive, send)

    return mounted
