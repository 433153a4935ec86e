"""Wake-ups are hints: at most one every few milliseconds per process, and never one too few at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

GAP = 0.01
SLACK = 0.2
"""A hint that is sent by itself waits for so much of a gap longer: in a stream of writes the next one carries it."""


class TravellingHint:
    """A hint that travels with what a caller writes. It tells of all that was committed before, too."""

    __slots__ = ("_instead",)

    def __init__(self, instead: asyncio.TimerHandle | None) -> None:
        self._instead = instead

    def arrived(self) -> None:
        """It was sent. Otherwise what would have told of the rest still does."""
        if self._instead is not None:
            self._instead.cancel()


class Debounce:
    """Lets a hint through at once if the last one is long enough ago, else sends one when the gap is over."""

    def __init__(self, send: Callable[[], Coroutine[Any, Any, None]], gap: float = GAP) -> None:
        self._send = send
        self._gap = gap
        self._quiet_until = 0.0
        self._follow_up: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def take(self) -> TravellingHint | None:
        """The hint that the caller may send itself, along with what it writes."""
        now = asyncio.get_running_loop().time()
        if now < self._quiet_until:
            return None
        self._quiet_until = now + self._gap
        instead, self._follow_up = self._follow_up, None
        return TravellingHint(instead)

    def send(self) -> None:
        """Send a hint soon, about something that is committed already."""
        if self._follow_up is None:
            loop = asyncio.get_running_loop()
            delay = 0.0 if self.take() else self._quiet_until - loop.time() + self._gap * SLACK
            self._follow_up = loop.call_later(delay, self._send_now)

    def _send_now(self) -> None:
        if self._is_closed:  # a write that failed had left this timer behind
            return
        # From here on a new hint needs a new follow-up: this one may reach the workers before its news is there.
        if self._follow_up is not None:
            self._follow_up.cancel()
            self._follow_up = None
        loop = asyncio.get_running_loop()
        self._quiet_until = loop.time() + self._gap
        sending = loop.create_task(self._send())
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)

    async def close(self) -> None:
        """What waits to be told is told now."""
        if self._follow_up is not None:
            self._send_now()
        self._is_closed = True
        await asyncio.gather(*self._sending, return_exceptions=True)
