"""Servers that send too much or too slowly, and a client that meets 200 of each; `test_bombs.py` runs both.

The client is a process of its own, since its memory is measured: `python -m tests.webhooks.bombs PORT`.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import resource
import sys
from collections.abc import AsyncIterator
from itertools import count

from oncue.webhooks.aiohttp_transport import AiohttpTransport
from oncue.webhooks.egress import Allowed
from oncue.webhooks.transport import NotSent, Request
from tests.webhooks.servers import Got

PARALLEL = 200
TIMEOUT = 1.5
GZIPPED = gzip.compress(bytes(10_000_000))
WIDE = b"x" * 8_000


async def endless_body() -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\n\r\n"
    while True:
        yield bytes(65_536)


async def endless_chunks() -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    while True:
        yield b"1\r\nx\r\n" * 4_096


async def gzip_bomb() -> AsyncIterator[bytes]:
    """1,000 to 1: ten megabytes in ten kilobytes."""
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(GZIPPED)}\r\n\r\n"
    yield head.encode() + GZIPPED


async def endless_gzip() -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"
    while True:
        yield GZIPPED


async def dripping_body() -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    while True:
        yield b"x"
        await asyncio.sleep(1)


async def dripping_header() -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nX: "
    while True:
        yield b"x"
        await asyncio.sleep(1)


async def endless_headers() -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\n"
    for number in count():
        yield b"X-%d: y\r\n" % number


async def wide_headers() -> AsyncIterator[bytes]:
    """As many and as long ones as aiohttp alone would take; a megabyte of them."""
    yield b"HTTP/1.1 200 OK\r\n"
    for number in range(127):
        yield b"X-%d: %s\r\n" % (number, WIDE)
    await asyncio.sleep(60)


async def endless_line() -> AsyncIterator[bytes]:
    yield b"HTTP/1.1 200 "
    while True:
        yield WIDE


async def endless_interim() -> AsyncIterator[bytes]:
    while True:
        yield b"HTTP/1.1 100 \r\n\r\n" * 4_096


async def endless_responses() -> AsyncIterator[bytes]:
    while True:
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" * 2_048


BOMBS = {
    bomb.__name__: bomb
    for bomb in (
        endless_body, endless_chunks, gzip_bomb, endless_gzip, dripping_body, dripping_header, endless_headers,
        wide_headers, endless_line, endless_interim, endless_responses,
    )
}  # fmt: skip
ANSWERED = {"endless_body", "endless_chunks", "gzip_bomb", "endless_gzip", "dripping_body", "endless_responses"}
"""Their status comes in time."""


async def explode(got: Got, writer: asyncio.StreamWriter) -> None:
    bomb = BOMBS.get(got.line.split()[1][1:])
    if bomb is None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        return
    async for part in bomb():
        writer.write(part)
        await writer.drain()


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def meet(port: int) -> dict[str, object]:
    loop = asyncio.get_running_loop()
    found: dict[str, object] = {}
    async with AiohttpTransport(Allowed.parse([f"127.0.0.1:{port}"])) as transport:

        async def send(name: str) -> tuple[str, float]:
            began = loop.time()
            try:
                response = await transport.send(Request("POST", f"http://127.0.0.1:{port}/{name}", {}, b"{}", TIMEOUT))
                outcome = str(response.status)
            except NotSent as error:
                outcome = error.kind
            return outcome, loop.time() - began

        await send("plain")
        before = peak()
        for name in BOMBS:
            results = await asyncio.gather(*(send(name) for _ in range(PARALLEL)))
            outcomes = sorted({outcome for outcome, _ in results})
            found[name] = [outcomes, max(seconds for _, seconds in results), (peak() - before) / 1e6]
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(meet(int(sys.argv[1])))))
