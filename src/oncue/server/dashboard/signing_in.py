"""Signing in with a token, and out again."""

from __future__ import annotations

import time
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from oncue.policy.scopes import allows
from oncue.server.api.problems import Problem
from oncue.server.dashboard.entrance import CSRF_FIELD, SignInNeeded
from oncue.server.dashboard.forms import form
from oncue.server.dashboard.limits import TOO_MANY, RateLimit
from oncue.server.dashboard.pages import Dashboard

FAILED = "The token is unknown, expired or revoked."
WITHOUT_READ = "This token has not the scope `read`, which pages need."


def add(dashboard: Dashboard) -> None:
    # A token's secret has 256 bits, so that this keeps out noise rather than guesses.
    tries = RateLimit(burst=10, per_second=1 / 6)

    async def show(request: Request) -> Response:
        return _form(dashboard, request, local(request.query_params.get("next", "")))

    async def sign_in(request: Request) -> Response:
        fields, visitor = await form(request), dashboard.entrance.stranger(request.scope)
        dashboard.entrance.check_change(request.scope, visitor, _field(fields, CSRF_FIELD))
        client = request.client.host if request.client is not None else ""
        wait = tries.wait(client, time.monotonic())
        if wait:
            raise Problem(
                TOO_MANY, f"Too many attempts: try again in {wait:.0f} s.", headers={"Retry-After": str(int(wait) + 1)}
            )
        goes_to, text = local(_field(fields, "next")), _field(fields, "token").strip()
        token = await dashboard.app.tokens.authenticate(text)
        if token is None:
            return _form(dashboard, request, goes_to, FAILED, 403)
        if not allows(token.scopes, "read"):
            return _form(dashboard, request, goes_to, WITHOUT_READ, 403)
        started = await dashboard.app.sessions.start(text)
        if started is None:
            return _form(dashboard, request, goes_to, FAILED, 403)
        tries.give_back(client)
        session, secret = started
        base = dashboard.entrance.place(request.scope).prefix
        response = RedirectResponse(f"{base}{goes_to}", 303)
        lasts = max(int((session.expires_at - session.created_at).total_seconds()), 1)
        dashboard.entrance.remember(response, request.scope, secret, lasts)
        return response

    async def sign_out(request: Request) -> Response:
        fields = await form(request)
        try:
            visitor = await dashboard.entrance.visitor(request.scope)
        except SignInNeeded:
            visitor = dashboard.entrance.stranger(request.scope)
        dashboard.entrance.check_change(request.scope, visitor, _field(fields, CSRF_FIELD))
        if visitor.session_id is not None:
            await dashboard.app.sessions.end(visitor.session_id, by=visitor.identity.name)
        response = RedirectResponse(f"{dashboard.entrance.place(request.scope).prefix}/", 303)
        dashboard.entrance.forget(response, request.scope)
        return response

    dashboard.specials |= {("GET", "/sign-in"): show, ("POST", "/sign-in"): sign_in, ("POST", "/sign-out"): sign_out}


def _form(dashboard: Dashboard, request: Request, goes_to: str, error: str = "", status: int = 200) -> Response:
    visitor = dashboard.entrance.stranger(request.scope)
    told = {"title": "Sign in", "next": goes_to, "error": error}
    return dashboard.shown(request, visitor, "sign_in.html", told, view=dashboard.view_of(request), status=status)


def _field(fields: Sequence[tuple[str, str]], name: str) -> str:
    return next((value for key, value in fields if key == name), "")


def local(address: str) -> str:
    """A page of ours, below the prefix; the overview if this is anything else, such as `//elsewhere.example`."""
    is_local = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
    return address if is_local and "\\" not in address else "/"
