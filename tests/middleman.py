"""Stands between whoever speaks to PostgreSQL and the server, on a socket of its own; it may refuse, or hang up."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import parse_qs, urlsplit

SOCKET = ".s.PGSQL.5432"
CHUNK = 65536


class End(NamedTuple):
    """One end of a line: the asking one, or the server's."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Middleman:
    """What it does with a line is for those to say that stand on it: `_between`."""

    def __init__(self, url: str) -> None:
        self._target = str(Path(parse_qs(urlsplit(url).query)["host"][0]) / SOCKET)
        self._folder = tempfile.TemporaryDirectory(prefix="oncue-proxy-")  # short: the path of a socket is limited
        self._lines: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[object]] = set()
        self._server: asyncio.Server | None = None
        self.url = url.replace(url.split("host=")[1], self._folder.name)
        self.away = False
        self.refused = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._serve, str(Path(self._folder.name) / SOCKET))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.hang_up()
        for line in list(self._lines):
            with contextlib.suppress(ConnectionError):
                await line.wait_closed()
        await asyncio.gather(*self._serving, return_exceptions=True)
        self._folder.cleanup()

    def hang_up(self) -> None:
        for line in list(self._lines):
            line.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._lines.add(writer)
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            if self.away:
                self.refused.set()
                writer.close()
                return
            back_reader, back_writer = await asyncio.open_unix_connection(self._target)
            self._lines.add(back_writer)
            try:
                await self._between(End(reader, writer), End(back_reader, back_writer))
            finally:
                back_writer.close()
                self._lines.discard(back_writer)
        except OSError:
            writer.close()  # nobody is there
        finally:
            self._lines.discard(writer)
            self._serving.discard(task)

    async def _between(self, asker: End, server: End) -> None:
        raise NotImplementedError
