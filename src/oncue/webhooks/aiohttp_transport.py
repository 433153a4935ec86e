"""The way out to the internet: one request with all its redirects, by aiohttp.

Time-outs (HOOK-4): `Request.timeout` for all of it, of that at most 10 s for connection and TLS, and 30 s for the
header of the response. A response whose status came in time counts, also if its body does not end.

What is read is bounded: 32 KiB of header, 64 KiB of body. Nothing is decompressed (`Accept-Encoding: identity` asks for
that). What is kept is an excerpt of 1 KiB.

A server may close an idle connection in the moment in which a request is sent on it. A POST then ends as `network` and
is tried again by its ladder: nobody knows whether it arrived. GET, PUT, DELETE and the like are sent once more by
aiohttp at once, as HTTP allows.
"""

from __future__ import annotations

import asyncio
import errno
import math
import os
import socket
import ssl
from codecs import getincrementaldecoder
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Self

from aiohttp import (
    BytesPayload,
    ClientConnectorCertificateError,
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientError,
    ClientResponse,
    ClientResponseError,
    ClientSession,
    ClientTimeout,
    ConnectionTimeoutError,
    DummyCookieJar,
    ServerDisconnectedError,
    SocketTimeoutError,
)
from aiohttp.connector import Connection
from yarl import URL

from oncue import __version__
from oncue.errors import InvalidWebhook
from oncue.observe.visible import visible
from oncue.policy.urls import checked_parts
from oncue.webhooks.connections import BODY_BYTES, LINE_BYTES, GuardedConnector, Refused
from oncue.webhooks.egress import HOW_TO_ALLOW, Allowed
from oncue.webhooks.name_lookups import Lookup, system_lookup
from oncue.webhooks.redirects import next_hop
from oncue.webhooks.tls_files import TlsFiles
from oncue.webhooks.transport import KEPT_HEADERS, LONGEST_KEPT_HEADER, NotSent, Request, Response

OUR_ERRORS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
"""What a system says that has no room for another connection of its own."""
CONNECT_TIMEOUT = 10.0
HEADER_TIMEOUT = 30.0
REMEMBER_NAMES = 10.0
EXCERPT = 1_024
LARGE_BODY = 1024 * 1024

OURS = frozenset({
    "connection", "content-length", "expect", "host", "keep-alive", "proxy-authorization", "proxy-connection", "te",
    "trailer", "transfer-encoding", "upgrade",
})  # fmt: skip
"""Headers that say how a request is sent. A webhook that set one could hide a second request in its first."""


class AiohttpTransport:
    """`lookup` finds the addresses of names; tests hand in one of their own."""

    def __init__(
        self,
        allowed: Allowed,
        tls_directory: Path | None = None,
        *,
        lookup: Lookup = system_lookup,
        remember_names: float = REMEMBER_NAMES,
    ) -> None:
        self._allowed = allowed
        self._tls = TlsFiles(tls_directory)
        self._lookup = lookup
        self._remember_names = remember_names
        self._session: ClientSession | None = None

    async def send(self, request: Request) -> Response:
        now = asyncio.get_running_loop().time
        began = now()
        asked, followed, left = request, 0, request.timeout
        while True:
            answer = await self._answer(asked, left, request.timeout)
            following = _following(asked, answer) if followed < request.redirects else None
            if following is None:
                break
            asked, followed = following, followed + 1
            left = request.timeout - (now() - began)
        excerpt, truncated = await _excerpt(answer)
        headers = _kept_headers(answer)
        return Response(answer.status, headers, excerpt, truncated, now() - began, answer.address, followed)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _answer(self, request: Request, left: float, timeout: float) -> _Answer:
        """The response to one request, as far as its header. `left` of the time-out is for this one."""
        url, origin = _checked(request)
        if left <= 0:
            raise NotSent("timeout", f"{origin}: no response within {timeout:g} s")
        session = self._session or self._opened()
        try:
            answer = await session.request(
                request.method,
                url,
                headers=request.headers,
                data=_data(request.body),
                allow_redirects=False,
                timeout=_timeout(left),
                ssl=self._tls.context(request.ca, request.certificate),
            )
        except Exception as error:  # its text may hold path and query: only what `_not_sent` takes from it is told
            raise _not_sent(origin, error, timeout) from None
        assert isinstance(answer, _Answer)
        return answer

    def _opened(self) -> ClientSession:
        """In the loop that sends: aiohttp's sessions belong to one."""
        self._session = ClientSession(
            connector=GuardedConnector(self._allowed, self._lookup, self._remember_names),
            cookie_jar=DummyCookieJar(),
            headers={"User-Agent": f"oncue/{__version__}", "Accept-Encoding": "identity"},
            response_class=_Answer,
            trust_env=False,
            auto_decompress=False,
            read_bufsize=BODY_BYTES,  # more is never read, so that reading need not pause
            max_line_size=LINE_BYTES,
            max_field_size=LINE_BYTES,
        )
        return self._session


