"""Pages and actions that declare what they need, and the steps that every request to the dashboard takes.

A page is asked for by GET and changes nothing: it calls verbs that read, and hands what they tell to its template. The
stream of a tab calls the same function again and renders the block `live` of the same template. An action is asked for
by POST, calls one verb, and says in a sentence what it did.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import compile_path
from starlette.types import Receive, Scope, Send

from oncue.errors import OncueError, StoreError, StoreFull, StoreUnavailable
from oncue.model import Scope as TokenScope
from oncue.server.api import problems
from oncue.server.api.idempotency import was_begun
from oncue.server.api.intake import check_text
from oncue.server.api.problems import FORBIDDEN, METHOD, NOT_FOUND, UNKNOWN_EFFECT, Problem
from oncue.server.api.routing import CHANGE_SECONDS, LONG_SECONDS, READ_SECONDS
from oncue.server.dashboard import assets
from oncue.server.dashboard.deeds import Deed, Done
from oncue.server.dashboard.entrance import CSRF_FIELD, CSRF_HEADER, Entrance, SignInNeeded, Visitor, path_below
from oncue.server.dashboard.forms import check_query, check_texts, form
from oncue.server.dashboard.limits import TOO_MANY, RateLimit
from oncue.server.dashboard.live import Broadcaster
from oncue.server.dashboard.rendering import Renderer
from oncue.server.dashboard.telling import Telling, nothing
from oncue.server.dashboard.view import View, parted, quoted

if TYPE_CHECKING:
    from oncue.app import Oncue

ONCE_HEADER = "x-once"
"""What a browser says of a click, and of no other one."""
FOR_SCRIPTS = ("/live", "/names", "/signed-in")
"""What pages ask for by themselves. Without a session they are told so, and sent nowhere."""
LATE = "The database did not answer in time."
UNKNOWN = "It is unknown whether the change took effect: look before you repeat it."
SECURITY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


T = TypeVar("T")
Read: TypeAlias = Callable[[View], Awaitable[dict[str, Any]]]
Do: TypeAlias = Callable[[Deed], Awaitable[Done]]


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its path, its template, and what that is told."""

    path: str
    template: str
    """Unless what it tells names another `template`: a list whose query has `?name=` shows that one thing."""
    title: str
    room: str
    """The entry of the navigation that it belongs to."""
    read: Read
    needs: TokenScope = "read"
    every: float = 2.0
    """How often its live part is read again while a tab shows it; seconds."""


@dataclass(frozen=True, slots=True)
class Action:
    """A change: its path, and the verb behind it."""

    path: str
    do: Do
    needs: TokenScope
    patience: float = CHANGE_SECONDS


Special: TypeAlias = Callable[[Request], Awaitable[Response]]


