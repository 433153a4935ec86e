"""Who may come in. The gate stands in front of every route, of paths that lead nowhere too.

    TOKEN     every request has a token; only /health answers without one
    LOOPBACK  the server listens on this machine alone: open until the first token is made (readiness and metrics
              stay open), but not to web pages that a browser on this machine has open, nor to what a proxy passes on
    TRUSTED   the application that mounts the API checks its users itself

A token that is unknown, expired or revoked gets the same answer. While the database is away no token can be checked:
503, and no request is let in.
"""

from __future__ import annotations

import asyncio
import logging
import time
from enum import Enum
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from oncue.errors import StoreError
from oncue.policy.scopes import allows
from oncue.policy.urls import leads_here, url_leads_here
from oncue.server.api import coming_from, problems, routing
from oncue.server.api.identity import HOST, LOCAL, SCOPE_KEY, Identity
from oncue.server.api.problems import AWAY, FORBIDDEN, METHOD, NOT_FOUND, UNAUTHORIZED, Problem
from oncue.verbs.tokens import actor_of

if TYPE_CHECKING:
    from oncue.app import Oncue

ADMIN = "/api/admin"
NO_ADMIN_API = "A worker has no admin API: `oncue run` and `oncue serve` have it."
GATE_SECONDS = 3.0
TELL_AGAIN_SECONDS = 60.0
HOW_TO = "`oncue token create NAME --scope {needs}` makes one; send it as `Authorization: Bearer oncue_…`."

_log = logging.getLogger("oncue.http")


class AccessMode(Enum):
    """Which requests a server accepts."""

    TOKEN = "token"
    LOOPBACK = "loopback"
    TRUSTED = "trusted"


