"""The circuit breaker of an endpoint: when deliveries to it pause because it is down, and when they go on.

    closed ── so many failures in a row, on one node ──► open: nothing is sent for the cool-down
      ▲                                                    │ then one delivery goes out, a probe
      ├──────────────── the endpoint answers ◄─────────────┤
      └── (trips = 0)                                      └─ it fails: open again, for twice as long

The group's row has `trips`: 0 for closed, n after the n-th trip in a row, and with it `paused_until`. Failures are
counted by each node, in memory. An attempt is judged by the `trips` that stood when it began, and that number guards
the write: deliveries that were on their way when the breaker opened fail with the old number, so that ten of them are
one trip, and none of them closes it either.

Failures are the endpoint's own: no connection, a time-out, 5xx. Any other answer, also 4xx and 429, shows that it is
up: how fast it is called is the business of its rate and of `Retry-After`. What never left this host (a refused
address, a missing secret) says nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal, NamedTuple, TypeAlias

FIRST_COOL_DOWN = 30.0
LONGEST_COOL_DOWN = 600.0
_DOUBLINGS = 5
"""After so many the longest is reached."""

Evidence: TypeAlias = Literal["up", "down"]


class Circuit(NamedTuple):
    """What a node knows of an endpoint's breaker."""

    trips: int = 0
    """As the group's row had it when the attempt began."""
    failures: int = 0
    """In a row, on this node."""


class Transition(NamedTuple):
    """What to write to the group's row, if it still has `known_trips`."""

    known_trips: int
    trips: int
    paused_until: datetime | None
    """When the next probe may start. None: the breaker closes."""


def evidence_of_status(status: int) -> Evidence:
    return "down" if 500 <= status <= 599 else "up"


def evidence_of_not_sent(kind: str) -> Evidence | None:
    """What it says of an endpoint that no answer came: `kind` is that of the transport's `NotSent`."""
    return "down" if kind in ("timeout", "network") else None


def after(
    circuit: Circuit, evidence: Evidence | None, now: datetime, threshold: int
) -> tuple[Circuit, Transition | None]:
    """What is known after an attempt, and what to write because of it.

    It opens after `threshold` failures in a row. With 0 it is off: it never opens, and closes if it was open.
    """
    if evidence is None:
        return circuit, None
    if evidence == "up" or threshold == 0:
        return Circuit(), Transition(circuit.trips, 0, None) if circuit.trips else None
    failures = circuit.failures + 1
    if circuit.trips == 0 and failures < threshold:
        return Circuit(0, failures), None
    trips = circuit.trips + 1
    return Circuit(trips), Transition(circuit.trips, trips, now + timedelta(seconds=cool_down(trips)))


def cool_down(trips: int) -> float:
    """Seconds until the next probe: doubled with each trip in a row, up to the longest."""
    return min(FIRST_COOL_DOWN * 2.0 ** min(trips - 1, _DOUBLINGS), LONGEST_COOL_DOWN)
