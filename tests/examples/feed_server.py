"""Feeds that behave as a test says, and who asked for them how."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email.utils import format_datetime
from html import escape

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def rss(*items: tuple[str, str], title: str = "A feed", at: datetime | None = None) -> bytes:
    """A feed of (address, title) pairs."""
    date = format_datetime(at or datetime(2026, 11, 15, 11, tzinfo=UTC))
    told = "".join(
        f"<item><title>{escape(title)}</title><link>{escape(url)}</link>"
        f"<description>{escape(title)}, in short.</description><pubDate>{date}</pubDate></item>"
        for url, title in items
    )
    return f'<?xml version="1.0"?><rss version="2.0"><channel><title>{title}</title>{told}</channel></rss>'.encode()


class FeedServer:
    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.at_once = 0
        self.most_at_once = 0
        self._handlers: dict[str, Handler] = {}
        self._runner: web.AppRunner | None = None
        self._address = ""

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/{name}", self._answer)
        self._runner = web.AppRunner(app, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self._address = f"http://{host}:{port}"

    async def stop(self) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await self._handlers[request.match_info["name"]](request)
        finally:
            self.at_once -= 1

    def serve(self, name: str, handler: Handler) -> str:
        """Answer under a name with a handler; the address."""
        self._handlers[name] = handler
        return f"{self._address}/{name}"

    def feed(self, name: str, content: bytes, *, etag: str | None = None, status: int = 200) -> str:
        """Answer with a document, or with 304 to who shows its ETag."""

        async def answer(request: web.Request) -> web.StreamResponse:
            if etag is not None and request.headers.get("If-None-Match") == etag:
                return web.Response(status=304)
            headers = {} if etag is None else {"ETag": etag}
            return web.Response(body=content, status=status, headers=headers, content_type="application/xml")

        return self.serve(name, answer)

    def slow(self, name: str, content: bytes, seconds: float) -> str:
        """Send the beginning at once and the rest later."""

        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Type": "application/xml"})
            await response.prepare(request)
            await response.write(content[:40])
            await asyncio.sleep(seconds)
            await response.write(content[40:])
            return response

        return self.serve(name, answer)

    def redirect(self, name: str, target: str) -> str:
        async def answer(request: web.Request) -> web.StreamResponse:
            raise web.HTTPFound(target)

        return self.serve(name, answer)
