"""Errors over HTTP: problem documents (RFC 9457) that say what is wrong, in which field, and what it expects."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fastapi.exceptions import RequestValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from oncue.errors import (
    Conflict,
    IdTaken,
    InvalidJob,
    InvalidSchedule,
    InvalidSubject,
    InvalidWebhook,
    JobNotFound,
    NotLeader,
    OncueError,
    RowLocked,
    ScheduleNotFound,
    SessionNotFound,
    StoreError,
    StoreRefused,
    SubjectNotFound,
    TokenNotFound,
    UnknownTask,
    WebhookNotFound,
    WrongApplication,
)
from oncue.policy.urls import url_leads_here
from oncue.server.api.coming_from import is_from_here

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = 2
LATER = {"Retry-After": str(RETRY_AFTER_SECONDS)}

_log = logging.getLogger("oncue.http")


class ProblemKind(NamedTuple):
    """One sort of problem: its stable name, its status and what it is called."""

    slug: str
    status: int
    title: str

    @property
    def type(self) -> str:
        return f"/problems/{self.slug}"


MALFORMED = ProblemKind("malformed-request", 400, "The request cannot be read")
UNAUTHORIZED = ProblemKind("unauthorized", 401, "A token is needed")
FORBIDDEN = ProblemKind("forbidden", 403, "This is not allowed")
NOT_FOUND = ProblemKind("not-found", 404, "There is no such thing")
METHOD = ProblemKind("method-not-allowed", 405, "This path does not take this method")
CONFLICT = ProblemKind("conflict", 409, "The present state does not allow this")
ANSWERING = ProblemKind("still-being-answered", 409, "A request with this key is still being answered")
UNKNOWN_EFFECT = ProblemKind("effect-unknown", 409, "An earlier request with this key was cut off")
TOO_LARGE = ProblemKind("too-large", 413, "The request is too large")
NOT_LEADER = ProblemKind("not-leader", 421, "This node does not lead")
INVALID = ProblemKind("invalid-field", 422, "A field is not as expected")
UNKNOWN_TASK = ProblemKind("unknown-task", 422, "There is no such task")
KEY_REUSED = ProblemKind("idempotency-key-reused", 422, "The idempotency key belongs to another request")
BUG = ProblemKind("internal-error", 500, "Something went wrong inside of oncue")
AWAY = ProblemKind("database-unavailable", 503, "The database does not answer")
LOCKED = ProblemKind("row-locked", 503, "Another session holds a lock on what this would change")

KINDS = (
    MALFORMED, UNAUTHORIZED, FORBIDDEN, NOT_FOUND, METHOD, CONFLICT, ANSWERING, UNKNOWN_EFFECT, TOO_LARGE, NOT_LEADER,
    INVALID, UNKNOWN_TASK, KEY_REUSED, BUG, AWAY, LOCKED,
)  # fmt: skip


class FieldError(NamedTuple):
    """What is wrong with one field; `position` is a column in its text, counted from 1."""

    field: str
    message: str
    position: int | None = None

    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = {"field": self.field, "message": self.message}
        return record if self.position is None else {**record, "position": self.position}


class Problem(Exception):
    """Raised where a request cannot be answered; it becomes a problem document."""

    def __init__(
        self,
        kind: ProblemKind,
        detail: str,
        errors: Sequence[FieldError] = (),
        *,
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.errors = errors
        self.headers = headers or {}
        self.members = members

    def document(self, instance: str) -> dict[str, Any]:
        document = {
            "type": self.kind.type,
            "title": self.kind.title,
            "status": self.kind.status,
            "detail": self.detail,
            "instance": instance,
        }
        if self.errors:
            document["errors"] = [error.record() for error in self.errors]
        return document | self.members


def invalid(field: str, message: str, position: int | None = None) -> Problem:
    """A field is not as expected."""
    return Problem(INVALID, f"{field}: {message}", [FieldError(field, message, position)])


# --- answers --------------------------------------------------------------------------------------------------------


class Answer(JSONResponse):
    """JSON that can always be written: half a surrogate pair, which UTF-8 does not have, stays escaped."""

    def render(self, content: Any) -> bytes:
        return content if isinstance(content, bytes) else rendered(content)  # bytes were rendered part by part


async def made(make: Callable[[], Any]) -> Answer:
    """An answer that may be large: put together and written in a thread, since the event loop has others to serve."""
    return Answer(await asyncio.to_thread(lambda: rendered(make())))


def rendered(content: Any) -> bytes:
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


def instance_of(scope: Mapping[str, Any]) -> str:
    """The path of a request, as the client wrote it."""
    path = str(scope.get("path", ""))
    return path.encode("utf-8", "replace").decode()


def answer(problem: Problem, scope: Mapping[str, Any]) -> Response:
    return Answer(
        problem.document(instance_of(scope)), problem.kind.status, media_type=MEDIA_TYPE, headers=dict(problem.headers)
    )


def of(error: Exception, request: Request | None = None) -> Problem:
    """The problem behind an error. An unexpected error is logged, and answered without its traceback."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, RequestValidationError):
        return _of_validation(error)
    if isinstance(error, NotLeader):
        return _of_not_leader(error, request)
    if isinstance(error, OncueError):
        return _of_ours(error)
    where = "" if request is None else f"{request.method} {instance_of(request.scope)}"
    _log.error("%s failed: %s: %s", where, type(error).__name__, error, exc_info=error)
    return Problem(BUG, "An unexpected error; the log of the process that answered tells more.")


