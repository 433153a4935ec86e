"""oncue's API in the crawler's words (`words.py`): `subreddit_id` for a task and its arguments, `crawling`, `success`.

oncue answers everything under `/api/admin`, and decides who may come in. This layer stands around it and rewrites

    POST, PUT /api/admin/scheduled-jobs…   `subreddit_id` on the way in: the task `crawl` and its argument
    GET /api/admin/jobs                    crawls, unless another `task` is asked for
    GET /api/admin/jobs/stats              how many crawls there are: the figures of their queue
    POST /api/crawl                        {"subreddit_id"} or {"name"}, "priority", "max_retries": enqueues a crawl
    every answer                           in the crawler's words
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from community_crawler.web.words import (
    ID,
    TASK,
    Document,
    Refused,
    checked_request,
    checked_status,
    crawl_inward,
    new_schedule_inward,
    outward,
    schedule_inward,
    stats_outward,
    status_inward,
)

ADMIN = "/api/admin/"
JOBS = "/api/admin/jobs"
STATS = "/api/admin/jobs/stats"
CRAWLS = "/api/admin/queues/crawl"
SCHEDULES = "/api/admin/scheduled-jobs"
CRAWL = "/api/crawl"
LARGEST_BODY = 1024 * 1024
DUPLICATE, NOT_FOUND, INVALID = 200, 404, 422

Hurry: TypeAlias = Callable[[int, int], Awaitable[None]]
"""Makes a crawl (by its id) at least this urgent."""


@dataclass(frozen=True, slots=True)
class Communities:
    """What is known of communities: whether there is one of this id, the id of a name, and adding one."""

    exists: Callable[[int], Awaitable[bool]]
    named: Callable[[str], Awaitable[int | None]]
    add: Callable[[str], Awaitable[int]]


class Translation:
    """An ASGI application around oncue's."""

    def __init__(self, oncue: ASGIApp, communities: Communities, hurry: Hurry) -> None:
        self._oncue = oncue
        self._communities = communities
        self._hurry = hurry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] != "http" or not (path.startswith(ADMIN) or path == CRAWL):
            await self._oncue(scope, receive, send)
            return
        try:
            if path == CRAWL and scope["method"] == "POST":
                await self._crawl(scope, receive, send)
            else:
                await self._oncue(*await self._inward(scope, receive), _Answer(send, path))
        except Refused as error:
            await _problem(error, path)(scope, receive, send)
        except ClientDisconnect:
            pass  # nobody is there to be answered

    async def _inward(self, scope: Scope, receive: Receive) -> tuple[Scope, Receive]:
        path, method = scope["path"], scope["method"]
        if path == STATS and method == "GET":
            return _at(scope, CRAWLS), receive
        if path == JOBS and method == "GET":
            return _listing(scope), receive
        if path.startswith(JOBS) and path.endswith("/status") and method == "PUT":
            return await self._translated(scope, receive, status_inward)
        if path == SCHEDULES and method == "POST":
            return await self._translated(scope, receive, new_schedule_inward)
        if path.startswith(SCHEDULES) and method in ("POST", "PUT"):
            return await self._translated(scope, receive, schedule_inward)
        return scope, receive

    async def _translated(
        self, scope: Scope, receive: Receive, translate: Callable[[Document], Document]
    ) -> tuple[Scope, Receive]:
        """The request in oncue's words. What cannot be read at all is left to oncue, which says what is wrong."""
        body = await _read(Request(scope, receive))
        document = _document(body)
        if document is None:
            return _with_body(scope, receive, body)
        translated = translate(document)
        if translated is document:
            return _with_body(scope, receive, body)
        await self._refuse_unknown(translated["args"][ID])
        return _with_body(scope, receive, json.dumps(translated).encode())

    async def _refuse_unknown(self, number: int) -> None:
        if not await self._communities.exists(number):
            raise Refused(ID, f"there is no community {number}")

    # --- asking for a crawl -----------------------------------------------------------------------------------------

    async def _crawl(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Enqueue a crawl, or say which one stands for it, which is then at least as urgent."""
        scope = _at(scope, JOBS)
        body = await _read(Request(scope, receive))
        document = _document(body)
        if document is None:
            await self._oncue(*_with_body(scope, receive, body), _Answer(send, CRAWL))
            return
        number = await self._number(checked_request(document), scope, receive, send)
        if number is None:
            return
        wanted = crawl_inward(document, number)
        answer = _Answer(send, CRAWL, number)
        await self._oncue(*_with_body(scope, receive, json.dumps(wanted).encode()), answer)
        if answer.status == DUPLICATE:
            await self._hurry(answer.document["id"], wanted.get("priority", 0))
        await answer.finish()

    async def _number(self, document: Document, scope: Scope, receive: Receive, send: Send) -> int | None:
        """The community to crawl. One that is known by its name only is added, if the caller may enqueue at all."""
        if ID in document:
            await self._refuse_unknown(document[ID])
            return int(document[ID])
        known = await self._communities.named(document["name"])
        if known is not None or not await self._admitted(scope, receive, send):
            return known
        return await self._communities.add(document["name"])

    async def _admitted(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Whether oncue lets this caller enqueue: an empty job is invalid then, and else the caller hears why not."""
        headers = [(name, value) for name, value in scope["headers"] if name.lower() != b"idempotency-key"]
        asked = _Answer(send, CRAWL, held=True)
        await self._oncue(*_with_body({**scope, "headers": headers}, receive, b"{}"), asked)
        if asked.status == INVALID:
            return True
        await asked.finish()
        return False


def _document(body: bytes) -> Document | None:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _at(scope: Scope, path: str) -> Scope:
    return {**scope, "path": path, "raw_path": path.encode()}


def _listing(scope: Scope) -> Scope:
    """A listing is of crawls, unless another task is asked for."""
    asked = scope.get("query_string", b"")
    fields = parse_qsl(asked.decode("latin-1"), keep_blank_values=True)
    for name, value in fields:
        if name == "status":
            checked_status(value)
    if any(name == "task" for name, _ in fields):
        return scope
    return {**scope, "query_string": asked + (b"&" if asked else b"") + f"task={TASK}".encode()}


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

    A problem is about the path that the caller knows. An answer about a crawl is held until `finish`.
    """

    def __init__(self, send: Send, path: str, number: int | None = None, *, held: bool = False) -> None:
        self._send = send
        self._path = path
        self._number = number
        self._held = held or number is not None
        self._start: Message | None = None
        self._body = bytearray()

    @property
    def status(self) -> int:
        return 0 if self._start is None else int(self._start["status"])

    @property
    def document(self) -> Any:
        return json.loads(self._body)

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and (self._held or _is_json(message)):
            self._start = message
        elif self._start is None:
            await self._send(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body", False) and not self._held:
                await self.finish()

    async def finish(self) -> None:
        start = self._start
        if start is None:
            return
        body = json.dumps(self._translated(self.document)).encode() if self._body and _is_json(start) else self._body
        headers = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length"]
        if self._path == STATS and self.status == NOT_FOUND:  # there was no crawl so far
            headers = [(b"content-type", b"application/json")]
            start = {**start, "status": 200}
        await self._send({**start, "headers": [*headers, (b"content-length", str(len(body)).encode())]})
        await self._send({"type": "http.response.body", "body": bytes(body)})

    def _translated(self, document: Any) -> Any:
        if self._path == STATS and self.status in (200, NOT_FOUND):
            return stats_outward(document if self.status == 200 else None)
        if isinstance(document, dict) and "instance" in document:
            document = {**document, "instance": self._path.encode("utf-8", "replace").decode()}
        told = outward(document)
        return {**told, ID: self._number} if self._number is not None and self.status < 400 else told


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
