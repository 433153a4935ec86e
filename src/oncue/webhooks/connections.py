"""The connections of webhooks: dialled past the egress guard, kept in bounds, and closed when idle ones are too many.

aiohttp asks a connector's socket factory for every socket that it dials: of names and of literal addresses, of each
address that happy eyeballs tries. There alone the guard stands, so that what it judges is what is dialled.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from functools import partial
from typing import Any

from aiohttp import (
    AddrInfoType,
    ClientPayloadError,
    ClientRequest,
    ClientTimeout,
    SocketTimeoutError,
    TCPConnector,
)
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawResponseMessage
from aiohttp.streams import StreamReader
from aiohttp.tracing import Trace

from oncue.webhooks.egress import Allowed, refusal
from oncue.webhooks.name_lookups import Lookup, NameLookups

KEEPALIVE = 30.0
MOST_IDLE = 100
MOST_IDLE_PER_HOST = 10
TRIM_AFTER = 1.0
"""Seconds. A connection is idle for a moment between two deliveries: trimmed at once, few would be used twice."""

HEADER_BYTES = 32 * 1024
BODY_BYTES = 64 * 1024
FRAMING_BYTES = 4 * 1024
"""For the marks of a body's chunks. A body of one-byte chunks is six times as long, and takes long to put together."""
LINE_BYTES = 8_190
MOST_INTERIM = 8
"""How many 1xx responses may come before the response."""
RECEIVE_BUFFER = 32 * 1024
_SLICE = 1_024
_INTERIM = range(100, 200)
_SWITCHING = 101


class Refused(OSError):
    """The egress guard refused an address. All have the same text: aiohttp then raises the first, else a mixture."""

    def __init__(self, what: str) -> None:
        super().__init__(errno.EACCES, "refused by the egress guard")
        self.what = what


class GuardedConnector(TCPConnector):
    """aiohttp's limits count open connections, which seats bound already. Only idle ones are limited here (HOOK-4)."""

    def __init__(self, allowed: Allowed, lookup: Lookup, remember_names: float) -> None:
        self._allowed = allowed
        self._idle: dict[ResponseHandler, tuple[str, int | None]] = {}
        self._trimming: asyncio.TimerHandle | None = None
        super().__init__(
            limit=0,
            limit_per_host=0,
            keepalive_timeout=KEEPALIVE,
            resolver=NameLookups(lookup),
            ttl_dns_cache=remember_names,  # type: ignore[arg-type]  # it only ever adds it to a time
            socket_factory=self._dialled,
        )
        _set_protocol(self)

    def _dialled(self, info: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, address = info
        what = refusal(str(address[0]), int(address[1]), self._allowed)
        if what is not None:
            raise Refused(what)
        dialled = socket.socket(family, kind, protocol)
        # Little of a response is ever read: the kernel need not keep megabytes of it.
        dialled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        return dialled

    async def connect(self, req: ClientRequest, traces: list[Trace], timeout: ClientTimeout) -> Connection:
        connection = await super().connect(req, traces, timeout)
        protocol = connection.protocol
        assert protocol is not None
        self._idle.pop(protocol, None)
        connection.add_callback(partial(self._released, protocol, (req.url.raw_host or "", req.url.port)))
        return connection

    def _released(self, protocol: ResponseHandler, host: tuple[str, int | None]) -> None:
        if protocol.should_close:
            return
        if len(self._idle) >= 2 * MOST_IDLE:
            protocol.force_close()
            return
        self._idle[protocol] = host
        if self._trimming is None and len(self._idle) > MOST_IDLE_PER_HOST:
            self._trimming = asyncio.get_running_loop().call_later(TRIM_AFTER, self._trim)

    def _trim(self) -> None:
        """Close the idle connections over the limits, those that have been idle for longest first."""
        self._trimming = None
        kept: dict[ResponseHandler, tuple[str, int | None]] = {}
        of_host: dict[tuple[str, int | None], int] = {}
        for protocol, host in reversed(self._idle.items()):
            if not protocol.is_connected():
                continue
            if len(kept) >= MOST_IDLE or of_host.get(host, 0) >= MOST_IDLE_PER_HOST:
                protocol.close()
                continue
            kept[protocol] = host
            of_host[host] = of_host.get(host, 0) + 1
        self._idle = dict(reversed(kept.items()))

    async def close(self, *, abort_ssl: bool = False) -> None:
        if self._trimming is not None:
            self._trimming.cancel()
        self._idle.clear()
        await super().close(abort_ssl=abort_ssl)


class BoundedResponses(ResponseHandler):
    """One response to each request, and a header of bounded size.

    aiohttp parses all that one read brings. A stranger may send thousands of small responses in it, or a megabyte of
    header, and there are hundreds of connections. So this parses a slice after the other, and stops when it has enough.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._header_bytes = self._body_bytes = self._interim = 0
        self._answer: StreamReader | None = None
        self._header_timer: asyncio.TimerHandle | None = None

    def set_response_params(self, *, read_timeout: float | None = None, **params: Any) -> None:
        """A request begins. The time-out (`sock_read`) is here for the whole header, not for each read."""
        self._header_bytes = self._body_bytes = self._interim = 0
        self._answer = None
        if read_timeout is not None:
            self._header_timer = self._loop.call_later(read_timeout, self._header_is_late)
        super().set_response_params(**params)

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """The header of a response is complete."""
        message, payload = data
        if message.code in _INTERIM and message.code != _SWITCHING:
            self._interim += 1
            if self._interim > MOST_INTERIM:
                self._give_up("it sends interim responses without end")
                return
        elif self._answer is not None:
            self._cut()  # no second request was made
            return
        else:
            self._answer = payload
            self._stop_timer()
        super().feed_data(data, size)

    def data_received(self, data: bytes) -> None:
        if len(data) <= _SLICE:
            self._take(data)
            return
        for start in range(0, len(data), _SLICE):
            if self.transport is None or self.transport.is_closing():
                return
            self._take(data[start : start + _SLICE])

    def _take(self, data: bytes) -> None:
        if self._answer is None:
            self._header_bytes += len(data)
            if self._header_bytes > HEADER_BYTES:
                self._give_up(f"the header of its response is longer than {HEADER_BYTES // 1024} KiB")
                return
        elif data and self._answer.is_eof():
            self._cut()  # more than the response: it belongs to no request
            return
        else:
            self._body_bytes += len(data)
            if self._body_bytes > min(BODY_BYTES, self._answer.total_bytes) + FRAMING_BYTES:
                self._answer.set_exception(ClientPayloadError("the body is too long"))
                self._cut()
                return
        super().data_received(data)

    def _header_is_late(self) -> None:
        self._header_timer = None
        self.set_exception(SocketTimeoutError("no response header"))
        self._cut()

    def _give_up(self, reason: str) -> None:
        self.set_exception(HttpProcessingError(message=reason))
        self._cut()

    def _cut(self) -> None:
        self.force_close()
        if self.transport is not None:
            self.transport.abort()

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def close(self) -> None:
        """In the middle of a response the connection is cut: TLS would go on reading it for its polite end."""
        if self.should_close:
            self.abort()
        else:
            super().close()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)


def _set_protocol(connector: TCPConnector) -> None:
    """aiohttp has no public way to name the protocol. `test_bombs.py` fails if this one no longer works."""
    connector._factory = partial(BoundedResponses, loop=asyncio.get_running_loop())  # type: ignore[assignment]
