"""What the site sees of its visitors: how many at once, how fast, and whether they keep to what they are told."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

SECOND = 1.0


@dataclass(slots=True)
class Watch:
    """`clock` counts seconds."""

    clock: Callable[[], float]
    requests: int = 0
    at_once: int = 0
    most_at_once: int = 0
    most_in_a_second: int = 0
    too_early: int = 0
    """Requests for a page that had asked for more patience."""
    forbidden: int = 0
    """Requests for what robots.txt asks to leave alone."""
    statuses: Counter[int] = field(default_factory=Counter)
    served: Counter[str] = field(default_factory=Counter)
    """How often each community's page was given, with 200 or 304."""
    _lately: deque[float] = field(default_factory=deque)
    _patience: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def visit(self) -> Iterator[None]:
        """Count a request from its beginning to its end."""
        now = self.clock()
        self.requests += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self._lately.append(now)
        while self._lately[0] <= now - SECOND:
            self._lately.popleft()
        self.most_in_a_second = max(self.most_in_a_second, len(self._lately))
        try:
            yield
        finally:
            self.at_once -= 1

    def ask_for_patience(self, name: str, seconds: float) -> None:
        self._patience[name] = self.clock() + seconds

    def note_asked(self, name: str, *, private: bool) -> None:
        if self.clock() < self._patience.pop(name, 0.0):
            self.too_early += 1
        self.forbidden += private

    def note_answered(self, name: str, status: int) -> None:
        self.statuses[status] += 1
        if status in (200, 304):
            self.served[name] += 1

    def document(self) -> dict[str, object]:
        return {
            "requests": self.requests,
            "most_at_once": self.most_at_once,
            "most_in_a_second": self.most_in_a_second,
            "too_early": self.too_early,
            "forbidden": self.forbidden,
            "statuses": {str(status): times for status, times in sorted(self.statuses.items())},
            "served": dict(self.served),
        }
