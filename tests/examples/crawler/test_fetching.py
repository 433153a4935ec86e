"""Fetching: bounded in time and size; redirects are told, not followed."""

from __future__ import annotations

import asyncio
import gzip

import pytest
from aiohttp import web
from community_crawler.fetching import LONGEST_PAUSE, FetchFailed, Limits, TooLarge, fetch, pause

from tests.examples.crawler.conftest import Serve
from tests.examples.crawler.serving import Served

LIMITS = Limits(5.0, 10_000)


@pytest.fixture
def here(serve: Serve) -> Served:
    return serve(60)


async def test_a_page_is_given_once_and_then_only_if_it_has_changed(here: Served) -> None:
    url = f"{here.origin}/r/harbour"
    first = await fetch(url, LIMITS)
    assert (first.status, first.is_html, first.charset) == (200, True, "utf-8")
    assert b"Related communities" in first.body
    again = await fetch(url, LIMITS, first.etag)
    assert (again.status, again.body) == (304, b"")


async def test_a_redirect_is_told_and_not_followed(here: Served) -> None:
    moved = here.some("moved")
    answer = await fetch(f"{here.origin}/r/{moved.name}", LIMITS)
    assert (answer.status, answer.location) == (301, f"/r/{moved.links[0]}")
    assert here.site.watch.requests == 1


async def test_what_is_too_large_is_given_up_also_when_it_comes_packed(here: Served) -> None:
    with pytest.raises(TooLarge, match="larger than 10000 bytes"):
        await fetch(f"{here.origin}/r/{here.some('huge').name}", LIMITS)
    packed = gzip.compress(b" " * 1_000_000)
    url = here.say("/packed", text=None, body=packed, headers={"Content-Encoding": "gzip"})  # type: ignore[arg-type]
    assert len(packed) < 10_000
    with pytest.raises(TooLarge):
        await fetch(url, LIMITS)


async def test_what_takes_too_long_is_given_up_also_in_the_middle(here: Served) -> None:
    over = asyncio.Event()

    async def hang(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"<title>")
        await over.wait()
        return response

    with pytest.raises(FetchFailed, match=r"no complete answer within 0\.1 s"):
        await fetch(here.answer("/hangs", hang), Limits(0.1, 10_000))
    over.set()


async def test_a_server_that_is_not_there_is_a_failure() -> None:
    with pytest.raises(FetchFailed, match="ClientConnectorError"):
        await fetch("http://127.0.0.1:1/r/a", LIMITS)
    with pytest.raises(FetchFailed):
        await fetch("http://[", LIMITS)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("0", 0.0),
        (" 90 ", 90.0),
        ("9" * 400, LONGEST_PAUSE),
        ("Sun, 15 Nov 2026 12:00:30 GMT", 30.0),
        ("Sun, 15 Nov 2026 11:00:00 GMT", 0.0),
        ("Sun, 15 Nov 2093 11:00:00 GMT", LONGEST_PAUSE),
    ],
)
def test_how_long_a_server_wants_to_be_left_alone(said: str | None, seconds: float | None) -> None:
    assert pause(said, "Sun, 15 Nov 2026 12:00:00 GMT") == seconds
