"""What every answer must be, whatever was asked."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from fastapi import FastAPI
from pydantic import TypeAdapter, ValidationError

from fuzz.wire import Reply, Request
from oncue.server.api import routing
from oncue.server.api.models.base import ProblemDocument
from oncue.server.api.problems import MEDIA_TYPE
from oncue.server.api.routing import DeclaredRoute

SERVER_ERROR, SHAPE = "server_errors", "broken_answers"
DOCUMENT: dict[str, Any] = {}
"""The description. It takes a while to make, and is the same for all."""


class Judge:
    """Holds answers against what the routes declare."""

    def __init__(self, api: FastAPI) -> None:
        self._routes = api.routes
        if not DOCUMENT:
            DOCUMENT.update(api.openapi())

    def complaints(self, request: Request, reply: Reply) -> list[tuple[str, str]]:
        if reply.status >= 500:
            return [(SERVER_ERROR, "a server error")]
        try:
            self._check(request, reply)
        except (AssertionError, ValueError) as error:
            return [(SHAPE, str(error).splitlines()[0])]
        return []

    def _check(self, request: Request, reply: Reply) -> None:
        if request.method == "HEAD":
            return  # it has no body
        if reply.status >= 400:
            _check_problem(request, reply)
        sent = request.target.partition("?")[0].encode("ascii")
        scope = {
            "type": "http",
            "method": request.method,
            "path": request.path,
            "raw_path": sent,
            "root_path": "",
            "headers": [],
        }
        route = routing.find(self._routes, scope).route
        if isinstance(route, DeclaredRoute) and route.include_in_schema:
            self._check_declared(route, request, reply)

    def _check_declared(self, route: DeclaredRoute, request: Request, reply: Reply) -> None:
        operation = DOCUMENT["paths"][route.path_format][request.method.lower()]
        declared = operation["responses"].get(str(reply.status))
        assert declared is not None, "is not declared"
        kind = reply.headers["content-type"].partition(";")[0]
        assert kind in declared["content"], f"is not declared to be {kind}"
        if reply.status < 400 and kind == "application/json":
            _adapter(route.response_model).validate_json(_strict(reply.body))


def _check_problem(request: Request, reply: Reply) -> None:
    assert reply.headers.get("content-type") == MEDIA_TYPE, f"is {reply.headers.get('content-type')}"
    try:
        problem = ProblemDocument.model_validate_json(_strict(reply.body))
    except ValidationError as error:
        raise AssertionError(f"is no problem document: {error.errors()[0]['msg']}") from None
    assert problem.status == reply.status, f"says {problem.status}"
    assert problem.instance == request.path, f"tells of {problem.instance!r}"
    assert problem.detail, "has no detail"
    if reply.status == 422:
        assert problem.errors, "names no field"
        assert all(error.field and error.message for error in problem.errors), "names no field"


def _strict(body: bytes) -> bytes:
    """JSON that every reader takes: in UTF-8, without NaN."""

    def refuse(name: str) -> None:
        raise ValueError(f"has {name} in it")

    json.loads(body.decode(), parse_constant=refuse)
    return body


@cache
def _adapter(model: Any) -> TypeAdapter[Any]:
    return TypeAdapter(model)
