"""Bugs of schedulers, put back one at a time: each is caught by the promise that it breaks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from oncue.engine import scheduler
from oncue.engine.scheduler import Scheduler
from oncue.model import Decided, Due, Schedule
from oncue.policy import schedules, slots
from oncue.policy.ledger import Decisions
from oncue.sim.checker import check
from oncue.sim.faults import simulate_schedules
from oncue.sim.world import World, finish
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


def zombies() -> set[str]:
    """A leader stands still in the middle of a decision, and goes on when another takes over, or later."""
    found: set[str] = set()
    for seed in range(40):
        world = World(seed, latency=0.3)
        for name in ("one", "two"):
            world.boot(name)
        world.run(2.0)
        world.schedule("often", "@every 1s", missed="each", max_instances=100)
        world.run(2.0 + seed * 0.05)
        for name in [name for name, member in world.members.items() if member.leads]:
            world.pause(name)
            world.run(3.0 * (seed % 2))
            while not any(other.leads and not other.paused for other in world.members.values()):
                world.run(0.01)
            world.run(3.0 * (seed % 2))
            world.resume(name)
        world.run(3.0)
        found |= {violation.promise for violation in check(world.history.events, world.final())}
        world.close()
    return found


def test_zombies_are_harmless() -> None:
    assert zombies() == set()


def test_decisions_without_the_epoch(rewrite: Rewrite) -> None:
    rewrite("leads", "and epoch = :epoch", "")
    rewrite("leads", "and holder = :node", "")
    assert "only the current leader decides" in zombies()


def test_decisions_without_the_version(rewrite: Rewrite) -> None:
    """The ledger's key still keeps the rows apart; the history tells that two decided."""
    rewrite("leads", "and holder = :node and epoch = :epoch", "")
    rewrite("current_steps", "and s.version = step.value ->> 1", "")
    rewrite("move", "and oncue_schedules.version = step.version", "")
    assert {"a slot is decided once", "cursors only grow"} <= zombies()


def test_a_slot_without_its_job(rewrite: Rewrite) -> None:
    rewrite("make_jobs", "join oncue_schedules s on", "join oncue_schedules s on t.job_id % 5 <> 0 and")
    assert {"a slot and its job are written together", "every slot is accounted for"} <= caught()


def test_a_job_without_its_slot(rewrite: Rewrite) -> None:
    """Slot and job in two transactions, and a crash between them."""
    rewrite("make_jobs", "join oncue_slots t on", "left join oncue_slots t on")
    rewrite("make_jobs", "t.job_id, s.task", "d.value ->> 4, s.task")
    rewrite("make_jobs", "s.id, t.scheduled_for", "s.id, d.value ->> 1")
    rewrite("make_jobs", "on s.id = t.schedule_id", "on s.id = d.value ->> 0")
    rewrite("decide", "where true", "where coalesce(d.value ->> 4, 0) % 3 <> 1")
    assert "a slot and its job are written together" in caught()


def test_a_new_leader_that_works_from_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was due while nobody led is gone without a word."""
    real = slots.plan

    def forgetful(due: Due, now: datetime, punctual: timedelta) -> slots.Plan:
        return real(due._replace(cursor=max(due.cursor, now - timedelta(seconds=1))), now, punctual)

    monkeypatch.setattr(scheduler.slots, "plan", forgetful)
    assert caught() == {"every slot is accounted for"}


def test_a_hasty_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Scheduler.tick

    async def hasty(self: Scheduler, now: datetime) -> datetime:
        return await real(self, now + timedelta(seconds=1.5)) - timedelta(seconds=1.5)

    monkeypatch.setattr(Scheduler, "tick", hasty)
    assert "no slot is decided early" in caught()


def test_a_lease_that_is_renewed_by_name_only(rewrite: Rewrite) -> None:
    rewrite("renew", "and holder = :holder and epoch = :epoch and expires_at > :now", "")
    assert "epochs only grow, and each has one holder" in caught()


def test_a_lease_that_changes_hands_under_one_epoch(rewrite: Rewrite) -> None:
    rewrite("acquire", "epoch = epoch + 1,", "")
    assert "epochs only grow, and each has one holder" in caught()


def test_a_lease_that_is_taken_before_it_is_over(rewrite: Rewrite) -> None:
    rewrite("acquire", "where expires_at <= :now", "")
    rewrite("lease", "renewed_at, expires_at", "renewed_at, expires_at - 1500000")
    assert "epochs only grow, and each has one holder" in caught()


def test_runs_that_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "_fired_or_skipped", lambda slot, unfinished, most: Decided(slot, "fired"))
    assert caught() == {"no more runs than max_instances"}


def test_an_edit_that_drops_what_it_overtakes(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(current: Schedule, now: datetime, taken: Sequence[datetime]) -> list[Decided]:
        return []

    monkeypatch.setattr(schedules, "_overtaken", careless)
    assert caught() == {"every slot is accounted for"}


def test_an_edit_that_sets_the_cursor_back(monkeypatch: pytest.MonkeyPatch) -> None:
    real = schedules._begun

    def back(schedule: Schedule, now: datetime) -> Schedule:
        begun = real(schedule, now)
        return dataclasses.replace(begun, cursor=now - timedelta(seconds=3)) if schedule.revision > 1 else begun

    monkeypatch.setattr(schedules, "_begun", back)
    assert "cursors only grow" in caught()


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
    assert finish(world.operator.audit("often")).holds is False


def backfilled_after_an_edit() -> set[str]:
    """Nobody was there for every third second; then the rule is every second, and the past is filled."""
    world = World(1)
    world.schedule("often", "*/3 * * * * *", max_instances=100)
    world.run(30.0)
    finish(world.operator.change_schedule("often", rule="* * * * * *"))
    now = world.clock.now()
    made = finish(world.operator.backfill("often", now - timedelta(seconds=20), now)).jobs
    assert made
    found = {violation.promise for violation in check(world.history.events, world.final())}
    world.close()
    return found


def test_slots_of_a_later_rule_are_none_of_a_run_from_before() -> None:
    assert backfilled_after_an_edit() == set()


def test_a_run_of_slots_that_keeps_nothing_from_being_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Decisions, "_runs_around", lambda self, at: iter(()))
    assert {"a slot is decided once", "every slot is accounted for"} <= backfilled_after_an_edit()
