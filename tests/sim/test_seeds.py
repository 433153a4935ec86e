"""Random work under random faults: every promise is kept, and a seed tells the whole story."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from oncue.sim.runs import simulate
from oncue.sim.world import OPERATOR, World

CHUNK = REACHED = 40
"""So many seeds reach all that they are for."""


@pytest.mark.parametrize("first", range(0, 80, CHUNK))
def test_every_promise_is_kept(first: int) -> None:
    """A simulation in which nothing goes wrong would prove nothing: the first ones are looked at for that too."""
    reached: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        world, violations = simulate(seed)
        assert not violations, f"seed {seed}: " + "\n".join(map(str, violations))
        if seed < REACHED:
            reached += met(world)
        world.close()
    if first < REACHED:
        assert min(reached[kind] for kind in ("crash", "lease.end", "tick.error", "late write", "rescue")) > 5
        assert {kind for kind in reached if kind.startswith("fault: ")} == {f"fault: {what}" for what in FAULTS}
        assert min(reached[kind] for kind in ("claim.unknown", "apply.unknown", "operator.apply.unknown")) > 0
        assert min(reached[kind] for kind in ("cancel", "stop", "pause", "priority", "age", "prune")) > 0
        assert min(reached[kind] for kind in ("ending: late", "led", "follows", "details")) > 0
        assert reached["enqueue.ok"] > 200
        assert min(reached[state] for state in ("succeeded", "failed", "cancelled", "skipped", "poison")) > 0


FAULTS = (
    "crash",
    "pause",
    "partition",
    "errors",
    "held up",
    "clock",
    "stop",
    "namesake",
    "locked rows",
    "lost reply",
    "slow reply",
    "deposed",
)


def met(world: World) -> Counter[str]:
    """What happened in a run, and how its jobs ended."""
    events = world.history.events
    found = Counter(event.kind for event in events)
    found.update(f"operator.{event.kind}" for event in events if event.node == OPERATOR)
    found.update(f"fault: {event.fields['what']}" for event in events if event.kind == "fault")
    changes = [event.fields for event in events if event.kind == "change"]
    found["late write"] = sum(not change["accepted"] for change in changes)
    found["rescue"] = sum(change["error"] == "node_lost" for change in changes)
    found.update(f"ending: {change['ending']}" for change in changes if "ending" in change)
    found["led"] = sum("epoch" in change for change in changes)
    found["follows"] = sum("follows" in event.fields for event in events if event.kind == "job")
    for job in world.jobs():
        found.update([job.state, job.reason or ""])
    return found


def test_the_same_seed_gives_the_same_history() -> None:
    first, second, other = (simulate(seed)[0] for seed in (7, 7, 8))
    assert first.history.digest() == second.history.digest()
    assert first.history.digest() != other.history.digest()
    assert len(first.history.events) > 100


def test_a_seed_gives_the_same_history_in_another_process() -> None:
    """Nothing may depend on addresses in memory or on how this process hashes text."""
    program = "from oncue.sim.runs import simulate; print(simulate(11)[0].history.digest())"
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert digests == {simulate(11)[0].history.digest() + "\n"}
