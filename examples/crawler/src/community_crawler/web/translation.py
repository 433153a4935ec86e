"""oncue's API in the crawler's words: `subreddit_id` instead of a task and its arguments.

oncue answers everything under `/api/admin`, and decides who may come in. This layer stands around it and rewrites

    POST, PUT /api/admin/scheduled-jobs…   `subreddit_id` on the way in: the task `request_crawl` and its argument
    POST /api/crawl                        {"subreddit_id"} or {"name"}: enqueues a request at the priority of a person
    every answer about jobs and schedules  `subreddit_id` on the way out, beside `args`
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from fastapi.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from community_crawler.parsing import is_name
from oncue import USER_REQUESTED

ADMIN = "/api/admin/"
JOBS = "/api/admin/jobs"
SCHEDULES = "/api/admin/scheduled-jobs"
CRAWL = "/api/crawl"
TASK = "request_crawl"
ID = "subreddit_id"
LARGEST_BODY = 1024 * 1024
LARGEST_ID = 2**63 - 1

Exists: TypeAlias = Callable[[int], bool]
Document: TypeAlias = dict[str, Any]


class Refused(Exception):
    """A field is not as expected."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


# --- the words: pure ------------------------------------------------------------------------------------------------


def new_schedule_inward(body: Document) -> Document:
    """A new schedule has something to do: a community to crawl, or a task in oncue's own words."""
    if not {ID, "task", "target"}.intersection(body):
        raise Refused(ID, "expected, and not there")
    return schedule_inward(body)


def schedule_inward(body: Document) -> Document:
    """A schedule in the crawler's words as oncue wants it. One in oncue's own words stays as it is."""
    if ID not in body:
        return body
    twice = sorted({"task", "target", "args"}.intersection(body))
    if twice:
        raise Refused(ID, f"give either this or {' and '.join(twice)}, not both")
    rest = {name: value for name, value in body.items() if name != ID}
    return {**rest, "task": TASK, "args": {ID: checked_id(body[ID])}}


def crawl_inward(body: Document) -> Document:
    """A person's request as a job for oncue."""
    unknown = sorted(set(body).difference((ID, "name")))
    if unknown:
        raise Refused(unknown[0], f"there is no such field; expected are: {ID} or name")
    if (ID in body) == ("name" in body):
        raise Refused(ID, "expected either this or name")
    args = {ID: checked_id(body[ID])} if ID in body else {"name": _checked_name(body["name"])}
    return {"task": TASK, "args": args, "priority": USER_REQUESTED}


def outward(document: Any) -> Any:
    """An answer with `subreddit_id` in every record of a job or schedule that has one."""
    if isinstance(document, list):
        return [outward(one) for one in document]
    if not isinstance(document, dict):
        return document
    args = document.get("args")
    if isinstance(args, dict):
        return {**document, ID: args.get(ID)}
    return {name: outward(value) for name, value in document.items()}


def checked_id(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= LARGEST_ID:
        raise Refused(ID, f"expected the id of a community, not {value!r:.100}")
    return value


def _checked_name(value: Any) -> str:
    if not isinstance(value, str) or not is_name(value):
        raise Refused("name", f"expected the name of a community (letters, digits, - and _), not {value!r:.100}")
    return value


# --- around oncue ---------------------------------------------------------------------------------------------------


class Translation:
    """An ASGI application around oncue's. `exists` says whether there is a community of this id."""

    def __init__(self, oncue: ASGIApp, exists: Exists) -> None:
        self._oncue = oncue
        self._exists = exists

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] != "http" or not (path.startswith(ADMIN) or path == CRAWL):
            await self._oncue(scope, receive, send)
            return
        answer = _Answer(send, path)
        try:
            await self._oncue(*await self._inward(scope, receive), answer)
        except Refused as error:
            await _problem(error, path)(scope, receive, send)
        except ClientDisconnect:
            pass  # nobody is there to be answered

    async def _inward(self, scope: Scope, receive: Receive) -> tuple[Scope, Receive]:
        path, method = scope["path"], scope["method"]
        if path == CRAWL and method == "POST":
            crawl = await self._translated(Request(scope, receive), crawl_inward)
            return _with_body({**scope, "path": JOBS, "raw_path": JOBS.encode()}, receive, crawl)
        if path == SCHEDULES and method == "POST":
            return _with_body(scope, receive, await self._translated(Request(scope, receive), new_schedule_inward))
        if path.startswith(SCHEDULES) and method in ("POST", "PUT"):
            return _with_body(scope, receive, await self._translated(Request(scope, receive), schedule_inward))
        return scope, receive

    async def _translated(self, request: Request, translate: Callable[[Document], Document]) -> bytes:
        """The body in oncue's words. What cannot be read at all is left to oncue, which says what is wrong."""
        body = await _read(request)
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            return body
        if not isinstance(document, dict):
            return body
        translated = translate(document)
        number = translated["args"].get(ID) if translated is not document else None
        if number is not None and not await run_in_threadpool(self._exists, number):
            raise Refused(ID, f"there is no community {number}")
        return body if translated is document else json.dumps(translated).encode()


async def _read(request: Request) -> bytes:
    """The body, as far as anybody would read it: oncue refuses what is larger."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_BODY:
            break
    return bytes(body)


def _with_body(scope: Scope, receive: Receive, body: bytes) -> tuple[Scope, Receive]:
    """The same request with another body."""
    replaced = (b"content-length", b"transfer-encoding")
    headers = [(name, value) for name, value in scope["headers"] if name not in replaced]
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def given() -> Message:
        return messages.pop() if messages else await receive()

    return {**scope, "headers": [*headers, (b"content-length", str(len(body)).encode())]}, given


class _Answer:
    """Sends oncue's answer on: JSON with the crawler's words in it, everything else as it comes.

    A problem is about the path that the caller knows.
    """

    def __init__(self, send: Send, path: str) -> None:
        self._send = send
        self._path = path
        self._start: Message | None = None
        self._body = bytearray()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_json(message):
            self._start = message
        elif self._start is None:
            await self._send(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._finish(self._start)

    async def _finish(self, start: Message) -> None:
        body = json.dumps(self._translated(json.loads(self._body))).encode() if self._body else b""
        headers = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length"]
        await self._send({**start, "headers": [*headers, (b"content-length", str(len(body)).encode())]})
        await self._send({"type": "http.response.body", "body": body})

    def _translated(self, document: Any) -> Any:
        if self._path == CRAWL and isinstance(document, dict) and "instance" in document:
            return {**document, "instance": self._path}
        return outward(document)


def _is_json(start: Message) -> bool:
    kinds = (b"application/json", b"application/problem+json")
    return any(name.lower() == b"content-type" and value.startswith(kinds) for name, value in start["headers"])


def _problem(error: Refused, path: str) -> Response:
    document = {
        "type": "/problems/invalid-field",
        "title": "A field is not as expected",
        "status": 422,
        "detail": str(error),
        "instance": path.encode("utf-8", "replace").decode(),
        "errors": [{"field": error.field, "message": error.message}],
    }
    return JSONResponse(document, 422, media_type="application/problem+json")
