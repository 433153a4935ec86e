"""Servers on this machine's own addresses, for what the transport sends: they answer bytes as a test says."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

from oncue.webhooks.egress import Allowed
from oncue.webhooks.transport import Request


class Got(NamedTuple):
    """A request as a server read it."""

    line: str
    headers: dict[str, str]
    body: bytes


Reply = Callable[[Got, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Counts connections and keeps what it was asked."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.accepted = 0
        self.open = 0
        self.got: list[Got] = []
        self.asked = asyncio.Event()
        self._closed = asyncio.Event()

    def url(self, path: str = "/", host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    def allowed(self, *more: str) -> Allowed:
        return Allowed.parse([f"127.0.0.1:{self.port}", *more])

    async def open_at_most(self, count: int) -> None:
        """Wait until so many connections are left."""
        while self.open > count:
            self._closed.clear()
            await self._closed.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self.open += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                got = await read_request(reader)
                self.got.append(got)
                self.asked.set()
                await self._reply(got, writer)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.open -= 1
            self._closed.set()
            self._tasks.discard(task)
            writer.transport.abort()

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()


async def read_request(reader: asyncio.StreamReader) -> Got:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    line, *fields = head.strip().split("\r\n")
    headers = {name.lower(): value for name, value in (field.split(": ", 1) for field in fields)}
    if headers.get("transfer-encoding") == "chunked":
        raise NotImplementedError
    return Got(line, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


@asynccontextmanager
async def serving(reply: Reply, *hosts: str, port: int = 0, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """A server on 127.0.0.1, or on these addresses, all at one port."""
    server = Server(reply)
    listeners = []
    for host in hosts or ("127.0.0.1",):
        listener = await asyncio.start_server(server.serve, host, server.port or port, ssl=tls, backlog=1024)
        server.port = listener.sockets[0].getsockname()[1]
        listeners.append(listener)
    try:
        yield server
    finally:
        for listener in listeners:
            listener.close()
        server.stop()
        await asyncio.sleep(0)


def answering(
    status: str = "200 OK", headers: Mapping[str, str] | None = None, body: bytes = b"", length: int | None = None
) -> Reply:
    fields = {"Content-Length": str(len(body) if length is None else length), **(headers or {})}
    head = f"HTTP/1.1 {status}\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items())

    async def reply(_got: Got, writer: asyncio.StreamWriter) -> None:
        writer.write(head.encode() + b"\r\n" + body)

    return reply


def sending(*parts: bytes, then_close: bool = False) -> Reply:
    """These bytes, whatever they are."""

    async def reply(_got: Got, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
        if then_close:
            writer.close()
            await writer.wait_closed()
            raise ConnectionResetError

    return reply


def post(url: str, body: bytes | None = b"{}", timeout: float = 5.0, **more: object) -> Request:
    headers = {"Content-Type": "application/json"}
    return Request("POST", url, headers, body, timeout)._replace(**more)


class Trap:
    """Listens at every address of this machine, IPv4 and IPv6, and counts whoever comes."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]

    def caught(self) -> int:
        count = 0
        while True:
            try:
                self._listener.accept()[0].close()
            except BlockingIOError:
                return count
            count += 1

    def close(self) -> None:
        self._listener.close()
