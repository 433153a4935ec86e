"""Random work under random faults: every promise is kept, and a seed tells the whole story."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from oncue.sim.runs import simulate
from oncue.sim.world import OPERATOR

CHUNK = 20


@pytest.mark.parametrize("first", range(0, 100, CHUNK))
def test_every_promise_is_kept(first: int) -> None:
    for seed in range(first, first + CHUNK):
        world, violations = simulate(seed)
        world.close()
        assert not violations, f"seed {seed}: " + "\n".join(map(str, violations))


def test_the_seeds_reach_what_they_are_for() -> None:
    """A simulation in which nothing goes wrong would prove nothing."""
    kinds: Counter[str] = Counter()
    states: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    for seed in range(40):
        world, _ = simulate(seed)
        kinds.update(event.kind for event in world.history.events)
        kinds.update(f"operator.{event.kind}" for event in world.history.events if event.node == OPERATOR)
        faults.update(event.fields["what"] for event in world.history.events if event.kind == "fault")
        kinds.update(
            "late write" for event in world.history.events if event.kind == "change" and not event.fields["accepted"]
        )
        kinds.update(
            "rescue"
            for event in world.history.events
            if event.kind == "change" and event.fields["error"] == "node_lost"
        )
        states.update(job.state for job in world.jobs())
        states.update(job.reason or "" for job in world.jobs())
        world.close()
    assert min(kinds[kind] for kind in ("crash", "lease.end", "tick.error", "late write", "rescue")) > 5
    assert set(faults) == {
        "crash", "pause", "partition", "errors", "held up", "clock", "stop", "namesake", "lost reply", "slow reply"
    }  # fmt: skip
    assert min(kinds[kind] for kind in ("claim.unknown", "apply.unknown", "operator.apply.unknown")) > 0
    assert min(kinds[kind] for kind in ("cancel", "stop", "pause", "priority", "age", "prune")) > 0
    assert kinds["enqueue.ok"] > 200
    assert min(states[state] for state in ("succeeded", "failed", "cancelled", "skipped", "poison")) > 0


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
