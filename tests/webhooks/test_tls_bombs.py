"""TLS that never comes to its end: a handshake that hangs, drips or has no end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from oncue.webhooks.aiohttp_transport import AiohttpTransport
from oncue.webhooks.egress import Allowed
from oncue.webhooks.transport import NotSent
from tests.webhooks.servers import post

pytestmark = pytest.mark.contract("HOOK-4", "HOOK-19")

PARALLEL = 20
TIMEOUT = 1.0
HANDSHAKE, ALERT, CHANGE_CIPHER = b"\x16\x03\x03", b"\x15\x03\x03", b"\x14\x03\x03"


async def silent() -> AsyncIterator[bytes]:
    await asyncio.sleep(60)
    yield b""


async def dripping() -> AsyncIterator[bytes]:
    """The header of a long record, and then a byte now and then."""
    yield HANDSHAKE + b"\x40\x00\x02\x00\x3f\xfc"
    while True:
        yield b"\x03"
        await asyncio.sleep(0.05)


async def endless_hello() -> AsyncIterator[bytes]:
    """A message of 16 MB, in records of 16 KB."""
    yield HANDSHAKE + b"\x00\x04\x02\xff\xff\xff"
    while True:
        yield HANDSHAKE + b"\x40\x00" + bytes(16_384)


async def endless_warnings() -> AsyncIterator[bytes]:
    while True:
        yield (ALERT + b"\x00\x02\x01\x5a") * 1_000


async def endless_changes() -> AsyncIterator[bytes]:
    while True:
        yield (CHANGE_CIPHER + b"\x00\x01\x01") * 1_000


async def empty_records() -> AsyncIterator[bytes]:
    while True:
        yield (HANDSHAKE + b"\x00\x00") * 1_000


async def garbage() -> AsyncIterator[bytes]:
    while True:
        yield bytes(65_536)


HANDSHAKES = [silent, dripping, endless_hello, endless_warnings, endless_changes, empty_records, garbage]


class Handshaking:
    """A server that answers the first bytes of each connection with this."""

    def __init__(self, parts: Callable[[], AsyncIterator[bytes]]) -> None:
        self._parts = parts
        self.met = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.met += 1
        try:
            await reader.read(1)
            async for part in self._parts():
                writer.write(part)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def handshaking(parts: Callable[[], AsyncIterator[bytes]]) -> AsyncIterator[tuple[Handshaking, int]]:
    answering = Handshaking(parts)
    server = await asyncio.start_server(answering.serve, "127.0.0.1")
    try:
        yield answering, server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def outcome(transport: AiohttpTransport, url: str) -> str:
    try:
        return str((await transport.send(post(url, timeout=TIMEOUT))).status)
    except NotSent as error:
        return error.kind


@pytest.mark.parametrize("parts", HANDSHAKES, ids=lambda parts: parts.__name__)
async def test_a_handshake_without_end_ends_with_the_attempt(parts: Callable[[], AsyncIterator[bytes]]) -> None:
    async with (
        handshaking(parts) as (server, port),
        AiohttpTransport(Allowed.parse(["127.0.0.1"])) as transport,
        asyncio.timeout(60),
    ):
        url = f"https://127.0.0.1:{port}/"
        found = await asyncio.gather(*(outcome(transport, url) for _ in range(PARALLEL)))
        assert set(found) <= {"timeout", "network"}
        assert server.met == PARALLEL, "none was tried twice"
