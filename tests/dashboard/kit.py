"""The dashboard as its visitors meet it, asked without a socket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx

from oncue import Oncue
from oncue.server.api import AccessMode
from oncue.server.api.identity import Identity
from oncue.server.dashboard import Dashboard, dashboard
from oncue.server.dashboard.entrance import Visitor
from oncue.server.dashboard.limits import RateLimit
from oncue.server.site import Site
from tests.server.routes_kept import KeptRoutes

HERE = "http://127.0.0.1:8080"


class Door:
    """The whole site: pages and API. Requests go through `client`; a browser's session is the argument `session`."""

    def __init__(
        self, app: Oncue, kept: KeptRoutes, access: AccessMode = AccessMode.TOKEN, *, at: str = HERE, prefix: str = ""
    ) -> None:
        gate = kept.gate(app, access)
        self.app, self.at, self.prefix = app, at, prefix
        self.pages = dashboard(app, gate)
        without_limit(self.pages)
        public = app.settings.public_url
        self.site = Site(gate, self.pages, urlsplit(public).path.rstrip("/") if public else "")
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(self.site, root_path="" if public else prefix), base_url=at
        )

    @property
    def scope(self) -> dict[str, Any]:
        """Of a request, as far as places are told apart by it."""
        parts = urlsplit(self.at)
        root = "" if self.app.settings.public_url else self.prefix
        return {
            "type": "http", "scheme": parts.scheme, "root_path": root, "path": f"{self.prefix}/",
            "headers": [(b"host", parts.netloc.encode())],
        }  # fmt: skip

    @property
    def origin(self) -> str:
        return self.pages.entrance.place(self.scope).origin or self.at

    async def session(self, *scopes: Any) -> str:
        """The text of a new session."""
        _, text = await self.app.tokens.create("-".join(scopes), scopes)
        started = await self.app.sessions.start(text)
        assert started is not None
        return started[1]

    def cookie(self, session: str) -> dict[str, str]:
        return {"Cookie": f"{self.pages.entrance.place(self.scope).cookie}={session}"}

    async def get(self, address: str, session: str = "", **headers: str) -> httpx.Response:
        """An address below the prefix."""
        known = self.cookie(session) if session else {}
        return await self.client.get(f"{self.prefix}{address}", headers={**known, **headers})

    async def change(
        self,
        path: str,
        fields: Sequence[tuple[str, str]] = (),
        session: str = "",
        *,
        method: str = "POST",
        **changed: str | None,
    ) -> httpx.Response:
        """A change as a page of ours asks for it, but for the headers that are named (None takes one out)."""
        headers: dict[str, str | None] = {
            "Origin": self.origin, "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "HX-Request": "true",
            "Content-Type": "application/x-www-form-urlencoded", "X-CSRF-Token": csrf_of(session),
            **(self.cookie(session) if session else {}),
        }  # fmt: skip
        headers |= {name.replace("_", "-"): text for name, text in changed.items()}
        shown = {name: text for name, text in headers.items() if text is not None}
        return await self.client.request(method, f"{self.prefix}{path}", content=urlencode(list(fields)), headers=shown)


def csrf_of(session: str) -> str:
    return Visitor(Identity("", ()), session).csrf


def without_limit(pages: Dashboard) -> None:
    """A test asks faster than people do."""
    pages._asking = RateLimit(burst=1e9, per_second=1e9)
