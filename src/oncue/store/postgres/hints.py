"""Wake-ups are hints: at most one every few milliseconds per process, and never one too few at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

GAP = 0.01


class Debounce:
    """Lets a hint through at once if the last one is long enough ago, else sends one when the gap is over."""

    def __init__(self, send: Callable[[], Awaitable[None]], gap: float = GAP) -> None:
        self._send = send
        self._gap = gap
        self._quiet_until = 0.0
        self._follow_up: asyncio.Task[None] | None = None

    def take(self) -> bool:
        """Whether the caller may send a hint itself, along with what it writes."""
        now = asyncio.get_running_loop().time()
        if now < self._quiet_until:
            return False
        self._quiet_until = now + self._gap
        return True

    def send(self) -> None:
        """Send a hint soon, about something that is committed already."""
        if self._follow_up is None:
            loop = asyncio.get_running_loop()
            delay = 0.0 if self.take() else self._quiet_until - loop.time()
            self._follow_up = loop.create_task(self._later(delay))

    async def _later(self, delay: float) -> None:
        if delay > 0:
            await asyncio.sleep(delay)
        # From here on a new hint needs a new follow-up: this one may reach the workers before its news is there.
        self._follow_up = None
        self._quiet_until = asyncio.get_running_loop().time() + self._gap
        await self._send()

    async def close(self) -> None:
        if self._follow_up is not None:
            await asyncio.gather(self._follow_up, return_exceptions=True)
