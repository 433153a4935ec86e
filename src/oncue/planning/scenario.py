"""What is to be simulated, as one value; and what the dice say of each attempt in it.

Every attempt has dice of its own, seeded by what it is: the same job takes as long on two nodes as on three, so that
scenarios can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from random import Random

from oncue.model import Limits
from oncue.planning.arrivals import Stream
from oncue.planning.spans import Span, moment
from oncue.planning.spreads import Spread

SHORTEST = 0.001
"""No attempt takes no time at all: with thousands of them, the simulated clock would never go on."""


@dataclass(frozen=True, slots=True)
class Scenario:
    start: datetime
    length: float
    """In seconds, as every time from here on: since the start."""
    nodes: int
    concurrency: int
    """The seats of each node."""
    processes: int
    """How many of them can be taken by tasks that run in processes."""
    queues: tuple[str, ...]
    seed: int
    durations: Mapping[str, Spread]
    """Of every task, as `assumed` says where nobody knows better."""
    assumed: tuple[str, ...]
    failures: Mapping[str, float]
    streams: tuple[Stream, ...]
    outages: tuple[Span, ...]
    limits: Mapping[str, Limits]
    target: float
    """So late may a job start."""
    patience: Mapping[str, float] = field(default_factory=dict)
    """By task: if it has not begun so long after it was due, it is given up."""

    @property
    def slack(self) -> float:
        """A job that is so much later than the target is no reason for another node: nodes look around by and by."""
        return min(self.target / 50, 1.0)

    @property
    def end(self) -> datetime:
        return moment(self.start, self.length)

    @property
    def seats(self) -> int:
        return self.nodes * self.concurrency

    def dice(self, *what: object) -> Random:
        return Random("/".join(map(str, (self.seed, *what))))

    def fate(self, task: str, job: str, attempt: int) -> tuple[float, bool]:
        """How many seconds an attempt takes, and whether it fails. `job` tells it from others of its task."""
        dice = self.dice("attempt", task, job, attempt)
        return max(self.durations[task].draw(dice), SHORTEST), dice.random() < self.failures.get(task, 0.0)
