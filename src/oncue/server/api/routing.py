"""Routes that declare what they need. The gate refuses every request to a route that declares no scope.

Every request takes the same steps: its address and body are checked, a repeated POST is recognised, the endpoint
answers within its time, and whatever goes wrong becomes a problem document.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Scope

from oncue.model import Scope as TokenScope
from oncue.server.api import intake, problems, slashes
from oncue.server.api.idempotency import HEADER, ONCE, IdempotentRequests, Keeping

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
Handler: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]

PUBLIC: Final = "public"
READ_SECONDS, CHANGE_SECONDS, LONG_SECONDS = 5.0, 8.0, 120.0
"""How long a request may take. A change is given the time that enqueueing tries again while the database is away."""

DECLARED = "oncue_declared"


@dataclass(frozen=True, slots=True)
class RouteDeclaration:
    """What a route says of itself."""

    needs: TokenScope | Literal["public"]
    """The scope that a caller must have."""
    patience: float
    requests: IdempotentRequests | None = None
    """Where POST requests with an idempotency key are kept."""
    keeping: Keeping = ONCE
    strict: bool = True
    """Whether unknown query parameters and fields are refused."""
    open_here: bool = False
    """Whether a server on a loopback address answers it without a token, also when there are tokens."""
    when_away: Callable[[str], Response] | None = None
    """What is answered while the database is away and no token can be checked, if not a problem document."""


class DeclaredRoute(APIRoute):
    """A route of the API. It is made from an endpoint that carries its declaration."""

    verbs: Collection[str] = ()
    """The last parts of longer paths: `…/{name}` leaves `…/a/pause` to them, whatever the method."""

    @property
    def declared(self) -> RouteDeclaration | None:
        found = getattr(self.endpoint, DECLARED, None)
        return found if isinstance(found, RouteDeclaration) else None

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        path = slashes.guarded(scope) if ":path" in self.path else None
        if path is None:
            return self._unless_verb(*super().matches(scope))
        begins = len(scope.get("root_path", "")) + self.path.index("{")  # a slash before the name is no part of it
        match, child = self._unless_verb(*super().matches({**scope, "path": scope["path"][:begins] + path[begins:]}))
        if "path_params" in child:
            child["path_params"] = slashes.restored(child["path_params"])
        return match, child

    def _unless_verb(self, match: Match, child: Scope) -> tuple[Match, Scope]:
        if self.verbs and match is not Match.NONE:
            *_, name = child["path_params"].values()
            rest, _, last = str(name).rpartition("/")
            if rest and last in self.verbs:
                return Match.NONE, {}
        return match, child

    def get_route_handler(self) -> Handler:
        endpoint = super().get_route_handler()

        async def handle(request: Request) -> Response:
            declared = self.declared
            assert declared is not None, f"{self.path} declares no scope, and the gate let a request through"
            try:
                intake.check_address(request, self._parameters() if declared.strict else None)
                received, body = await self._received(request)
                async with asyncio.timeout(declared.patience):
                    return await self._answered(received, body, declared, endpoint)
            except TimeoutError:
                return problems.answer(_late(request, declared), request.scope)
            except Exception as error:
                return problems.answer(problems.of(error, request), request.scope)

        return handle

    async def _received(self, request: Request) -> tuple[Request, Any]:
        if request.method in ("GET", "HEAD"):
            return request, None
        received, body = await intake.read(request)
        if self.body_field is None and body not in (None, {}):
            raise problems.invalid("body", "expected none")
        return received, body

    async def _answered(self, request: Request, body: Any, declared: RouteDeclaration, endpoint: Handler) -> Response:
        key = request.headers.get(HEADER)
        if request.method != "POST" or key is None or declared.requests is None:
            return await endpoint(request)
        return await declared.requests.answered(request, key, body, declared.keeping, endpoint)

    def _parameters(self) -> Iterable[str]:
        return [str(field.alias) for field in self.dependant.query_params]


def _late(request: Request, declared: RouteDeclaration) -> problems.Problem:
    unknown = "" if request.method in ("GET", "HEAD") else "; it is unknown whether the request took effect"
    return problems.away(f"no answer within {declared.patience:g} s{unknown}")


# --- declaring ------------------------------------------------------------------------------------------------------


class Routes:
    """Adds routes to an application. This is the one way to make a route that can be reached."""

    def __init__(self, api: FastAPI, requests: IdempotentRequests | None = None) -> None:
        self.api = api
        self._requests = requests
        self._verbs: dict[str, set[str]] = {}
        api.router.route_class = DeclaredRoute

    def get(
        self, path: str, *, needs: TokenScope | Literal["public"] = "read", **said: Any
    ) -> Callable[[Endpoint], Endpoint]:
        return self._added(["GET"], path, RouteDeclaration(needs, READ_SECONDS), said)

    def probe(
        self,
        path: str,
        *,
        needs: TokenScope | Literal["public"],
        when_away: Callable[[str], Response] | None = None,
        **said: Any,
    ) -> Callable[[Endpoint], Endpoint]:
        """A route for machines that look after processes: also HEAD, and with whatever they add to its address."""
        declared = RouteDeclaration(needs, READ_SECONDS, strict=False, open_here=True, when_away=when_away)

        def add(endpoint: Endpoint) -> Endpoint:
            self._added(["HEAD"], path, declared, {"include_in_schema": False, "response_model": None})(endpoint)
            return self._added(["GET"], path, declared, said)(endpoint)

        return add

    def put(
        self, path: str, *, needs: TokenScope, patience: float | None = None, **said: Any
    ) -> Callable[[Endpoint], Endpoint]:
        return self._added(["PUT"], path, RouteDeclaration(needs, patience or CHANGE_SECONDS), said)

    def patch(self, path: str, *, needs: TokenScope, **said: Any) -> Callable[[Endpoint], Endpoint]:
        return self._added(["PATCH"], path, RouteDeclaration(needs, CHANGE_SECONDS), said)

    def delete(self, path: str, *, needs: TokenScope, **said: Any) -> Callable[[Endpoint], Endpoint]:
        return self._added(["DELETE"], path, RouteDeclaration(needs, CHANGE_SECONDS), said)

    def post(
        self,
        path: str,
        *,
        needs: TokenScope,
        keeping: Keeping = ONCE,
        patience: float | None = None,
        **said: Any,
    ) -> Callable[[Endpoint], Endpoint]:
        declared = RouteDeclaration(needs, patience or CHANGE_SECONDS, self._requests, keeping)
        return self._added(["POST"], path, declared, said)

    def _added(
        self, methods: list[str], path: str, declared: RouteDeclaration, said: Mapping[str, Any]
    ) -> Callable[[Endpoint], Endpoint]:
        def add(endpoint: Endpoint) -> Endpoint:
            setattr(endpoint, DECLARED, declared)
            self.api.add_api_route(path, endpoint, methods=methods, **said)
            route, (place, _, last) = self.api.router.routes[-1], path.rpartition("/")
            if place.endswith(":path}"):
                self._verbs.setdefault(place, set()).add(last)
            elif path.endswith(":path}") and isinstance(route, DeclaredRoute):
                route.verbs = self._verbs.setdefault(path, set())
            return endpoint

        return add


# --- finding --------------------------------------------------------------------------------------------------------


class Found(NamedTuple):
    """The route that a request is for, if there is one, and the methods that its path takes."""

    route: BaseRoute | None
    methods: tuple[str, ...]

    @property
    def declared(self) -> RouteDeclaration | None:
        found = getattr(self.route, "declared", None)
        return found if isinstance(found, RouteDeclaration) else None


def find(routes: Iterable[BaseRoute], scope: Any) -> Found:
    others: list[BaseRoute] = []
    for route in routes:
        match, _ = route.matches(scope)
        if match is Match.FULL:
            return Found(route, ())
        if match is Match.PARTIAL:
            others.append(route)
    # `/jobs/bulk` is not one of the jobs of `/jobs/{id}`.
    exact = [route for route in others if "{" not in getattr(route, "path", "")] or others
    return Found(None, tuple(sorted({method for route in exact for method in getattr(route, "methods", None) or ()})))
