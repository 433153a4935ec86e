"""The OpenAPI document: what FastAPI derives from the routes, and what every one of them has in common."""

from __future__ import annotations

from threading import Lock
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.requests import Request

from oncue.server.api.idempotency import HEADER, LONGEST_KEY, REPLAYED
from oncue.server.api.models.base import LARGEST_ID, ProblemDocument
from oncue.server.api.problems import Answer, made
from oncue.server.api.routing import PUBLIC, DeclaredRoute, Routes

DESCRIPTION = f"""Every job on cue, once: jobs, queues, schedules and who may touch them.

Errors are problem documents (RFC 9457) with the fields that are wrong. Listings have a `next` to go on from. A POST may
carry `{HEADER}`: sent again with the same key within 24 hours, it gets the first answer once more, with the header
`{REPLAYED}: true`. A body is read as JSON whatever its content type says.
"""
SCHEME = "token"
SCHEMES = {
    SCHEME: {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of `oncue token create`. Scopes: read (all but tokens); enqueue; operate (includes "
        "read); admin (all).",
    }
}
KEY_PARAMETER = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": "Any text of your own for this request. Sent again with it, the request takes effect once.",
    "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": "^[!-~]+$"},
}


_ONE_AT_A_TIME = Lock()
"""The descriptions of fields are read from the source, and two threads must not parse at once (CPython 3.11 counts the
depth of both as one, and raises a SystemError)."""

LINKS = {
    "enqueue_job": (
        "show_job", "set_job_status", "set_job_priority", "boost_job", "retry_job", "cancel_job",
    ),
    "create_schedule": (
        "show_schedule", "change_schedule", "delete_schedule", "toggle_schedule", "preview_schedule", "list_slots",
        "audit_schedule", "list_revisions", "trigger_schedule", "backfill_schedule",
    ),
    "create_token": ("revoke_token",),
}  # fmt: skip
"""What can be done next with the id that an answer has in it."""


def add(routes: Routes) -> None:
    @routes.get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request) -> Answer:
        root = request.scope.get("root_path", "")

        def document() -> Any:
            described = routes.api.openapi()
            return {**described, "servers": [{"url": root}]} if root else described

        return await made(document)


def describe(api: FastAPI) -> None:
    """Let the application describe itself in full."""

    def openapi() -> dict[str, Any]:
        with _ONE_AT_A_TIME:
            if api.openapi_schema is None:
                api.openapi_schema = _completed(
                    get_openapi(title=api.title, version=api.version, description=DESCRIPTION, routes=api.routes), api
                )
            return api.openapi_schema

    api.openapi = openapi  # type: ignore[method-assign]


def _completed(document: dict[str, Any], api: FastAPI) -> dict[str, Any]:
    components = document.setdefault("components", {})
    components["securitySchemes"] = SCHEMES
    schema = ProblemDocument.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas = components.setdefault("schemas", {})
    schemas.update(schema.pop("$defs", {}))
    schemas["ProblemDocument"] = schema
    for route in api.routes:
        if isinstance(route, DeclaredRoute) and route.include_in_schema:
            for method in route.methods or ():
                _complete(document["paths"][route.path_format][method.lower()], route, method)
    for schema in schemas.values():
        _make_bounds_exact(schema)
    return document


def _make_bounds_exact(schema: Any) -> None:
    """FastAPI makes floats of all bounds, and the largest id is none: 2**63 would be an id."""
    if isinstance(schema, dict):
        for name in {"minimum", "maximum"} & schema.keys():
            bound = schema[name]
            schema[name] = LARGEST_ID if bound == float(LARGEST_ID) else int(bound) if bound == int(bound) else bound
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        _make_bounds_exact(inner)


def _complete(operation: dict[str, Any], route: DeclaredRoute, method: str) -> None:
    declared = route.declared
    if declared is None or declared.needs == PUBLIC:
        operation["security"] = []
        return
    operation["security"] = [{SCHEME: []}]
    operation["x-oncue-scope"] = declared.needs
    said = operation.get("description", "")
    operation["description"] = f"{said}\n\nNeeds the scope `{declared.needs}`.".strip()
    for name in LINKS.get(route.name, ()):
        link = {"operationId": name, "parameters": {"id": "$response.body#/id"}}
        operation["responses"]["201"].setdefault("links", {})[name] = link
    if method == "POST":
        operation.setdefault("parameters", []).append(KEY_PARAMETER)
        operation["responses"].setdefault("409", operation["responses"]["422"] | {"description": "See the detail."})
