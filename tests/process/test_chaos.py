"""A little of `make chaos`: zombies in each kind of write. A tiny run of each part is in `tests/figures`."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from chaos import zombies
from chaos.stage import LOAD, Outcome, staged
from tests.process.standstill import Point

BEFORE = tuple(Point(verb, "before") for verb in ("beat", "apply"))
POINTS = {
    "sqlite": (Point("decide", "before"), *BEFORE, Point("claim", "after"), Point("enqueue", "before")),
    "postgresql": (Point("renew", "before"), *BEFORE, Point("claim", "before"), Point("enqueue", "after")),
}
"""One of each; a leader can stand still at one of its two writes only. `make chaos` has all of them on both."""


def verify(outcome: Outcome) -> None:
    assert not outcome.faults, "\n".join(f"{promise}: {told}" for promise, told in outcome.faults)


@pytest.mark.contract("QUE-9", "SLOT-3", "SLOT-16")
def test_whoever_stood_still_in_the_middle_of_a_write_changes_nothing(database_url: str, tmp_path: Path) -> None:
    """Each is declared lost meanwhile and others have its jobs, or its lead; then it is a member again."""
    with staged(database_url, tmp_path, Random(1)) as stage:
        crew, client = zombies.started(stage, 6)
        points = POINTS[database_url.partition(":")[0]]
        with stage.cluster.load(*LOAD, pause=0.1, times=1, seconds=0.4):
            left = set(points)
            while left:  # who leads, or is slow, may change before it comes to that
                left -= set(zombies.rise(stage, zombies.chosen(stage, crew, client, sorted(left))))
        stage.cluster.kill(client)
        stage.finish(crew)
    verify(stage.outcome)
    assert stage.outcome.done["late writes rejected"] >= len(points) - 2
