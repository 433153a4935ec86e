"""What a delivery sends and gets: the values that go over the wire, and the way out as a protocol.

`aiohttp_transport.py` is the real way out; the simulator has a scripted one. This module imports nothing heavy, so that
commands that send nothing start without aiohttp.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol

Kind = Literal["timeout", "network", "refused", "invalid"]


class Request(NamedTuple):
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None
    timeout: float
    """Seconds for all of it: the name's resolution, connection, TLS, redirects and the response."""
    redirects: int = 0
    """How many redirects are followed; with 0 a 3xx is the response."""
    ca: str | None = None
    certificate: str | None = None
    """Names of PEM files: the only authority that is trusted, and the client's certificate with its private key."""


class Response(NamedTuple):
    status: int
    headers: Mapping[str, str]
    """Those of `KEPT_HEADERS` that the response has, by their names in lower case."""
    excerpt: str
    """The beginning of the body as one line; every control character is shown as an escape."""
    truncated: bool
    """The body had more, or did not end in time."""
    seconds: float
    address: str | None
    """The IP address that answered."""
    redirects: int
    """How many redirects were followed."""


KEPT_HEADERS = ("retry-after", "content-type", "location")
LONGEST_KEPT_HEADER = 2_048


class NotSent(Exception):
    """There is no response.

    `timeout` and `network` may be tried again; `refused` (by the egress guard) and `invalid` (URL, header or TLS file)
    are final. The message names scheme, host and port, never path, query, a header's value or a secret.
    `is_ours`: this host had no file or memory left for a connection. The endpoint has no part in that.
    """

    def __init__(self, kind: Kind, message: str, *, is_ours: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.is_ours = is_ours


class Transport(Protocol):
    async def send(self, request: Request) -> Response: ...

    async def close(self) -> None: ...
