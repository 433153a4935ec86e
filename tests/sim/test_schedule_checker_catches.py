"""Guards of schedules that are taken away one at a time, and hands in the ledger: a promise is broken, and it says so.

The bugs that this field is known for are in `tests/sim/bugs`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from oncue.engine.scheduler import Scheduler
from oncue.model import Decided, Schedule
from oncue.policy import schedules
from oncue.policy.ledger import Decisions
from oncue.sim.checker import check
from oncue.sim.driver import finish
from oncue.sim.runs import simulate_schedules
from oncue.sim.world import World
from oncue.store import statements
from tests.engine.rig import execute

SEEDS = 40
COPIED = (
    "task, args, queue, priority, state, options, max_retries, created_at, updated_at, order_at, visible_at, "
    "enqueued_by, schedule_id, scheduled_for"
)


def caught(seeds: int = SEEDS) -> set[str]:
    """The promises that the first seed to break any breaks."""
    for seed in range(seeds):
        world, violations = simulate_schedules(seed)
        world.close()
        if violations:
            return {violation.promise for violation in violations}
    return set()


Rewrite = Callable[[str, str, str], None]


@pytest.fixture
def rewrite(monkeypatch: pytest.MonkeyPatch) -> Rewrite:
    """Replace a part of one of the store's statements."""

    def change(name: str, old: str, new: str) -> None:
        sql = dict(statements.load("sqlite"))
        assert old in sql[name]
        sql[name] = sql[name].replace(old, new)
        monkeypatch.setattr(statements, "load", lambda dialect: sql)

    return change


def test_a_lease_that_changes_hands_under_one_epoch(rewrite: Rewrite) -> None:
    rewrite("acquire", "epoch = epoch + 1,", "")
    assert "epochs only grow, and each has one holder" in caught()


def test_a_lease_that_is_taken_before_it_is_over(rewrite: Rewrite) -> None:
    rewrite("acquire", "where expires_at <= :now", "")
    rewrite("lease", "renewed_at, expires_at", "renewed_at, expires_at - 1500000")
    assert caught() & {
        "epochs only grow, and each has one holder",
        "a lease lasts as long as its holder was told",
        "once faults stop, one leader stays",
    }


def test_an_edit_that_drops_what_it_overtakes(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(current: Schedule, now: datetime, taken: Sequence[datetime]) -> list[Decided]:
        return []

    monkeypatch.setattr(schedules, "_overtaken", careless)
    assert caught() == {"every slot is accounted for"}


def test_a_leader_that_never_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown reply that is never cleared up: after the first one nobody fires."""
    real = Scheduler.tick
    broken: list[Any] = []

    async def sulking(self: Scheduler, now: datetime) -> datetime:
        if self in broken:
            return now + timedelta(seconds=1)
        try:
            return await real(self, now)
        except Exception:
            broken.append(self)
            raise

    monkeypatch.setattr(Scheduler, "tick", sulking)
    assert caught() == {"once faults stop, somebody leads and no slot waits"}


@pytest.mark.contract("SLOT-16")
@pytest.mark.parametrize(
    ("statement", "fate"),
    [
        ("delete from oncue_slots where scheduled_for % 5 = 0", "unaccounted"),
        ("delete from oncue_jobs where scheduled_for % 5 = 0", "lost"),
        ("update oncue_slots set scheduled_for = scheduled_for + 1", "unexpected"),
        (
            f"insert into oncue_jobs (id, {COPIED}) select id + 5000, {COPIED} from oncue_jobs limit 1",
            "doubled",
        ),
    ],
    ids=["unaccounted", "lost", "unexpected", "doubled"],
)
def test_a_hand_in_the_ledger(statement: str, fate: str) -> None:
    world = World(1)
    world.boot("alone")
    world.run(1.0)
    world.schedule("often", "@every 1s")
    world.run(10.5)
    assert not check(world.history.events, world.final())
    execute(world, statement)
    found = [str(violation) for violation in check(world.history.events, world.final())]
    assert any(f"is {fate}:" in line for line in found), found
    assert finish(world.operator.schedules.audit("often")).holds is False


def backfilled_after_an_edit() -> set[str]:
    """Nobody was there for every third second; then the rule is every second, and the past is filled."""
    world = World(1)
    world.schedule("often", "*/3 * * * * *", max_instances=100)
    world.run(30.0)
    finish(world.operator.schedules.change("often", rule="* * * * * *"))
    now = world.clock.now()
    made = finish(world.operator.schedules.backfill("often", now - timedelta(seconds=20), now)).jobs
    assert made
    found = {violation.promise for violation in check(world.history.events, world.final())}
    world.close()
    return found


def test_slots_of_a_later_rule_are_none_of_a_run_from_before() -> None:
    assert backfilled_after_an_edit() == set()


def test_a_run_of_slots_that_keeps_nothing_from_being_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Decisions, "_runs_around", lambda self, at: iter(()))
    assert {"a slot is decided once", "every slot is accounted for"} <= backfilled_after_an_edit()
