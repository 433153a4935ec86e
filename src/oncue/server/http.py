"""An HTTP server inside the application's event loop. The application owns the signals."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from oncue.server.connections import BoundedProtocol, Crowd, HttpLimits

CLOSE_SECONDS = 2


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.answers = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        finally:
            self.answers.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpServer:
    def __init__(self, api: ASGIApp, listening: socket.socket, limits: HttpLimits | None = None) -> None:
        limits = limits or HttpLimits()
        self._listening = listening
        options: dict[str, Any] = {  # uvicorn's types are narrower than what it takes
            "http": partial(BoundedProtocol, limits, Crowd()),
            "timeout_keep_alive": limits.idle,
        }
        self._server = _Server(
            uvicorn.Config(
                api, ws="none", lifespan="off", log_config=None, access_log=False,
                timeout_graceful_shutdown=CLOSE_SECONDS, **options,
            )
        )  # fmt: skip
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._serving = asyncio.create_task(self._server.serve([self._listening]), name="oncue-http")
        await self._server.answers.wait()
        if not self._server.started:
            await self._serving  # raises what kept it from starting

    def sockets(self) -> list[int]:
        """The descriptors that it listens on and answers on."""
        transports = [protocol.transport for protocol in self._server.server_state.connections]
        talking = [transport.get_extra_info("socket") for transport in transports if not transport.is_closing()]
        return [number for number in (self._listening.fileno(), *(one.fileno() for one in talking)) if number >= 0]

    async def close(self) -> None:
        """Answer what was asked already, for a moment at most, and stop listening."""
        self._server.should_exit = True
        if self._serving is not None:
            await asyncio.gather(self._serving, return_exceptions=True)
        self._listening.close()