class Gate:
    """The application behind the gate, as an ASGI application."""

    def __init__(self, api: FastAPI, app: Oncue, access: AccessMode) -> None:
        self.api = api
        self._app = app
        self.access = access
        self._has_tokens = False
        self._told_at = float("-inf")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            refusal = await self._refusal(scope)
            await (self.api if refusal is None else refusal)(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        """Nothing is opened before it is needed; what was opened is closed with the server."""
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await self._app.aclose()
        await send({"type": "lifespan.shutdown.complete"})

    async def _refusal(self, scope: Scope) -> Response | None:
        """What is answered instead of letting a request through; None if it may pass."""
        found = routing.find(self.api.router.routes, scope)
        try:
            await self._admit(scope, found)
        except Exception as error:
            problem, declared = problems.of(error, Request(scope)), found.declared
            if problem.kind is AWAY and declared is not None and declared.when_away is not None:
                return declared.when_away(problem.detail)
            return problems.answer(problem, scope)
        return None

    async def _admit(self, scope: Scope, found: routing.Found) -> None:
        """Let a request through with the identity of its sender, or raise a Problem."""
        declared = found.declared
        if declared is not None and declared.needs == routing.PUBLIC:
            return
        open_here = declared is not None and declared.open_here
        identity = await self._identified(scope, "read" if declared is None else declared.needs, open_here)
        if found.route is None:
            raise self._nowhere(scope, found)
        if declared is None or declared.needs == routing.PUBLIC:
            _log.error(
                "%s declares no scope: every request to it is refused", getattr(found.route, "path", found.route)
            )
            raise Problem(FORBIDDEN, "This path declares no scope, so every request to it is refused.")
        if not allows(identity.scopes, declared.needs):
            challenge = f'Bearer realm="oncue", error="insufficient_scope", scope="{declared.needs}"'
            raise Problem(
                FORBIDDEN, f"This needs a token with the scope `{declared.needs}`.",
                headers={"WWW-Authenticate": challenge}, needed_scope=declared.needs,
            )  # fmt: skip
        scope[SCOPE_KEY] = identity

    # --- who is it ----------------------------------------------------------------------------------------------

    def _nowhere(self, scope: Scope, found: routing.Found) -> Problem:
        if found.methods:
            allowed = ", ".join(found.methods)
            return Problem(METHOD, f"expected one of {allowed}, not {scope['method']}", headers={"Allow": allowed})
        asked = problems.instance_of(scope)
        is_worker = not any(getattr(route, "path", "").startswith(ADMIN) for route in self.api.router.routes)
        hint = f" {NO_ADMIN_API}" if is_worker and asked.startswith(ADMIN) else ""
        return Problem(NOT_FOUND, f"There is nothing at {asked}.{hint}")

    async def _identified(self, scope: Scope, needs: str, open_here: bool) -> Identity:
        if self.access is AccessMode.TRUSTED:
            return known_to_the_host(scope)
        headers = Headers(scope=scope)
        try:
            async with asyncio.timeout(GATE_SECONDS):
                return await self._holder(headers, needs, open_here)
        except (StoreError, TimeoutError) as error:
            why = str(error) or f"no answer within {GATE_SECONDS:g} s"
            if self.access is AccessMode.LOOPBACK:
                raise problems.away(why) from None
            self._tell_unchecked(why)  # a stranger is not told where the database is
            raise problems.away("The database does not answer, so that no token can be checked.") from None

    def _tell_unchecked(self, why: str) -> None:
        """One line now and then: every request would be one, and the sampler tells of an outage by itself."""
        now = time.monotonic()
        if not self._app.internals.telemetry.outages.is_known and now - self._told_at >= TELL_AGAIN_SECONDS:
            self._told_at = now
            _log.warning("a token could not be checked: %s", why)

    async def _holder(self, headers: Headers, needs: str, open_here: bool) -> Identity:
        credential = headers.get("authorization")
        if credential is not None:
            return await self._authenticated(credential, needs)
        if self.access is AccessMode.LOOPBACK and (open_here or await self.needs_no_token()):
            refuse_browsers(headers)
            refuse_passed_on(headers, needs)
            return LOCAL
        raise _unauthorized("This needs a token.", needs)

    async def _authenticated(self, credential: str, needs: str) -> Identity:
        kind, _, secret = credential.partition(" ")
        token = await self._app.tokens.authenticate(secret.strip()) if kind.lower() == "bearer" else None
        if token is None:
            raise _unauthorized("The token is unknown, expired or revoked.", needs, error="invalid_token")
        return Identity(actor_of(token), token.scopes)

    async def needs_no_token(self) -> bool:
        """Whether a server on a loopback address is open to this machine. It is not where a setting says that a proxy
        stands before it: a proxy may pass requests of other machines on without a word of it."""
        public = self._app.settings.public_url
        is_here = self.access is AccessMode.LOOPBACK and (public is None or url_leads_here(public))
        return is_here and not await self.tokens_exist()

    async def tokens_exist(self) -> bool:
        """Whether a token was ever made: once one was, that stays so.

        Until then every request asks: what comes after the first token is refused, whichever process made it.
        """
        if not self._has_tokens:
            self._has_tokens = await (await self._app.internals.connected()).store.tokens.exist()
        return self._has_tokens


def _unauthorized(why: str, needs: str, **challenge: str) -> Problem:
    words = "".join(f', {name}="{value}"' for name, value in challenge.items())
    how = HOW_TO.format(needs=needs)
    return Problem(UNAUTHORIZED, f"{why} {how}", headers={"WWW-Authenticate": f'Bearer realm="oncue"{words}'})


def known_to_the_host(scope: Scope) -> Identity:
    """Who it is in the words of the application around us, if that says so as Starlette's middleware does."""
    user: Any = scope.get("user")
    name = getattr(user, "display_name", "") if getattr(user, "is_authenticated", False) else ""
    if isinstance(name, str) and 0 < len(name) <= 100 and name.isprintable() and name == name.strip():
        return Identity(f"host:{name}", HOST.scopes)
    return HOST


# --- a server that is open to this machine --------------------------------------------------------------------------


def refuse_browsers(headers: Headers) -> None:
    """A page from anywhere may send requests to this machine: it is not let in."""
    refuse_other_names(headers)
    host, origin = headers.get("host", ""), headers.get("origin")
    if origin is not None and origin.partition("://")[2] != host:
        raise Problem(FORBIDDEN, "A web page of another origin may not use a server that needs no token.")
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise Problem(FORBIDDEN, "A web page of another site may not use a server that needs no token.")


def refuse_other_names(headers: Headers) -> None:
    """A page from anywhere may have its own name lead to this machine."""
    if not leads_here(coming_from.host_of(headers)):
        raise Problem(
            FORBIDDEN, "expected the header Host to name this machine (localhost, 127.0.0.1 or [::1]), not "
            f"{headers.get('host', '')!r}; make a token to come in by another name",
        )  # fmt: skip


def refuse_passed_on(headers: Headers, needs: str) -> None:
    """Behind a proxy the client may be on any machine."""
    if coming_from.was_passed_on(headers):
        raise _unauthorized("This was passed on by a proxy, and needs a token.", needs)
