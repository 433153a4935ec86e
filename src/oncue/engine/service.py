"""What a service is, and how it is woken before its time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol


class Signal:
    """A wake-up that is kept until it is taken: it may come before anyone waits for it."""

    def __init__(self) -> None:
        self._raised = False
        self._listener: Callable[[], None] | None = None

    def set(self) -> None:
        self._raised = True
        if self._listener is not None:
            self._listener()

    def take(self) -> bool:
        raised, self._raised = self._raised, False
        return raised

    def listen(self, listener: Callable[[], None] | None) -> None:
        self._listener = listener


class Service(Protocol):
    name: str
    signal: Signal

    async def tick(self, now: datetime) -> datetime:
        """Take one bounded step; the instant at which the next one is due, unless the signal comes first."""
        ...
