"""A generated site on a free port, and single answers for what no generated site would say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web
from community_crawler.site.graph import Behaviour, Community
from community_crawler.site.server import Site

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Served:
    def __init__(self, site: Site) -> None:
        self.site = site
        self.asked: list[web.Request] = []
        """Requests for what the test answers itself, under `/r/…` too."""
        self._own: dict[str, Handler] = {}
        self._runner: web.AppRunner | None = None
        self.origin = ""

    async def start(self) -> None:
        app = self.site.application()
        app.middlewares.insert(0, self._overridden)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.origin = f"http://{host}:{port}"

    async def stop(self) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    @web.middleware
    async def _overridden(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        own = self._own.get(request.path)
        if own is None:
            return await handler(request)
        self.asked.append(request)
        return await own(request)

    def answer(self, path: str, handler: Handler) -> str:
        """Answer this path otherwise; its address."""
        self._own[path] = handler
        return self.origin + path

    def say(self, path: str, text: str = "", **options: object) -> str:
        """Always say the same at this path; its address."""

        async def handler(request: web.Request) -> web.StreamResponse:
            return web.Response(**{"text": text, "content_type": "text/html", **options})  # type: ignore[arg-type]

        return self.answer(path, handler)

    def some(self, behaviour: Behaviour) -> Community:
        """A community that behaves like that."""
        return next(one for one in self.site.communities.values() if one.behaviour == behaviour)
