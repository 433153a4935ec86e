"""Schedules under random faults, and under operators who meddle: every slot is decided once, and provably so."""

from __future__ import annotations

from collections import Counter

import pytest

from oncue.engine import scheduler
from oncue.sim.checker import PROMISES, Final, check
from oncue.sim.runs import DRIFT, simulate_schedules
from oncue.sim.world import OPERATOR, World

CHUNK = REACHED = 40
"""So many seeds reach all that they are for."""


@pytest.mark.contract("SLOT-3", "SLOT-16")
@pytest.mark.parametrize("first", range(0, 80, CHUNK))
def test_every_slot_is_decided_once(first: int) -> None:
    """The first ones are looked at for what they reach, too."""
    reached: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        world, violations = simulate_schedules(seed)
        assert not violations, f"seed {seed}: " + "\n".join(map(str, violations))
        if seed < REACHED:
            reached += met(world)
        world.close()
    if first < REACHED:
        for kind in ("fired", "missed", "coalesced", "skipped", "manual", "run_now", "trigger", "backfill"):
            assert reached[f"slot: {kind}"] > 0, kind
        for kind in ("crash", "hold.end", "late decision", "second leader", "revision"):
            assert reached[kind] > 0, kind
        for kind in (
            "operator.decide.unknown",
            "operator.revise.unknown",
            "decide.unknown",
            "operator.change",
            "retry",
        ):
            assert reached[kind] > 0, kind
        assert reached["run: succeeded"] > 100
        assert reached["run: worker_startup_recovery"] + reached["run: skipped_timeout"] > 0


def met(world: World) -> Counter[str]:
    """What happened in a run, and how the runs of its schedules ended."""
    events = world.history.events
    found = Counter(event.kind for event in events)
    for event in events:
        if event.kind == "slot":
            found.update([f"slot: {event.fields['verdict']}", f"slot: {event.fields['reason']}"])
    found.update(f"operator.{event.kind}" for event in events if event.node == OPERATOR)
    found["retry"] = sum(event.kind == "job" and event.fields.get("retry_of") is not None for event in events)
    found["late decision"] = sum(event.kind == "step" and not event.fields["accepted"] for event in events)
    found["second leader"] = sum(event.kind == "hold" and event.fields["epoch"] > 1 for event in events)
    found.update(f"run: {job.reason or job.state}" for job in world.jobs() if job.schedule_id is not None)
    return found


@pytest.mark.contract("SLOT-3", "SLOT-16")
def test_every_slot_is_decided_once_when_one_pass_does_not_take_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a pass has decided is then written while the next one reads."""
    for limit in (1, 2):
        monkeypatch.setattr(scheduler, "LIMIT", limit)
        for seed in range(limit, 60, 4):
            world, violations = simulate_schedules(seed)
            world.close()
            assert not violations, f"limit {limit}, seed {seed}: " + "\n".join(map(str, violations))


def test_the_same_seed_gives_the_same_history() -> None:
    first, second, other = (simulate_schedules(seed)[0] for seed in (7, 7, 8))
    assert first.history.digest() == second.history.digest()
    assert first.history.digest() != other.history.digest()


def test_a_history_with_holes_raises_no_alarm() -> None:
    for seed in range(10):
        world, _ = simulate_schedules(seed)
        victims = {event.node for event in world.history.events if event.kind == "crash"}
        left = [event for event in world.history.events if event.node not in victims]
        assert check(left, world.final(), complete=False, ordered=False, tolerance=DRIFT) == []
        world.close()


def test_a_history_without_schedules_is_fine() -> None:
    assert check([], Final(())) == []
    assert "a slot is decided once" in PROMISES
