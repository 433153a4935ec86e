"""Fetching one page over HTTP, however the server behaves: bounded in time and in size. Writes nothing.

A redirect is not followed but handed back: where it leads may be somebody else's site, or not for us.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import aiohttp

AGENT = "community-crawler"
USER_AGENT = f"{AGENT}/1.0"
ACCEPT = "text/html, application/xhtml+xml;q=0.9, */*;q=0.1"
CHUNK_BYTES = 65_536
LONGEST_PAUSE = 86_400.0
"""A server that asks for more patience than this is asked again after it."""


class FetchFailed(Exception):
    """There was no answer, or one that says nothing about the page: trying again may help."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class TooLarge(Exception):
    """The body is larger than allowed: trying again would not help."""


@dataclass(frozen=True, slots=True)
class Limits:
    seconds: float
    bytes: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said. The body is read only if it is to be used (200)."""

    status: int
    body: bytes = b""
    content_type: str = ""
    charset: str = "utf-8"
    etag: str | None = None
    location: str = ""
    retry_after: float | None = None

    @property
    def is_html(self) -> bool:
        return self.content_type in ("text/html", "application/xhtml+xml")


async def fetch(url: str, limits: Limits, etag: str | None = None) -> Answer:
    """Ask for a page, unless it still has this ETag. Raises FetchFailed or TooLarge, and nothing else."""
    headers = {"User-Agent": USER_AGENT, "Accept": ACCEPT}
    if etag is not None:
        headers["If-None-Match"] = etag
    try:
        async with (
            asyncio.timeout(limits.seconds),
            aiohttp.ClientSession(headers=headers, cookie_jar=aiohttp.DummyCookieJar()) as http,
            http.get(url, allow_redirects=False) as response,
        ):
            return await _answer(response, limits.bytes)
    except TimeoutError:
        raise FetchFailed(f"no complete answer within {limits.seconds:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise FetchFailed(f"{type(error).__name__}: {error}") from None


async def _answer(response: aiohttp.ClientResponse, limit: int) -> Answer:
    headers = response.headers
    return Answer(
        status=response.status,
        body=await _read(response, limit) if response.status == 200 else b"",
        content_type=response.content_type,
        charset=response.charset or "utf-8",
        etag=headers.get("ETag"),
        location=headers.get("Location", ""),
        retry_after=pause(headers.get("Retry-After"), headers.get("Date")),
    )


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """The body, given up as soon as it is larger than allowed. The size counts after decompression."""
    content = bytearray()
    async for chunk in response.content.iter_chunked(CHUNK_BYTES):
        content += chunk
        if len(content) > limit:
            raise TooLarge(f"larger than {limit} bytes")
    return bytes(content)


def pause(retry_after: str | None, date: str | None = None) -> float | None:
    """The seconds that a Retry-After asks for; a date in it counts from the server's own."""
    if retry_after is None:
        return None
    if retry_after.strip().isdecimal():
        return min(float(retry_after), LONGEST_PAUSE)
    then, now = _instant(retry_after), _instant(date) or datetime.now(UTC)
    return None if then is None else min(max((then - now).total_seconds(), 0.0), LONGEST_PAUSE)


def _instant(text: str | None) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
