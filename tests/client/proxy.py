"""Stands between a client and a server: it swallows answers, keeps them for itself, or hangs up."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from urllib.parse import urlsplit


class Proxy:
    def __init__(self, target: str) -> None:
        self.target = target
        self._lines: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.url = ""
        self.swallow = 0
        """So many answers are swallowed, and their lines cut."""
        self.keep = False
        """Whether answers are kept back while the line stays."""
        self.kept = threading.Event()
        self.away = False
        self.swallowed = threading.Event()
        self.connections = 0
        self.heads: list[str] = []
        """What the requests began with."""

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        await self.hang_up()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def hang_up(self) -> None:
        for line in list(self._lines):
            line.close()
            with contextlib.suppress(ConnectionError):
                await line.wait_closed()

    def keys(self) -> list[str]:
        """The idempotency keys of the requests, in order."""
        marked = "idempotency-key: "
        lines = (line for head in self.heads for line in head.lower().splitlines())
        return [line.removeprefix(marked) for line in lines if line.startswith(marked)]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._lines.add(writer)
        self.connections += 1
        try:
            if not self.away:
                await self._between(reader, writer)
        except OSError:
            pass  # nobody is there
        finally:
            writer.close()
            self._lines.discard(writer)
            self._tasks.discard(task)

    async def _between(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = urlsplit(self.target)
        back_reader, back_writer = await asyncio.open_connection(target.hostname, target.port)
        self._lines.add(back_writer)
        try:
            there = asyncio.create_task(self._pass_on(reader, back_writer))
            await self._pass_back(back_reader, writer)
            there.cancel()
            await asyncio.gather(there, return_exceptions=True)
        finally:
            back_writer.close()
            self._lines.discard(back_writer)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            head, _, _ = data.partition(b"\r\n\r\n")
            if b" HTTP/1.1\r\n" in head:
                self.heads.append(head.decode("latin-1"))
            writer.write(data)
        if not self.keep:
            writer.close()  # else the answer is still waited for

    async def _pass_back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if self.swallow:
                self.swallow -= 1
                self.swallowed.set()
                return
            if self.keep:
                self.kept.set()
            else:
                writer.write(data)
