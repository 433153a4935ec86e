"""Who may open a page, and who may change something.

A visitor signs in with a token and gets a session, whose secret is in a cookie. The cookie opens pages, never the API.
A change needs three things that a page of another site cannot have: the cookie, a text that is made from it, and an
Origin that is ours. On a loopback address without tokens, and in an application that guards the dashboard itself, there
is no session; then the cookie is only there for that text.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import Scope as AsgiScope

from oncue.model import Scope
from oncue.policy.scopes import allows
from oncue.server.api.auth import (
    AccessMode,
    known_to_the_host,
    refuse_other_names,
    refuse_passed_on,
)
from oncue.server.api.identity import LOCAL, Identity
from oncue.server.api.problems import FORBIDDEN, Problem

if TYPE_CHECKING:
    from oncue.app import Oncue
    from oncue.server.api.auth import Gate

CSRF_HEADER, CSRF_FIELD = "x-csrf-token", "csrf"
LONGEST_COOKIE = 200
VISIT_BYTES = 24
STALE = "This page is out of date: load it again, then repeat what you did."


@dataclass(frozen=True, slots=True)
class Mount:
    """Where browsers see the dashboard: its host with port, its prefix, and whether by TLS."""

    host: str
    prefix: str
    is_secure: bool
    origin: str | None = None
    """The whole origin, if a setting tells it."""

    @property
    def origins(self) -> tuple[str, ...]:
        """Of our pages. What arrives without TLS may have left the browser with it, if no setting tells."""
        if self.origin is not None:
            return (self.origin,)
        return tuple(f"{scheme}://{self.host}" for scheme in (("https",) if self.is_secure else ("http", "https")))

    @property
    def cookie(self) -> str:
        """A name of this place's own: cookies know no ports, and one host may have several dashboards."""
        return f"oncue_{hashlib.sha256(f'{self.host} {self.prefix}'.encode()).hexdigest()[:10]}"


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who opens a page."""

    identity: Identity
    secret: str
    """What the cookie says."""
    session_id: str | None = None
    is_new: bool = False
    """Whether the browser has no cookie yet."""

    @property
    def csrf(self) -> str:
        """The text that a change has to bring. Only pages of ours can read it."""
        digest = hashlib.sha256(f"csrf {self.secret}".encode()).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")

    def may(self, needs: Scope) -> bool:
        return allows(self.identity.scopes, needs)


class SignInNeeded(Exception):
    """There is no session, and one is needed."""


class Entrance:
    """Tells visitors apart, by the rules of the gate beside it."""

    random_text: Callable[[int], str] = staticmethod(secrets.token_urlsafe)

    def __init__(self, app: Oncue, gate: Gate) -> None:
        self._app = app
        self._gate = gate

    def place(self, scope: AsgiScope) -> Mount:
        """Where the browser sees us: as a setting says, since a proxy may change host, scheme and path; or as asked."""
        public = self._app.settings.public_url
        if public is not None:
            parts = urlsplit(public)
            return Mount(
                parts.netloc, parts.path.rstrip("/"), parts.scheme == "https", f"{parts.scheme}://{parts.netloc}"
            )
        host = Headers(scope=scope).get("host", "")
        return Mount(host, str(scope.get("root_path", "")).rstrip("/"), scope.get("scheme") == "https")

    async def visitor(self, scope: AsgiScope) -> Visitor:
        """Who this is. Raises SignInNeeded, and a Problem if the request may not be answered at all."""
        headers = Headers(scope=scope)
        refuse_embedding(headers)
        secret = self._cookie(headers, self.place(scope))
        if self._gate.access is AccessMode.TRUSTED:
            return self._without_session(known_to_the_host(scope), secret)
        session = None if secret is None else await self._app.sessions.authenticate(secret)
        if session is not None and secret is not None:
            found, token = session
            return Visitor(Identity(f"token:{token.name[:100]}#{token.id}", token.scopes), secret, found.id)
        if await self._gate.needs_no_token():
            refuse_other_names(headers)
            refuse_passed_on(headers, "read")
            return self._without_session(LOCAL, secret)
        raise SignInNeeded

    def stranger(self, scope: AsgiScope) -> Visitor:
        """Someone who is about to sign in."""
        headers = Headers(scope=scope)
        refuse_embedding(headers)
        return self._without_session(Identity("", ()), self._cookie(headers, self.place(scope)))

    def _without_session(self, identity: Identity, secret: str | None) -> Visitor:
        return Visitor(identity, secret or self.random_text(VISIT_BYTES), None, secret is None)

    def _cookie(self, headers: Headers, place: Mount) -> str | None:
        # Other applications of this host may have cookies that Python's own reader gives up at, with all that follow.
        jar = cookie_parser("; ".join(headers.getlist("cookie")))
        found = jar.get(place.cookie, "")
        return found if 0 < len(found) <= LONGEST_COOKIE else None

    def remember(self, response: Response, scope: AsgiScope, secret: str, lasts: int | None = None) -> None:
        """Have the browser keep this secret for the pages below our prefix, so many seconds or until it is closed."""
        place = self.place(scope)
        response.set_cookie(
            place.cookie, secret, max_age=lasts, path=place.prefix or "/", secure=place.is_secure, httponly=True,
            samesite="lax",
        )  # fmt: skip

    def forget(self, response: Response, scope: AsgiScope) -> None:
        place = self.place(scope)
        response.delete_cookie(
            place.cookie, path=place.prefix or "/", secure=place.is_secure, httponly=True, samesite="lax"
        )

    def check_change(self, scope: AsgiScope, visitor: Visitor, given: str) -> None:
        """Raise a Problem unless a change comes from a page of ours."""
        refuse_other_origins(Headers(scope=scope), self.place(scope))
        if visitor.is_new or not hmac.compare_digest(given.encode(), visitor.csrf.encode()):
            raise Problem(FORBIDDEN, STALE)


def path_below(scope: AsgiScope) -> str:
    """The path of a request below the prefix that an application around us has given us."""
    path, prefix = str(scope["path"]), str(scope.get("root_path", "")).rstrip("/")
    return (path[len(prefix) :] or "/") if prefix and f"{path}/".startswith(f"{prefix}/") else path or "/"


def refuse_embedding(headers: Headers) -> None:
    """Another site may link here, and its link opens a page of its own. It may not fetch or embed what is here."""
    if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return
    if headers.get("sec-fetch-mode") != "navigate" or headers.get("sec-fetch-dest", "document") != "document":
        raise Problem(FORBIDDEN, "A page of another site may link to the dashboard, but neither embed nor fetch it.")


def refuse_other_origins(headers: Headers, place: Mount) -> None:
    """Browsers say of each change which page it comes from."""
    origin = headers.get("origin")
    if origin is None:
        raise Problem(FORBIDDEN, "expected the header Origin, which browsers send with every change")
    if origin not in place.origins or headers.get("sec-fetch-site", "same-origin") != "same-origin":
        hint = "" if place.origin is None else f" It is expected at {place.origin} (ONCUE_PUBLIC_URL)."
        raise Problem(
            FORBIDDEN, f"This change comes from another origin, {origin!r:.200}.{hint} Behind a proxy that changes the "
            "name of the host, set ONCUE_PUBLIC_URL to the address that browsers see.",
        )  # fmt: skip