class _Answer(ClientResponse):
    address: str | None = None

    async def start(self, connection: Connection) -> ClientResponse:
        # Later is too late: a short response gives its connection back before anybody has it.
        if connection.transport is not None:
            peer = connection.transport.get_extra_info("peername")
            self.address = str(peer[0]) if peer else None
        return await super().start(connection)


def _following(asked: Request, answer: _Answer) -> Request | None:
    location = answer.headers.get("Location")
    try:
        following = next_hop(asked, answer.status, location)
    except NotSent:
        answer.release()
        raise
    if following is not None:
        answer.release()
    return following


def _checked(request: Request) -> tuple[URL, str]:
    """The URL and its origin."""
    try:
        url, origin = _target(request.url)
    except InvalidWebhook as error:
        raise NotSent("invalid", str(error)) from None
    if not OURS.isdisjoint(map(str.lower, request.headers)):
        name = next(name for name in request.headers if name.lower() in OURS)
        raise NotSent("invalid", f"{origin}: the header {name} is not a webhook's to set")
    return url, origin


@lru_cache(maxsize=1_024)
def _target(text: str) -> tuple[URL, str]:
    parts = checked_parts(text)
    return URL(parts.url, encoded=True), parts.origin


@lru_cache(maxsize=128)
def _timeout(total: float) -> ClientTimeout:
    """The exact time-outs: aiohttp would round those of more than 5 s up to whole seconds."""
    header = HEADER_TIMEOUT if total > HEADER_TIMEOUT else None
    return ClientTimeout(total=total, sock_connect=CONNECT_TIMEOUT, sock_read=header, ceil_threshold=math.inf)


def _data(body: bytes | None) -> BytesPayload | BytesIO | None:
    """As a payload: of bytes, aiohttp would make one too, after a search for what can."""
    if body is None:
        return None
    return BytesIO(body) if len(body) >= LARGE_BODY else BytesPayload(body)  # aiohttp sends the former in parts


async def _excerpt(answer: _Answer) -> tuple[str, bool]:
    """The beginning of the body, and whether there is more. It is read to its end, so that the connection is kept."""
    content, kept, size, whole = answer.content, b"", 0, False
    try:
        while not (whole := content.at_eof()) and size <= BODY_BYTES:
            part = await content.readany()
            size += len(part)
            kept += part[: EXCERPT - len(kept)]
    except (TimeoutError, ClientError, OSError):
        pass  # the status came in time
    finally:
        if not whole:
            answer.close()
    truncated = not whole or size > EXCERPT
    return _text(kept, truncated) if kept else "", truncated


def _text(kept: bytes, truncated: bool) -> str:
    try:
        return visible(kept.decode())
    except UnicodeDecodeError:  # the excerpt may end within a character
        return visible(getincrementaldecoder("utf-8")("replace").decode(kept, final=not truncated))


def _kept_headers(answer: _Answer) -> dict[str, str]:
    found = ((name, answer.headers.get(name)) for name in KEPT_HEADERS)
    return {name: visible(value[:LONGEST_KEPT_HEADER]) for name, value in found if value is not None}


def _not_sent(origin: str, error: Exception, timeout: float) -> NotSent:
    match error:
        case InvalidWebhook():
            return NotSent("invalid", f"{origin}: {error}")
        case ConnectionTimeoutError():
            return NotSent("timeout", f"{origin}: no connection within {CONNECT_TIMEOUT:g} s")
        case SocketTimeoutError():
            return NotSent("timeout", f"{origin}: no response header within {HEADER_TIMEOUT:g} s")
        case TimeoutError():
            return NotSent("timeout", f"{origin}: no response within {timeout:g} s")
        case ClientConnectorError(os_error=Refused() as refused):
            return NotSent("refused", f"{origin} is {refused.what}, which webhooks may not call: {HOW_TO_ALLOW}")
        case ServerDisconnectedError():
            return NotSent("network", f"{origin}: the server closed the connection without a response")
        case ClientResponseError():
            return NotSent("network", f"{origin}: the response is not valid HTTP: {visible(error.message)[:200]}")
        case ClientConnectorDNSError():
            return NotSent("network", f"{origin}: the name was not resolved: {_reason(error.os_error)}")
        case ClientConnectorCertificateError(certificate_error=ssl.SSLCertVerificationError() as failed):
            return NotSent("network", f"{origin}: TLS: certificate verify failed: {failed.verify_message}")
        case ClientConnectorError():
            return NotSent(
                "network", f"{origin}: {_reason(error.os_error)}", is_ours=error.os_error.errno in OUR_ERRORS
            )
        case OSError():
            return NotSent("network", f"{origin}: {_reason(error)}", is_ours=error.errno in OUR_ERRORS)
        case ValueError():  # aiohttp found what the checks at save did not
            return NotSent("invalid", f"{origin}: method or headers hold characters that HTTP does not have")
        case _:
            return NotSent("network", f"{origin}: the request was not sent ({type(error).__name__})")


def _reason(error: OSError) -> str:
    """What the system said; of TLS, the reason without the place in OpenSSL's code."""
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or 'handshake failed').replace('_', ' ').lower()}"
    if error.errno is not None and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno)  # asyncio's own text names the address instead
    return visible(error.strerror or str(error) or type(error).__name__)[:200]
