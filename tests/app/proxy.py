"""Stands between an application and PostgreSQL: it can refuse to answer, or swallow a reply."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

SOCKET = ".s.PGSQL.5432"


class Proxy:
    def __init__(self, url: str) -> None:
        self._target = str(Path(parse_qs(urlsplit(url).query)["host"][0]) / SOCKET)
        self._folder = tempfile.TemporaryDirectory(prefix="oncue-proxy-")  # short: the path of a socket is limited
        self._lines: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.url = url.replace(url.split("host=")[1], self._folder.name)
        self.away = False
        self.refused = asyncio.Event()
        self.doomed = b""
        """The answer to a question that contains this is swallowed, and the line is cut."""
        self.swallowed = asyncio.Event()
        self.cut = asyncio.Event()

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_unix_server(self._serve, str(Path(self._folder.name) / SOCKET))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.hang_up()
        for line in self._lines:
            with contextlib.suppress(ConnectionError):
                await line.wait_closed()
        self._folder.cleanup()

    def hang_up(self) -> None:
        for line in self._lines:
            line.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._lines.add(writer)
        if self.away:
            self.refused.set()
            writer.close()
            return
        back_reader, back_writer = await asyncio.open_unix_connection(self._target)
        self._lines.add(back_writer)
        asked = asyncio.Event()
        await asyncio.gather(self._pass_on(reader, back_writer, asked), self._pass_back(back_reader, writer, asked))

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: asyncio.Event) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                if self.doomed and self.doomed in data:
                    self.doomed = b""
                    asked.set()
                writer.write(data)
        writer.close()

    async def _pass_back(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: asyncio.Event
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                if asked.is_set():
                    self.swallowed.set()
                    await self.cut.wait()
                    break
                writer.write(data)
        writer.close()
