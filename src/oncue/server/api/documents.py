"""What is said of a route in the OpenAPI document: the same for all, but for what each may answer."""

from __future__ import annotations

from typing import Any

from oncue.server.api import problems

REASONS = {
    400: "The body is not JSON.",
    401: "A token is needed, or this one is unknown, expired or revoked.",
    403: "The token does not have the scope.",
    404: "There is no such thing.",
    409: "The present state does not allow this.",
    413: "The body is larger than 1 MiB.",
    421: "This node does not lead: `leader` says which one does. Only the leader creates cluster jobs.",
    422: "A field is not as expected.",
    500: "A bug.",
    503: "The database does not answer, or another session holds a lock on what this would change.",
}
EVERYWHERE = (401, 403, 422, 503)
WITH_BODY = (400, 413)
PROBLEM = {"$ref": "#/components/schemas/ProblemDocument"}


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problems that a route may answer with."""
    return {
        status: {"description": REASONS[status], "content": {problems.MEDIA_TYPE: {"schema": PROBLEM}}}
        for status in sorted({*EVERYWHERE, *statuses})
    }


def looking(tag: str, summary: str, model: Any, *statuses: int) -> dict[str, Any]:
    """What is said of a route that only looks."""
    return _said(tag, summary, model, refusals(*statuses))


def changing(tag: str, summary: str, model: Any, *statuses: int, status: int = 200) -> dict[str, Any]:
    """What is said of a route that changes something."""
    return _said(tag, summary, model, refusals(*WITH_BODY, *statuses), status)


def _said(
    tag: str, summary: str, model: Any, responses: dict[int | str, dict[str, Any]], status: int = 200
) -> dict[str, Any]:
    return {
        "tags": [tag],
        "summary": summary,
        "response_model": model,
        "response_class": problems.Answer,
        "status_code": status,
        "responses": responses,
    }
