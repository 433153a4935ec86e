"""Bytes on a socket that are hardly HTTP: wrong lengths, broken chunks, two requests in one, ends in the middle.

Much of it never reaches the application. What does is counted, and whatever is answered is no server error.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from random import Random

from fuzz import calls, grammar
from fuzz.judge import SERVER_ERROR
from fuzz.site import Site
from fuzz.wire import Request
from oncue.server.address import ListenAddress, listen
from oncue.server.http import HttpServer

PATIENCE_SECONDS = 5.0
STATUS = re.compile(rb"^HTTP/1\.[01] (\d\d\d) ", re.MULTILINE)
"""Of every answer on a connection: bodies have no such lines."""


async def run(site: Site, seed: int, numbers: range) -> None:
    async with _serving(site) as port:
        for number in numbers:
            dice = Random(f"{seed}:sockets:{number}")
            sent = dice.choice(WAYS)(_written(site, dice), dice)
            answer = await _exchange(port, sent, dice)
            for status in map(int, STATUS.findall(answer)):
                if status >= 500:
                    what = f"{site.wire.part} seed {seed} number {number}: {sent[:300]!r} -> {status}: {answer[:300]!r}"
                    site.wire.tally.fault(SERVER_ERROR, what)
        alive = await _exchange(
            port, b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", Random(1)
        )
        if not alive.startswith(b"HTTP/1.1 200 "):
            site.wire.tally.fault(SERVER_ERROR, f"{site.wire.part} seed {seed}: the server is gone: {alive[:300]!r}")


@asynccontextmanager
async def _serving(site: Site) -> AsyncIterator[int]:
    listening = listen(ListenAddress("127.0.0.1", 0))
    server = HttpServer(site.wire, listening)
    await server.start()
    try:
        yield listening.getsockname()[1]
    finally:
        await server.close()


async def _exchange(port: int, sent: bytes, dice: Random) -> bytes:
    """Send this, in pieces or at once, and read what comes back until the other side closes, or we lose patience."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = b""
    with suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            pieces = [sent] if dice.random() < 0.8 else [sent[: len(sent) // 2], sent[len(sent) // 2 :]]
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            if dice.random() < 0.2:
                writer.transport.abort()  # nobody waits for the answer
            else:
                writer.write_eof()
            answer = await reader.read()
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
    return answer


# --- what is sent ---------------------------------------------------------------------------------------------------


def _written(site: Site, dice: Random) -> Request:
    call = calls.change(site.world, dice) if dice.random() < 0.7 else calls.look(site.world, dice)
    request = call.request(calls.bearer(site.world.token), (b"host", b"127.0.0.1"), (b"connection", b"close"))
    return grammar.altered(request, dice) if dice.random() < 0.3 else request


def _line(request: Request) -> bytes:
    return f"{request.method} {request.target} HTTP/1.1".encode()


def _http(
    request: Request, *headers: tuple[bytes, bytes], line: bytes | None = None, body: bytes | None = None
) -> bytes:
    content = b"".join(request.body) if body is None else body
    lines = [_line(request) if line is None else line, *(b": ".join(header) for header in (*request.headers, *headers))]
    return b"\r\n".join([*lines, b"", content])


def _sized(request: Request, dice: Random) -> bytes:
    return _http(request, (b"content-length", str(len(b"".join(request.body))).encode()))


def _wrong_length(request: Request, dice: Random) -> bytes:
    size = len(b"".join(request.body))
    said = dice.choice(
        (size + 1, size + 1000, max(size - 1, 0), 0, 10**9, 10**30, -1, "x", "", f"{size}, {size}", "0x10", "+3")
    )
    return _http(request, (b"content-length", str(said).encode()))


def _chunked(request: Request, dice: Random) -> bytes:
    body = b"".join(request.body)
    size = dice.choice((1, 7, 1000))
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return _http(request, (b"transfer-encoding", b"chunked"), body=chunks + b"0\r\n\r\n")


def _broken_chunks(request: Request, dice: Random) -> bytes:
    broken = dice.choice(
        (b"zz\r\n", b"5\r\nab\r\n0\r\n\r\n", b"fffffffffffffffff\r\n", b"2\r\n{}", b"-1\r\n", b"\r\n",
         b"2;x=y\r\n{}\r\n0\r\nX: 1\r\n\r\n")
    )  # fmt: skip
    return _http(request, (b"transfer-encoding", dice.choice((b"chunked", b"CHUNKED", b"gzip"))), body=broken)


def _both(request: Request, dice: Random) -> bytes:
    return _http(request, (b"content-length", b"2"), (b"transfer-encoding", b"chunked"), body=b"2\r\n{}\r\n0\r\n\r\n")


def _other_line(request: Request, dice: Random) -> bytes:
    target = request.target.encode()
    line = dice.choice(
        (b"GET " + target + b" HTTP/1.0", b"GET " + target + b" HTTP/9.9", b"GET " + target, b"get / HTTP/1.1",
         b"\r\n\r\nGET / HTTP/1.1", b"PRI * HTTP/2.0", b"GET http://x/health HTTP/1.1", b"CONNECT x:1 HTTP/1.1",
         b"GET /\xff HTTP/1.1", b"GET /a b HTTP/1.1", b"OPTIONS * HTTP/1.1", b"\x16\x03\x01\x02\x00\x01",
         b"GET " + b"/a" * 40_000 + b" HTTP/1.1", b"GET /%00%ff?%00 HTTP/1.1")
    )  # fmt: skip
    return _http(request, line=line)


def _other_headers(request: Request, dice: Random) -> bytes:
    odd = dice.choice(
        ((b"x", b"a\r\n b"), (b"host", b"twice"), (b"x" * 70_000, b"1"), (b"x", b"\x00"), (b"x y", b"1"), (b"", b"1"),
         (b"x", b"\xff\xfe"), (b"expect", b"100-continue"), (b"upgrade", b"websocket"), (b"upgrade", b"h2c"),
         (b"content-length", b"2\r\ncontent-length: 3"))
    )  # fmt: skip
    return _http(request, odd)


def _several(request: Request, dice: Random) -> bytes:
    """Two requests, one after the other, on one connection that stays open in between."""
    open_ = replace(request, headers=tuple(header for header in request.headers if header[0] != b"connection"))
    return _sized(open_, dice) + _sized(request, dice)


def _cut(request: Request, dice: Random) -> bytes:
    whole = _sized(request, dice)
    return whole[: dice.randrange(len(whole))]


def _large(request: Request, dice: Random) -> bytes:
    body = json.dumps({"task": "letter", "args": {"to": "x" * dice.choice((100_000, 1_100_000, 3_000_000))}}).encode()
    return _sized(replace(request, method="POST", target=calls.JOBS, body=(body,)), dice)


WAYS: list[Callable[[Request, Random], bytes]] = [
    _sized, _wrong_length, _wrong_length, _chunked, _broken_chunks, _both, _other_line, _other_headers, _several, _cut,
    _large,
]  # fmt: skip
