"""Connections that leave room for others: each has little time for its next bytes, and there are only so many of them.

uvicorn waits for ever for the rest of a request. Here the head of a request must be complete within one time-out, its
body within another, however the bytes trickle in, and an answer must be taken off within the latter. When there are too
many connections, the one with the oldest incomplete request is closed: a health check that asks at once is answered
although a thousand half-sent requests are open. If none of them waits, the new one is told 503.

Only what uvicorn's two protocols (h11, httptools) have in common is used of them: `cycle` is the latest request of a
connection, `flow` says whether reading or writing is paused.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from uvicorn.protocols.http.auto import AutoHTTPProtocol

Awaited: TypeAlias = Literal["head", "body", "answer"]
"""What a connection waits for; an answer is ours to give."""

ABORT_SECONDS = 2.0
TELL_AGAIN_SECONDS = 60.0

_log = logging.getLogger("oncue.http")
_Protocol: Any = AutoHTTPProtocol


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """How much patience a server has, in seconds, and with how many connections at once."""

    head: float = 10.0
    body: float = 30.0
    idle: float = 5.0
    connections: int = 500


class BoundedProtocol(_Protocol):  # type: ignore[misc]
    """One connection. `crowd` is what all connections of a server know together."""

    def __init__(self, limits: HttpLimits, crowd: Crowd, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._limits = limits
        self._crowd = crowd
        self._awaits: Awaited | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._write_deadline: asyncio.TimerHandle | None = None
        self._has_sent = False
        self.waits_since = 0.0

    @property
    def keeps_us_waiting(self) -> bool:
        """Whether it is the other side's turn: to send something, or to take its answer off."""
        return self._awaited() != "answer" or self.flow.write_paused

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.waits_since = self.loop.time()
        if self._crowd.admits(self, self.connections, self._limits.connections):
            self._expect("head")
        else:
            self._end(503, "Service Unavailable", "Too many connections are open.")

    def data_received(self, data: bytes) -> None:
        self._has_sent = True
        super().data_received(data)
        if not self.transport.is_closing():
            self._expect(self._awaited())

    def on_response_complete(self) -> None:
        self.waits_since = self.loop.time()
        self._has_sent = False
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_deadline = self.loop.call_later(self._limits.body, self.drop)

    def resume_writing(self) -> None:
        super().resume_writing()
        _cancel(self._write_deadline)

    def connection_lost(self, error: Exception | None) -> None:
        _cancel(self._deadline)
        _cancel(self._write_deadline)
        super().connection_lost(error)

    def drop(self) -> None:
        """Close it at once, whatever was not sent yet."""
        self.transport.abort()

    def _awaited(self) -> Awaited:
        cycle = self.cycle
        if cycle is not None and cycle.more_body:
            return "body"
        return "head" if cycle is None or cycle.response_complete else "answer"

    def _expect(self, awaited: Awaited) -> None:
        """Begin to wait for the head or the body. More bytes of the same give no more time."""
        if awaited != self._awaits:
            self._awaits = awaited
            _cancel(self._deadline)
            if awaited != "answer":
                self._deadline = self.loop.call_later(self._seconds(awaited), self._is_late)

    def _seconds(self, awaited: Awaited) -> float:
        return self._limits.head if awaited == "head" else self._limits.body

    def _is_late(self) -> None:
        if self._awaits == "body" and self.flow.read_paused:  # it is the application that does not read on
            self._deadline = self.loop.call_later(self._limits.body, self._is_late)
            return
        part = f"The {self._awaits} of the request did not arrive within {self._seconds(self._awaits or 'head'):g} s."
        self._end(408, "Request Timeout", part if self._may_be_told() else "")

    def _may_be_told(self) -> bool:
        """Not in the middle of an answer, and not before anything was asked."""
        answering = self.cycle is not None and self.cycle.response_started
        return self._has_sent and (not answering or self.cycle.response_complete)

    def _end(self, status: int, reason: str, text: str) -> None:
        if text:
            head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            head += f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n"
            self.transport.write((head + text).encode("ascii"))
        self.transport.close()
        # A client that takes nothing off would keep a closing connection open for ever.
        self._deadline = self.loop.call_later(ABORT_SECONDS, self.drop)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


class Crowd:
    """Sees to it that there are not too many connections."""

    def __init__(self) -> None:
        self._told_at = float("-inf")

    def admits(self, new: BoundedProtocol, connections: set[Any], most: int) -> bool:
        """Whether a new connection may stay; another one may have to go for it."""
        if len(connections) <= most:
            return True
        self._tell(most, new.loop.time())
        waiting = (other for other in connections if other is not new and other.keeps_us_waiting)
        longest = min(waiting, key=lambda other: float(other.waits_since), default=None)
        if longest is None:
            return False
        connections.discard(longest)  # its transport says so a moment later: it must not be chosen twice
        longest.drop()
        return True

    def _tell(self, most: int, now: float) -> None:
        if now - self._told_at >= TELL_AGAIN_SECONDS:
            self._told_at = now
            _log.warning(
                "http: over %d connections are open (ONCUE_HTTP_CONNECTIONS): those that keep it waiting are closed",
                most,
            )
