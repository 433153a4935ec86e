"""The site over HTTP. Pages that fail for a while count how often they were asked; nothing depends on chance."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256

from aiohttp import web

from community_crawler.site import graph, pages
from community_crawler.site.graph import Community
from community_crawler.site.watch import Watch

INDEX = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>A site of invented communities</title>
<h1>{count} invented communities</h1>
<p>Begin at <a href="/r/{first}">/r/{first}</a>. How visitors behave: <a href="/stats">/stats</a>.</p></html>
"""


@dataclass(frozen=True, slots=True)
class Manners:
    """How the misbehaving pages misbehave."""

    crawl_delay: float = pages.CRAWL_DELAY
    slow: float = 1.5
    """Seconds that a slow page takes."""
    patience: int = 1
    """Seconds that a page asks to wait (Retry-After)."""
    failures: int = 2
    """How often a page fails before it answers."""


class Site:
    """The communities, how often each was asked, and what was seen of the visitors."""

    def __init__(self, size: int, seed: int = 1, manners: Manners | None = None) -> None:
        self.communities = graph.communities(size, seed)
        self.watch = Watch(time.monotonic)
        self._manners = manners or Manners()
        self._failed: Counter[str] = Counter()

    def application(self) -> web.Application:
        app = web.Application(middlewares=[self._watched])
        app.router.add_get("/", self._index)
        app.router.add_get("/robots.txt", self._robots)
        app.router.add_get("/stats", self._stats)
        app.router.add_get("/r/{name}", self._community)
        app.router.add_get("/r/{name}/", self._community)
        return app

    @web.middleware
    async def _watched(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if request.path == "/stats":
            return await handler(request)
        with self.watch.visit():
            return await handler(request)

    async def _index(self, request: web.Request) -> web.StreamResponse:
        return _html(INDEX.format(count=len(self.communities), first=graph.FIRST).encode())

    async def _robots(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text=pages.robots(self._manners.crawl_delay))

    async def _stats(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(self.watch.document())

    async def _community(self, request: web.Request) -> web.StreamResponse:
        community = self.communities.get(request.match_info["name"])
        if community is None:
            return web.Response(status=404, text="There is no such community.\n")
        self.watch.note_asked(community.name, private=community.behaviour == "private")
        answer = await self._answer(request, community)
        self.watch.note_answered(community.name, answer.status)
        return answer

    async def _answer(self, request: web.Request, community: Community) -> web.StreamResponse:
        match community.behaviour:
            case "slow":
                await asyncio.sleep(self._manners.slow)
            case "gone":
                return web.Response(status=404 if len(community.name) % 2 else 410, text="It is gone.\n")
            case "dead":
                return web.Response(status=500, text="Something is wrong here, and stays so.\n")
            case "moved":
                return web.Response(status=301, headers={"Location": f"/r/{community.links[0]}"})
            case "busy" | "shaky" | "shy" if self._fails_still(community.name):
                return self._failure(community)
        return _page(request, community)

    def _fails_still(self, name: str) -> bool:
        self._failed[name] += 1
        return self._failed[name] <= self._manners.failures

    def _failure(self, community: Community) -> web.StreamResponse:
        if community.behaviour == "shaky":
            return web.Response(status=500, text="Something went wrong.\n")
        self.watch.ask_for_patience(community.name, self._manners.patience)
        status = 429 if community.behaviour == "shy" else 503
        return web.Response(status=status, headers={"Retry-After": str(self._manners.patience)}, text="Not now.\n")


def _page(request: web.Request, community: Community) -> web.StreamResponse:
    content = pages.page(community, str(request.url.origin()))
    etag = f'"{sha256(content).hexdigest()[:16]}"'
    if request.headers.get("If-None-Match") == etag:
        return web.Response(status=304, headers={"ETag": etag})
    return _html(content, etag)


def _html(content: bytes, etag: str = '"-"') -> web.Response:
    return web.Response(body=content, content_type="text/html", charset="utf-8", headers={"ETag": etag})