def _of_not_leader(error: NotLeader, request: Request | None) -> Problem:
    """Who leads instead. A loopback address leads a client on another host to its own machine: it is not told that."""
    told = NotLeader(error.leader, address_for(request, error.address))
    leader = None if told.leader is None else {"name": told.leader, "address": told.address}
    return Problem(NOT_LEADER, str(told), leader=leader)


def address_for(request: Request | None, address: str | None) -> str | None:
    """An address, unless the client that asks for it cannot reach it."""
    if address is None or not url_leads_here(address):
        return address
    return address if request is not None and is_from_here(request.scope) else None


def _of_ours(error: OncueError) -> Problem:
    match error:
        case UnknownTask():
            return Problem(UNKNOWN_TASK, str(error), [FieldError("task", str(error))])
        case InvalidJob() | InvalidSchedule() | InvalidSubject() | InvalidWebhook():
            message = str(error).removeprefix(f"{error.field}: ")
            return invalid(error.field, message, getattr(error, "position", None))
        case (
            JobNotFound() | ScheduleNotFound() | SubjectNotFound() | SessionNotFound() | TokenNotFound()
            | WebhookNotFound()
        ):  # fmt: skip
            return Problem(NOT_FOUND, str(error))
        case Conflict():
            problem = Problem(CONFLICT, str(error))
            if error.job_id is not None:
                problem.members["job_id"] = error.job_id
            return problem
        case WrongApplication():
            return Problem(CONFLICT, str(error))
        case StoreRefused() if not isinstance(error, IdTaken):
            _log.warning("the database refused a value of a request: %s", error)
            return Problem(INVALID, "The database did not take one of the values.")
        case RowLocked():
            return Problem(LOCKED, str(error), headers=LATER)
        case StoreError():
            return away(str(error))
    _log.error("%s: %s", type(error).__name__, error, exc_info=error)
    return Problem(BUG, "An unexpected error; the log of the process that answered tells more.")


def away(why: str) -> Problem:
    """The database is away: the client may ask again later."""
    return Problem(AWAY, why, headers=LATER)


# --- what pydantic says, in our words -------------------------------------------------------------------------------

LONGEST_INPUT = 60
OURS = {
    "Input should be greater than or equal to ": "expected at least ",
    "Input should be less than or equal to ": "expected at most ",
    "Input should be a valid boolean": "expected true or false",
    "Input should be ": "expected ",
    "String should have ": "expected a text of ",
    "String should match ": "expected a text that matches ",
    ", unable to parse string as an integer": "",
    ", unable to parse string as a number": "",
    ", unable to interpret input": "",
}


def _of_validation(error: RequestValidationError) -> Problem:
    errors = [_field_error(detail) for detail in error.errors()]
    first = errors[0]
    more = "" if len(errors) == 1 else f" (and {len(errors) - 1} more)"
    return Problem(INVALID, f"{first.field}: {first.message}{more}", errors)


def _field_error(detail: Mapping[str, Any]) -> FieldError:
    place = [str(part) for part in detail["loc"][1:]]
    return FieldError(".".join(place) or str(detail["loc"][0]), _message(detail))


def _message(detail: Mapping[str, Any]) -> str:
    kind, text = str(detail["type"]), str(detail["msg"]).removeprefix("Value error, ")
    if kind == "missing":
        return "expected, and not there"
    if kind == "extra_forbidden":
        return "there is no such field"
    if kind in ("model_attributes_type", "dict_type", "model_type"):
        return "expected a JSON object"
    if kind == "value_error":
        return text
    if kind in ("too_short", "too_long"):  # a list is not shown, so that its length is told
        return f"expected {text.partition(' should have ')[2].partition(' after ')[0]}, not {_length(detail)}"
    for said, ours in OURS.items():
        text = text.replace(said, ours)
    return f"{text}, not {_short(detail.get('input'))}"


def _length(detail: Mapping[str, Any]) -> str:
    given = detail.get("input")
    return str(len(given)) if isinstance(given, list | dict) else _short(given)


def _short(value: Any) -> str:
    """What was given, if that fits into a line."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**LONGEST_INPUT:
        return "a number of that size"  # a number of many thousand digits cannot even be written out
    text = repr(value)
    return text if len(text) <= LONGEST_INPUT else f"{text[: LONGEST_INPUT - 1]}…"