class Dashboard:
    """All pages and actions, as an ASGI application that answers below its prefix."""

    def __init__(self, app: Oncue, entrance: Entrance) -> None:
        self.app = app
        self.entrance = entrance
        self.pages: list[tuple[Any, Any, Page]] = []
        self.actions: dict[str, Action] = {}
        self.specials: dict[tuple[str, str], Special] = {}
        """What is neither: signing in and out, and what scripts ask for."""
        self.renderer = Renderer()
        self.broadcaster = Broadcaster(self.render_live)
        self.telling: Callable[[], Telling | None] = nothing
        self._asking = RateLimit(burst=200, per_second=50)

    # --- declaring ----------------------------------------------------------------------------------------------

    def page(
        self, path: str, template: str, *, title: str, room: str, needs: TokenScope = "read", every: float = 2.0
    ) -> Callable[[Read], Read]:
        def add(read: Read) -> Read:
            regex, _, convertors = compile_path(path)
            self.pages.append((regex, convertors, Page(path, template, title, room, read, needs, every)))
            return read

        return add

    def action(self, path: str, *, needs: TokenScope, is_long: bool = False) -> Callable[[Do], Do]:
        def add(do: Do) -> Do:
            assert path not in self.actions, path
            self.actions[path] = Action(path, do, needs, LONG_SECONDS if is_long else CHANGE_SECONDS)
            return do

        return add

    # --- answering ----------------------------------------------------------------------------------------------

    def has(self, scope: Scope) -> bool:
        """Whether a path is one of ours. Every other one is the API's."""
        path = path_below(scope)
        return (
            path in ("/live", "/", "")
            or path.startswith("/static/")
            or path in self.actions
            or any(path == special for _, special in self.specials)
            or self._page(path) is not None
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = await self._answered(request)
        if request.method == "HEAD":
            response.body = b""
        await response(scope, receive, send)

    async def aclose(self) -> None:
        """End the streams: a server that stops does not wait for them."""
        await self.broadcaster.close()

    async def _answered(self, request: Request) -> Response:
        path = path_below(request.scope)
        try:
            if path.startswith("/static/"):
                return self._asset(request, path)
            response = await self._found(request, path)
        except SignInNeeded:
            response = self._to_sign_in(request, path)
        except TimeoutError:
            is_change = request.method == "POST"
            response = self._refused(request, problems.away(f"{LATE} {UNKNOWN}" if is_change else LATE))
        except Exception as error:
            response = self._refused(request, problems.of(error, request))
        for name, value in SECURITY.items():
            response.headers.setdefault(name, value)
        return response

    def _asset(self, request: Request, path: str) -> Response:
        found = assets.answer(request, path) if request.method in ("GET", "HEAD") else None
        return found or Response("There is no such file.", 404, media_type="text/plain")

    async def _found(self, request: Request, path: str) -> Response:
        self._check_rate(request)
        check_query(request)
        is_read = request.method in ("GET", "HEAD")
        special = self.specials.get(("GET" if is_read else request.method, path))
        if special is not None:
            async with asyncio.timeout(CHANGE_SECONDS):
                return await special(request)
        if path == "/live" and request.method == "GET":
            return await self._stream(request)
        if request.method == "POST":
            return await self._acted(request, path)
        if not is_read:
            raise Problem(METHOD, f"expected GET, not {request.method}", headers={"Allow": "GET, HEAD"})
        visitor = await self._visitor(request)
        found = self._page(path)
        if found is None:
            raise Problem(NOT_FOUND, f"There is no page at {path!r:.200}.")
        page, parameters = found
        check_scope(visitor, page.needs)
        view = self._view(request.query_params, path, parameters, visitor.identity.scopes, request.scope)
        async with asyncio.timeout(READ_SECONDS):
            told = await page.read(view)
        template = told.get("template", page.template)
        return self.shown(request, visitor, template, {**told, "title": told.get("title", page.title)},
                          view=view, room=page.room)  # fmt: skip

    def _check_rate(self, request: Request) -> None:
        client = request.client.host if request.client is not None else ""
        wait = self._asking.wait(client, time.monotonic())
        if wait:
            raise Problem(TOO_MANY, "Too many requests: wait a moment.", headers={"Retry-After": str(int(wait) + 1)})

    async def _visitor(self, request: Request) -> Visitor:
        async with asyncio.timeout(READ_SECONDS):
            return await self.entrance.visitor(request.scope)

    def _page(self, path: str) -> tuple[Page, dict[str, str]] | None:
        for regex, convertors, page in self.pages:
            match = regex.match(path)
            if match:
                found = match.groupdict()
                return page, {key: str(convertors[key].convert(value)) for key, value in found.items()}
        return None

    def _view(
        self, query: QueryParams, path: str, parameters: Mapping[str, str], scopes: tuple[TokenScope, ...], scope: Scope
    ) -> View:
        return View(self.app, path, parameters, query, scopes, self.entrance.place(scope).prefix)

    def shown(
        self, request: Request, visitor: Visitor, template: str, told: Mapping[str, Any], *, view: View,
        room: str = "", status: int = 200,
    ) -> Response:  # fmt: skip
        """A whole page, with the cookie if the browser has none yet."""
        is_live = self.renderer.has(template, "live")
        text = self.renderer.page(
            template, {**told, "view": view, "visitor": visitor, "room": room, "is_live": is_live}
        )
        response = HTMLResponse(text, status)
        if visitor.is_new:
            self.entrance.remember(response, request.scope, visitor.secret)
        return response

    def view_of(self, request: Request, scopes: tuple[TokenScope, ...] = ()) -> View:
        path = path_below(request.scope)
        return self._view(request.query_params, path, {}, scopes, request.scope)

    # --- changing -----------------------------------------------------------------------------------------------

    async def _acted(self, request: Request, path: str) -> Response:
        action = self.actions.get(path)
        if action is None:
            kind = NOT_FOUND if self._page(path) is None else METHOD
            raise Problem(kind, f"There is nothing at {path!r:.200} that takes a change.")
        visitor = await _before_change(self._visitor(request))
        fields = await form(request)
        given = request.headers.get(CSRF_HEADER) or next((value for key, value in fields if key == CSRF_FIELD), "")
        self.entrance.check_change(request.scope, visitor, given)
        check_scope(visitor, action.needs)
        once = request.headers.get(ONCE_HEADER)
        # A browser sends a request again by itself when the server went away in the middle of it.
        is_checked = once is not None and action.needs != "read"
        if is_checked and await _before_change(was_begun(self.app, visitor.identity.name, f"page:{once}")):
            raise Problem(UNKNOWN_EFFECT, f"The browser sent this twice, and it is done once at most. {UNKNOWN}")
        base = self.entrance.place(request.scope).prefix
        deed = Deed(self.app, visitor.identity.name, visitor.identity.scopes, base, fields)
        try:
            async with asyncio.timeout(action.patience):
                done = await action.do(deed)
        except (StoreUnavailable, TimeoutError) as error:
            raise problems.away(f"{str(error) or LATE} {UNKNOWN}") from error
        except StoreFull as error:
            raise problems.away(f"Nothing was changed. {error}") from error
        except (OncueError, Problem):
            raise
        except Exception as error:
            raise Problem(problems.BUG, f"{problems.of(error, request).detail} {UNKNOWN}") from error
        return self._told(done, base)

    def _told(self, done: Done, base: str) -> Response:
        if done.go is not None:
            return Response("", 200, headers={"HX-Redirect": f"{base}{done.go}"})
        headers = {"HX-Trigger": json.dumps({"oncue:changed": {}})} if done.is_change else {}
        toast = self.renderer.part("toast.html", {"kind": "ok", "message": done.message}) if done.message else ""
        return HTMLResponse(done.html + toast, headers=headers)

    # --- the stream ---------------------------------------------------------------------------------------------

    async def _stream(self, request: Request) -> Response:
        visitor = await self._visitor(request)
        address = request.query_params.get("page", "/")
        path, asked = parted(address)
        check_text(path, "page")
        check_texts(asked)
        found = self._page(path)
        if found is None:
            raise Problem(NOT_FOUND, "There is no such page.")
        page, _ = found
        if not self.is_live(page):
            raise Problem(NOT_FOUND, "Nothing of this page is shown anew.")
        check_scope(visitor, page.needs)
        base = self.entrance.place(request.scope).prefix
        who = visitor.identity.name
        if visitor.session_id is None:  # many may have the same name
            who += f" {request.client.host if request.client is not None else ''}"
        topic = (address, visitor.identity.scopes, base)
        return self.broadcaster.stream(topic, page.every, who, lambda: self._stands(request, visitor))

    async def _stands(self, request: Request, visitor: Visitor) -> bool:
        """Whether a stream may go on: whether its session has ended, its token was revoked or the first one was made.
        While the database is away this is unknown, and nothing of it can be shown."""
        try:
            return (await self._visitor(request)).identity == visitor.identity
        except (SignInNeeded, Problem):
            return False
        except (StoreError, TimeoutError):
            return True

    def is_live(self, page: Page) -> bool:
        """Whether a part of it is shown anew while a tab is open."""
        return self.renderer.has(page.template, "live")

    async def render_live(self, topic: tuple[str, tuple[TokenScope, ...], str]) -> str:
        """The live part of a page, for every tab that shows it."""
        address, scopes, base = topic
        path, asked = parted(address)
        found = self._page(path)
        assert found is not None
        page, parameters = found
        view = View(self.app, path, parameters, asked, scopes, base)
        async with asyncio.timeout(READ_SECONDS):
            told = await page.read(view)
        return self.renderer.block(told.get("template", page.template), "live", {**told, "view": view})

    # --- refusing -----------------------------------------------------------------------------------------------

    def _to_sign_in(self, request: Request, path: str) -> Response:
        base = self.entrance.place(request.scope).prefix
        asked = f"{quoted(path)}?{request.url.query}" if request.url.query else quoted(path)
        query = urlencode({"next": asked}) if request.method == "GET" and path != "/" else ""
        where = f"{base}/sign-in" + (f"?{query}" if query else "")
        if "hx-request" in request.headers:
            return Response("", 401, headers={"HX-Redirect": where})
        if path in FOR_SCRIPTS or request.method not in ("GET", "HEAD"):
            return Response("Sign in first.", 401, media_type="text/plain")
        return RedirectResponse(where, 303)

    def _refused(self, request: Request, problem: Problem) -> Response:
        """A page that says what is wrong; for an action a message, and its errors field by field."""
        told = {"problem": problem, "errors": [error.record() for error in problem.errors]}
        if "hx-request" in request.headers:
            message = problem.detail if request.method == "GET" else f"Nothing was changed. {problem.detail}"
            if problem.kind.status >= 500 or problem.kind is UNKNOWN_EFFECT:
                message = problem.detail
            text = self.renderer.part("toast.html", {**told, "kind": "error", "message": message})
            # A complaint of one field alone begins with its name.
            named = [error.field for error in problem.errors] or [problem.detail.partition(":")[0][:100]]
            fields = json.dumps({"oncue:refused": {"fields": named}})
            return HTMLResponse(text, problem.kind.status, headers={**problem.headers, "HX-Trigger": fields})
        if path_below(request.scope) in FOR_SCRIPTS:
            return Response(problem.detail, problem.kind.status, headers=dict(problem.headers), media_type="text/plain")
        found = self._page(path_below(request.scope))
        told |= {"view": self.view_of(request), "title": problem.kind.title, "room": found and found[0].room}
        text = self.renderer.page("problem.html", told)
        return HTMLResponse(text, problem.kind.status, headers=dict(problem.headers))


# --- what comes in --------------------------------------------------------------------------------------------------


async def _before_change(step: Awaitable[T]) -> T:
    """What has to be known first."""
    try:
        async with asyncio.timeout(READ_SECONDS):
            return await step
    except (StoreError, TimeoutError) as error:
        raise problems.away(f"Nothing was changed. {str(error) or LATE}") from error


def check_scope(visitor: Visitor, needs: TokenScope) -> None:
    if not visitor.may(needs):
        raise Problem(FORBIDDEN, f"You are signed in with a token that has not the scope `{needs}`, which this needs.")
