"""Fetching one feed over HTTP, however it behaves: bounded in time, in size and in redirects. Writes nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import aiohttp

MOST_REDIRECTS = 5
CHUNK_BYTES = 65_536
USER_AGENT = "k2-daily-brief/1.0"
ACCEPT = "application/rss+xml, application/atom+xml, application/xml;q=0.9, */*;q=0.5"


class FetchFailed(Exception):
    """A feed could not be had. `status` is what the server answered, if it did."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Known:
    """What the server told us last time, to be shown to it again."""

    etag: str | None = None
    last_modified: str | None = None

    def headers(self) -> dict[str, str]:
        headers = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in headers.items() if value}


@dataclass(frozen=True, slots=True)
class Limits:
    seconds: float = 10.0
    bytes: int = 2_000_000


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer. `content` is None if nothing has changed since last time (304)."""

    status: int
    content: bytes | None
    content_type: str
    known: Known


def session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        headers={"User-Agent": USER_AGENT, "Accept": ACCEPT}, cookie_jar=aiohttp.DummyCookieJar()
    )


async def fetch(http: aiohttp.ClientSession, url: str, known: Known, limits: Limits) -> Fetched:
    """Get a feed, unless it is unchanged. Raises FetchFailed, and nothing else."""
    try:
        async with asyncio.timeout(limits.seconds):
            return await _fetch(http, url, known, limits)
    except TimeoutError:
        raise FetchFailed(f"no complete answer within {limits.seconds:g} s") from None
    except aiohttp.TooManyRedirects:
        raise FetchFailed(f"more than {MOST_REDIRECTS} redirects") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise FetchFailed(f"{type(error).__name__}: {error}") from None


async def _fetch(http: aiohttp.ClientSession, url: str, known: Known, limits: Limits) -> Fetched:
    async with http.get(url, headers=known.headers(), max_redirects=MOST_REDIRECTS) as response:
        if response.status == 304:
            return Fetched(304, None, "", known)
        if response.status != 200:
            raise FetchFailed(f"the server answered {response.status}", response.status)
        content = await _read(response, limits.bytes)
        told = Known(response.headers.get("ETag"), response.headers.get("Last-Modified"))
        return Fetched(200, content, response.headers.get("Content-Type", ""), told)


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """The body, given up as soon as it is larger than allowed. The size counts after decompression."""
    content = bytearray()
    async for chunk in response.content.iter_chunked(CHUNK_BYTES):
        content += chunk
        if len(content) > limit:
            raise FetchFailed(f"larger than {limit} bytes", response.status)
    return bytes(content)
