"""Requests as bytes, put to the application without a socket: nothing on the way tidies them up.

Every part sends its requests through here, so that all of them are counted and judged alike.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp

Header = tuple[bytes, bytes]


@dataclass(frozen=True)
class Request:
    """A request as it is on the line. `target` is ASCII: what is not comes percent-encoded, or not through HTTP."""

    method: str
    target: str
    headers: tuple[Header, ...] = ()
    body: tuple[bytes, ...] = ()
    """In the chunks in which it arrives."""

    @property
    def path(self) -> str:
        """As servers hand it to applications."""
        return unquote(self.target.partition("?")[0])

    def header(self, name: bytes) -> bytes | None:
        return next((value for known, value in self.headers if known == name), None)

    def __str__(self) -> str:
        body = b"".join(self.body)
        shown = [f"{self.method} {_short(self.target)}"]
        shown += [f"{name!r}: {_short(value)!r}" for name, value in self.headers if name != b"authorization"]
        return "; ".join([*shown, f"body {_short(body)!r}"] if body else shown)


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Tally:
    """What was sent, and what should not have been answered."""

    requests: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    faults: dict[str, list[str]] = field(default_factory=dict)
    slowest: tuple[float, str] = (0.0, "")

    def fault(self, kind: str, what: str) -> None:
        self.faults.setdefault(kind, []).append(what)

    @property
    def all_faults(self) -> list[str]:
        return [f"{kind}: {what}" for kind, faults in self.faults.items() for what in faults]


UNANSWERED = 500
"""What a server answers in the stead of an application that raises."""
Complaints = Callable[[Request, Reply], Sequence[tuple[str, str]]]
"""What is wrong with an answer: kinds of faults, and what they are."""


class Wire:
    """A way to the application that counts what goes over it. `label` says whose requests these are, and which."""

    def __init__(self, api: ASGIApp, judge: Complaints, tally: Tally) -> None:
        self._api = api
        self._complaints = judge
        self.tally = tally
        self.part = ""
        self.label = ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """The application, and a note of what it answered."""
        status = UNANSWERED

        async def noted(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        began = time.perf_counter()
        try:
            await self._api(scope, receive, noted)
        finally:
            took, which = time.perf_counter() - began, f"{scope['method']} {scope['path']:.100}"
            self.tally.requests[self.part] += 1
            self.tally.statuses[status] += 1
            self.tally.slowest = max(self.tally.slowest, (took, f"{self.part} {self.label}: {which}"))

    async def send(self, request: Request) -> Reply:
        chunks = [*request.body] or [b""]
        started: dict[str, Any] = {}
        received: list[bytes] = []

        async def receive() -> dict[str, Any]:
            if not chunks:
                return {"type": "http.disconnect"}
            chunk = chunks.pop(0)
            return {"type": "http.request", "body": chunk, "more_body": bool(chunks)}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                started.update(message)
            else:
                received.append(message.get("body", b""))

        try:
            await self(_scope(request), receive, send)
        except Exception as error:
            received.append(repr(error).encode())
            started["status"] = UNANSWERED
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in started.get("headers", ())}
        reply = Reply(started["status"], headers, b"".join(received))
        self.blame(request, reply, self._complaints(request, reply))
        return reply

    def blame(self, request: Request, reply: Reply, faults: Sequence[tuple[str, str]]) -> None:
        for kind, what in faults:
            said = _short(reply.body.decode("utf-8", "replace"))
            self.tally.fault(kind, f"{self.part} {self.label}: {request} -> {reply.status} {what}: {said}")


def _scope(request: Request) -> dict[str, Any]:
    path, _, query = request.target.partition("?")
    return {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": request.method, "scheme": "http",
        "path": unquote(path), "raw_path": path.encode("ascii"), "query_string": query.encode("ascii"),
        "root_path": "", "headers": list(request.headers), "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8080),
    }  # fmt: skip


def _short(text: Any, most: int = 300) -> Any:
    return text if len(text) <= most else text[:most] + type(text)(b"..." if isinstance(text, bytes) else "...")
