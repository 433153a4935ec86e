"""Real servers, in a loop of their own beside the test, for clients that know nothing but an address."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from oncue import Client, Oncue
from oncue.server.address import ListenAddress, listen, url
from oncue.server.api import AccessMode, routing
from oncue.server.http import HttpServer
from tests.app.watching import Watcher
from tests.client.proxy import Proxy
from tests.server.conftest import a_shop, let_take_time
from tests.server.routes_kept import kept_routes

T = TypeVar("T")


class Aside:
    """An event loop in a thread, and everything that was started in it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.farewells: list[Callable[[], Coroutine[Any, Any, None]]] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(90)

    def close(self) -> None:
        for farewell in reversed(self.farewells):
            self.run(farewell())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Site:
    """Whatever is served, at an address."""

    def __init__(self, aside: Aside, served: ASGIApp) -> None:
        self.aside = aside
        self._served = served
        self._listening = listen(ListenAddress("127.0.0.1", 0))
        self._listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or every answer waits for 40 ms
        self.url = url(self._listening, "")
        self._server = HttpServer(self, self._listening)
        aside.run(self._server.start())
        aside.farewells.append(self._server.close)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._served(scope, receive, send)


class Shop(Site):
    """The admin API of a shop. It remembers which routes were asked for."""

    def __init__(self, aside: Aside, app: Oncue, access: AccessMode) -> None:
        self.app = app
        app.override({"queues": "default,mail,sums"})
        kept = kept_routes()
        self.gate = kept.gate(app, access)
        self.asked: list[tuple[str, str]] = []

        async def farewell() -> None:
            await app.aclose()
            kept.put_back()

        aside.farewells.append(farewell)
        super().__init__(aside, self.gate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = routing.find(self.gate.api.routes, scope).route
        self.asked.append((scope["method"], getattr(found, "path_format", "")))
        await self._served(scope, receive, send)

    def work(self, *ids: int, then: Callable[[], T]) -> T:
        """Run these jobs to their end, and do something while the worker is still there."""

        async def done() -> T:
            watcher = Watcher(self.app)
            async with self.app.worker():
                await watcher.ended(ids)
                return await asyncio.to_thread(then)

        return self.aside.run(done())


@pytest.fixture
def aside() -> Iterator[Aside]:
    aside = Aside()
    yield aside
    aside.close()


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of the surroundings; and what does get an answer may take its time."""
    let_take_time(monkeypatch)
    monkeypatch.delenv("ONCUE_URL", raising=False)
    monkeypatch.delenv("ONCUE_TOKEN", raising=False)


@pytest.fixture
def shop(aside: Aside, sqlite_url: str, tmp_path: Path) -> Shop:
    """A shop where the back end does not matter."""
    return Shop(aside, a_shop(sqlite_url, tmp_path), AccessMode.LOOPBACK)


@pytest.fixture
def stored_shop(aside: Aside, database_url: str, tmp_path: Path) -> Shop:
    """A shop on each back end."""
    return Shop(aside, a_shop(database_url, tmp_path), AccessMode.LOOPBACK)


@pytest.fixture
def client(shop: Shop) -> Iterator[Client]:
    with Client(shop.url) as client:
        yield client


@pytest.fixture
def make_proxy(aside: Aside) -> Callable[[str], Proxy]:
    """Stands between a client and a server."""

    def make(target: str) -> Proxy:
        proxy = Proxy(target)
        aside.run(proxy.start())
        aside.farewells.append(proxy.close)
        return proxy

    return make
