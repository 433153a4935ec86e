"""Guards of the job's statements and rules that are taken away one at a time: a promise is broken, and it says so.

The bugs that this field is known for are in `tests/sim/bugs`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Any

import pytest

from oncue.engine.rescue import Rescue
from oncue.policy import lifecycle
from oncue.sim.checker import check
from oncue.sim.runs import simulate
from oncue.sim.script import Act
from oncue.sim.world import World
from oncue.store import statements

SEEDS = 30


def caught(seeds: int = SEEDS) -> set[str]:
    """The promises that the first seed to break any breaks."""
    for seed in range(seeds):
        world, violations = simulate(seed)
        world.close()
        if violations:
            return {violation.promise for violation in violations}
    return set()


@pytest.fixture
def rewrite(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, str], None]:
    """Replace a part of one of the store's statements."""

    def change(name: str, old: str, new: str) -> None:
        sql = dict(statements.load("sqlite"))
        assert old in sql[name]
        sql[name] = sql[name].replace(old, new)
        monkeypatch.setattr(statements, "load", lambda dialect: sql)

    return change


def test_a_write_that_ignores_the_state(rewrite: Callable[[str, str, str], None]) -> None:
    """It is accepted, or runs into a constraint behind the fence."""
    rewrite("drop_stale_changes", "and j.state = c.from_state", "")
    assert caught() & {"only the current claim writes", "no step fails but for the database"}


@pytest.mark.parametrize("guard", ["and oncue_jobs.claim_no = c.claim_no", "and oncue_jobs.state = 'running'"])
def test_a_plain_success_without_its_guard(rewrite: Callable[[str, str, str], None], guard: str) -> None:
    assert zombies() == set()
    rewrite("apply_plain", guard, "")
    assert "only the current claim writes" in zombies()


def zombies(seeds: int = 24) -> set[str]:
    """A node stands still during a job and reports success when it wakes up: the heir runs it, or left it queued."""
    found: set[str] = set()
    for seed in range(seeds):
        world = World(seed)
        world.boot("zombie")
        world.run(0.1)
        world.enqueue(Act(seconds=5.0))
        world.run(0.1)
        world.boot("heir").executor.concurrency = 4 * (seed % 2)
        world.pause("zombie")
        world.run(7.0)
        world.resume("zombie")
        world.run(20.0)
        found |= {violation.promise for violation in check(world.history.events, world.final(), drained_within=30)}
        world.close()
    return found


def test_plain_successes_that_are_counted_twice(rewrite: Callable[[str, str, str], None]) -> None:
    rewrite("count_plain", "count(*)", "count(*) * 2")
    assert caught() == {"the totals are what ended"}


def test_a_claim_before_its_time(rewrite: Callable[[str, str, str], None]) -> None:
    rewrite("next_due", "min(visible_at)", "min(visible_at) - 700000")
    rewrite("promote", "visible_at <= :now", "visible_at <= :now + 700000")
    assert "a job is claimed only when it waits" in caught()


def test_totals_that_forget(rewrite: Callable[[str, str, str], None]) -> None:
    rewrite("count_changes", "'failed', ", "")
    assert caught() == {"the totals are what ended"}


def test_a_finish_that_forgets_why(rewrite: Callable[[str, str, str], None]) -> None:
    rewrite("apply", "reason = c.reason,", "")
    assert caught() == {"a row is what was written last"}


def test_a_retry_beyond_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    real = lifecycle._failed

    def generous(ended: Any, outcome: Any, dice: Random) -> Any:
        return real(ended._replace(claim=ended.claim._replace(max_retries=99)), outcome, dice)

    monkeypatch.setitem(lifecycle._SETTLERS, lifecycle.Failed, generous)
    assert "retries keep to their policy" in caught()


def test_failing_with_retries_left(monkeypatch: pytest.MonkeyPatch) -> None:
    real = lifecycle._failed

    def impatient(ended: Any, outcome: Any, dice: Random) -> Any:
        return real(ended, dataclasses.replace(outcome, final=True), dice)

    monkeypatch.setitem(lifecycle._SETTLERS, lifecycle.Failed, impatient)
    assert caught() == {"retries keep to their policy"}


def test_a_crashing_step(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(self: Rescue, now: datetime) -> datetime:
        raise KeyError("a bug")

    monkeypatch.setattr(Rescue, "tick", broken)
    assert "no step fails but for the database" in caught(3)
