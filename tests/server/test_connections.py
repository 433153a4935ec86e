"""Half-sent requests, over real sockets: how long they stay open, and whom they keep out."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from oncue.server.address import ListenAddress, listen
from oncue.server.connections import HttpLimits
from oncue.server.http import HttpServer

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
POST = b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
LONG = 3600.0
SOON = 0.05
LATER = 0.7
"""Where something must happen before it, also on a busy machine."""
PATIENCE = 30.0


class Application:
    """Answers when it has the whole body; `/large` with more than any buffer takes; `/wait` when it is told to.

    The second half of an answer waits until the first one is taken off, or given up.
    """

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        self.asked = asyncio.Semaphore(0)
        self.ended = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        more = scope["path"] != "/unread"
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            more = message["more_body"]
        self.asked.release()
        if scope["path"] == "/wait":
            await self.goes_on.wait()
        half = b"x" * 25_000_000 if scope["path"] == "/large" else b""
        last = half or b"ok"
        headers = [(b"content-length", str(len(half + last)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": half, "more_body": True})
        await send({"type": "http.response.body", "body": last})
        self.ended.set()


@asynccontextmanager
async def serving(application: Application, **limits: Any) -> AsyncIterator[int]:
    listening = listen(ListenAddress("127.0.0.1", 0))
    server = HttpServer(application, listening, HttpLimits(**{"head": LONG, "body": LONG, "idle": LONG, **limits}))
    await server.start()
    try:
        yield listening.getsockname()[1]
    finally:
        application.goes_on.set()
        await server.close()


class Peer:
    """The other end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, data: bytes) -> Peer:
        self._writer.write(data)
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()
        return self

    async def rest(self) -> bytes:
        """What comes until the server closes the connection."""
        async with asyncio.timeout(PATIENCE):
            try:
                return await self._reader.read()
            except ConnectionError:
                return b""

    async def answer(self) -> bytes:
        async with asyncio.timeout(PATIENCE):
            return await self._reader.readuntil(b"ok")

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


@asynccontextmanager
async def peers(port: int, count: int = 1) -> AsyncIterator[list[Peer]]:
    made = [Peer(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(count)]
    try:
        yield made
    finally:
        for peer in made:
            await peer.close()


async def health(port: int) -> bytes:
    async with peers(port) as (peer,):
        return await (await peer.send(HEALTH)).rest()


@pytest.mark.parametrize(
    ("limits", "sent", "answered"),
    [
        ({"head": SOON}, b"", b""),
        ({"head": SOON}, b"GET /health HT", b"The head of the request did not arrive within 0.05 s."),
        ({"body": SOON}, POST + b"x" * 10, b"The body of the request did not arrive within 0.05 s."),
        ({"body": LATER}, POST.replace(b"/jobs", b"/unread"), None),
        ({"idle": SOON}, HEALTH.replace(b"close", b"keep-alive"), None),
        ({"idle": SOON}, HEALTH.replace(b"close", b"keep-alive") + b"GET /half", None),
    ],
)
async def test_what_does_not_come_is_not_waited_for(
    limits: dict[str, float], sent: bytes, answered: bytes | None
) -> None:
    """All other time-outs are an hour."""
    async with serving(Application(), **limits) as port, peers(port) as (peer,):
        rest = await (await peer.send(sent)).rest()
    if answered is None:
        assert rest.startswith(b"HTTP/1.1 200 ")
    else:
        assert rest.startswith(b"HTTP/1.1 408 ") == bool(answered)
        assert rest.endswith(answered)


@pytest.mark.parametrize(("limits", "start", "drip"), [({"head": 0.3}, b"GET /", b"a"), ({"body": 0.3}, POST, b"x")])
async def test_a_byte_now_and_then_gives_no_more_time(limits: dict[str, float], start: bytes, drip: bytes) -> None:
    async with serving(Application(), **limits) as port, peers(port) as (peer,):
        await peer.send(start)
        rest = asyncio.ensure_future(peer.rest())
        while not rest.done():
            await peer.send(drip)
            await asyncio.wait([rest], timeout=0.02)
    # Bytes that arrive after it was closed reset a connection, and its last answer may be lost with it.
    assert (await rest)[:13] in (b"HTTP/1.1 408 ", b"")


async def test_the_next_request_of_a_connection_has_its_own_time() -> None:
    async with serving(Application(), head=LATER) as port, peers(port) as (peer,):
        for _ in range(2):
            await peer.send(HEALTH.replace(b"close", b"keep-alive"))
            assert (await peer.answer()).startswith(b"HTTP/1.1 200 ")
        assert (await (await peer.send(b"GET /half")).rest()).startswith(b"HTTP/1.1 408 ")


async def test_a_request_that_is_complete_may_take_its_time() -> None:
    application = Application()
    async with serving(application, head=LATER, body=LATER) as port, peers(port, 2) as (peer, half):
        await peer.send(b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await application.asked.acquire()
        assert (await (await half.send(POST)).rest()).startswith(b"HTTP/1.1 408 "), "so much time has passed"
        application.goes_on.set()
        assert (await peer.answer()).startswith(b"HTTP/1.1 200 ")


async def test_an_answer_that_is_not_taken_off_is_given_up() -> None:
    application = Application()
    async with serving(application, body=SOON) as port, peers(port) as (peer,):
        await peer.send(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(PATIENCE):  # nothing is read before it is given up
            await application.ended.wait()
        assert len(await peer.rest()) < 25_000_000


async def test_half_sent_requests_make_room_for_others() -> None:
    async with serving(Application(), connections=20) as port, peers(port, 60) as half:
        for peer in half:
            await peer.send(b"GET /half HTTP/1.1\r\nHost: ")
        assert (await health(port)).startswith(b"HTTP/1.1 200 ")
        # The oldest went first, and the newest are there yet.
        assert [await peer.rest() for peer in half[:41]] == [b""] * 41
        assert (await (await half[-1].send(b"localhost\r\n\r\n")).answer()).startswith(b"HTTP/1.1 200 ")


async def test_nobody_is_turned_out_who_waits_for_us() -> None:
    application = Application()
    async with serving(application, connections=10) as port, peers(port, 10) as busy:
        for peer in busy:
            await peer.send(b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await application.asked.acquire()
        refused = await health(port)
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert refused.endswith(b"Too many connections are open.")
        application.goes_on.set()
        assert all([(await peer.answer()).startswith(b"HTTP/1.1 200 ") for peer in busy])
        assert (await health(port)).startswith(b"HTTP/1.1 200 "), "those who have their answer make room"
