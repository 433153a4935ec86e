"""What the command palette asks for, and whether a tab is still signed in."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from oncue.policy.windows import is_window
from oncue.server.dashboard.pages import Dashboard, check_scope
from oncue.server.dashboard.subjects import window_link
from oncue.server.dashboard.view import View

MOST_OF_EACH = 6


def add(dashboard: Dashboard) -> None:
    async def names(request: Request) -> Response:
        visitor = await dashboard.entrance.visitor(request.scope)
        check_scope(visitor, "read")
        view = dashboard.view_of(request, visitor.identity.scopes)
        part = request.query_params.get("part", "").strip()[:200]
        return JSONResponse({"names": await _found(view, part) if part else []})

    async def signed_in(request: Request) -> Response:
        await dashboard.entrance.visitor(request.scope)
        return Response(status_code=204)

    dashboard.specials |= {("GET", "/names"): names, ("GET", "/signed-in"): signed_in}


async def _found(view: View, part: str) -> list[dict[str, str]]:
    """Schedules and webhooks whose names begin so, and windows and queues that have it in their names. Tables of names
    may be long: each is asked for a few from there on."""
    app, before = view.app, _just_before(part)
    listed = (await app.schedules.find(prefix=part, limit=MOST_OF_EACH)).schedules
    schedules = [one.name for one in listed if not is_window(one.expression)]
    windows = [one.name for one in await app.windows.list() if part.lower() in one.name.lower()]
    webhooks = [one.name for one in await app.webhooks.list(after=before, limit=MOST_OF_EACH)]
    queues = [queue.name for queue in await app.queues.list() if part.lower() in queue.name.lower()]
    found = [
        *(("schedule", name, view.link("/schedules", name)) for name in schedules),
        *(("window", name, window_link(view, name)) for name in windows[:MOST_OF_EACH]),
        *(("webhook", name, view.link("/webhooks", name)) for name in webhooks if name.startswith(part)),
        *(("queue", name, view.link("/queues", name)) for name in queues[:MOST_OF_EACH]),
    ]
    return [{"kind": kind, "text": name, "href": href} for kind, name, href in found]


def _just_before(part: str) -> str:
    """A text that stands before every name with this beginning, and after nearly all others."""
    last = ord(part[-1])
    return part[:-1] + (chr(last - 1) if last > 33 else "")
