"""How often a client may ask: a bucket of requests that fills again with time."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from oncue.server.api.problems import ProblemKind

TOO_MANY = ProblemKind("too-many-requests", 429, "Too many requests")
MOST_CLIENTS = 10_000


class Allowance(NamedTuple):
    """What a client has left, and when that was."""

    left: float
    at: float


class RateLimit:
    """So many requests at once, and so many a second after that, for each client."""

    def __init__(self, burst: float, per_second: float) -> None:
        self._burst = burst
        self._per_second = per_second
        self._buckets: OrderedDict[str, Allowance] = OrderedDict()

    def wait(self, client: str, now: float) -> float:
        """Take one request of a client's; how many seconds it has to wait if it has none left, else 0."""
        known = self._buckets.pop(client, Allowance(self._burst, now))
        left = min(known.left + (now - known.at) * self._per_second, self._burst)
        allowed = left >= 1
        self._buckets[client] = Allowance(left - 1 if allowed else left, now)
        if len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - left) / self._per_second

    def give_back(self, client: str) -> None:
        """The request was a good one, and does not count."""
        known = self._buckets.get(client)
        if known is not None:
            self._buckets[client] = known._replace(left=min(known.left + 1, self._burst))
