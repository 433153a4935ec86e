"""Stands between an application and PostgreSQL: it can refuse to answer, or swallow a reply."""

from __future__ import annotations

import asyncio
import contextlib

from tests.middleman import CHUNK, End, Middleman


class Proxy(Middleman):
    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.doomed = b""
        """The answer to a question that contains this is swallowed, and the line is cut."""
        self.swallowed = asyncio.Event()
        self.cut = asyncio.Event()

    async def _between(self, asker: End, server: End) -> None:
        asked = asyncio.Event()
        await asyncio.gather(
            self._pass_on(asker.reader, server.writer, asked), self._pass_back(server.reader, asker.writer, asked)
        )

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: asyncio.Event) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(CHUNK):
                if self.doomed and self.doomed in data:
                    self.doomed = b""
                    asked.set()
                writer.write(data)
        writer.close()

    async def _pass_back(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: asyncio.Event
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(CHUNK):
                if asked.is_set():
                    self.swallowed.set()
                    await self.cut.wait()
                    break
                writer.write(data)
        writer.close()
