"""The checker is checked: bugs are put back one at a time, and each is caught by the promise that it breaks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from datetime import datetime
from random import Random
from typing import Any
from uuid import UUID

import pytest

from oncue.engine.holdings import Holdings
from oncue.engine.rescue import Rescue
from oncue.model import Batch, Claim, Receipt
from oncue.policy import lifecycle
from oncue.policy.retry import Exponential
from oncue.sim.checker import check
from oncue.sim.faults import heal, simulate
from oncue.sim.script import Act
from oncue.sim.world import OPTIONS, World
from oncue.store import statements
from oncue.store.sqlite import SqliteStore

SEEDS = 60


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


def test_a_write_without_its_claim_number(rewrite: Callable[[str, str, str], None]) -> None:
    rewrite("drop_stale_changes", "and j.claim_no = c.claim_no", "")
    assert "only the current claim writes" in caught()


def test_a_write_that_ignores_the_state(rewrite: Callable[[str, str, str], None]) -> None:
    rewrite("drop_stale_changes", "and j.state = c.from_state", "")
    assert "only the current claim writes" in caught()


def test_a_write_without_any_guard(rewrite: Callable[[str, str, str], None]) -> None:
    rewrite("drop_stale_changes", "and j.state = c.from_state and j.claim_no = c.claim_no", "")
    assert "only the current claim writes" in caught()


@pytest.mark.parametrize("guard", ["and oncue_jobs.claim_no = c.claim_no", "and oncue_jobs.state = 'running'"])
def test_a_plain_success_without_its_guard(rewrite: Callable[[str, str, str], None], guard: str) -> None:
    assert zombies() == set()
    rewrite("apply_plain", guard, "")
    assert "only the current claim writes" in zombies()


def zombies(seeds: int = 20) -> set[str]:
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


def test_a_claim_that_does_not_raise_its_number(rewrite: Callable[[str, str, str], None]) -> None:
    rewrite("take", "claim_no = claim_no + 1,", "")
    assert "claim_no grows with every claim" in caught()


def test_a_claim_that_takes_what_is_running(rewrite: Callable[[str, str, str], None]) -> None:
    rewrite("promote", "state in ('scheduled', 'retrying')", "state in ('scheduled', 'retrying', 'running')")
    rewrite("next_due", "state in ('scheduled', 'retrying')", "state in ('scheduled', 'retrying', 'running')")
    assert "a job is claimed only when it waits" in caught()


def test_a_claim_before_its_time(rewrite: Callable[[str, str, str], None]) -> None:
    rewrite("next_due", "min(visible_at)", "min(visible_at) - 700000")
    rewrite("promote", "visible_at <= :now", "visible_at <= :now + 700000")
    assert "a job is claimed only when it waits" in caught()


def test_totals_that_forget(rewrite: Callable[[str, str, str], None]) -> None:
    rewrite("count", "'failed', ", "")
    assert caught() == {"the totals are what ended"}


def test_a_finish_that_forgets_why(rewrite: Callable[[str, str, str], None]) -> None:
    rewrite("apply", "reason = c.reason,", "")
    assert caught() == {"a row is what was written last"}


def test_a_rescue_from_the_living(rewrite: Callable[[str, str, str], None]) -> None:
    rewrite("stranded", "n.lost_at is null and n.expires_at > :now", "n.beat_at = :now")
    found = caught()
    assert "only a lost node's jobs are rescued" in found


def stale_rescues(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rescuer acts on what it read one pass ago, as two of them at once might."""
    real = Rescue._take_away

    async def late(self: Any, event: str, claims: Sequence[Claim], ending: Any, now: datetime) -> None:
        seen = self.__dict__.setdefault("seen", {})
        before, seen[event] = seen.get(event, ()), claims
        await real(self, event, before, ending, now)

    monkeypatch.setattr(Rescue, "_take_away", late)


def test_a_late_rescue_is_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    stale_rescues(monkeypatch)
    assert caught(20) == set()


def test_a_late_rescue_without_compare_and_set(
    monkeypatch: pytest.MonkeyPatch, rewrite: Callable[[str, str, str], None]
) -> None:
    stale_rescues(monkeypatch)
    rewrite("drop_stale_changes", "and j.state = c.from_state and j.claim_no = c.claim_no", "")
    assert {"only the current claim writes", "a job ends once, and stays as it ended"} & caught()


def test_an_acknowledgement_before_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    real = SqliteStore.enqueue

    async def hasty(self: SqliteStore, batches: Sequence[Batch], *, in_doubt: bool = False) -> list[Receipt]:
        receipts = await real(self, batches, in_doubt=in_doubt)
        if receipts[-1].id % 10 == 0:
            await self._writer.write(lambda connection: connection.execute("delete from oncue_jobs where id % 10 = 0"))
        return receipts

    monkeypatch.setattr(SqliteStore, "enqueue", hasty)
    assert "nothing acknowledged is lost" in caught()


def test_a_retry_without_its_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Exponential, "delay", lambda self, retry_count, dice: 0.25)
    monkeypatch.setattr(Exponential, "bounds", lambda self, n: (0.8 * min(2**n, 8), 1.2 * min(2**n, 8)))
    assert caught() == {"retries keep to their policy"}


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


def test_suspects_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    real = SqliteStore.claim

    async def trusting(self: SqliteStore, node: UUID, *rest: Any, suspect: bool, **options: Any) -> list[Claim]:
        return await real(self, node, *rest, suspect=True, **options)

    monkeypatch.setattr(SqliteStore, "claim", trusting)
    assert caught() == {"suspects run one at a time"}


def test_poison_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "POISON", 99)
    assert "a poisonous job ends after three crashes" in caught()


def test_a_node_that_forgets_its_strays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost claim reply then strands a job for ever, if nothing else limits it."""
    assert lost_claim_reply() == set()

    async def forget(self: Holdings, rows: Any, now: datetime) -> None:
        return None

    monkeypatch.setattr(Holdings, "_give_back_strays", forget)
    assert lost_claim_reply() == {"once faults stop, everything ends in time"}


def lost_claim_reply() -> set[str]:
    world = World(3)
    member = world.boot("alone")
    world.run(0.1)
    member.wire.lose_reply("claim")
    world.enqueue(Act(), options=dataclasses.replace(OPTIONS, timeout=None, max_runtime=None))
    world.run(0.6)
    heal(world)
    world.run_until(world.drained, 30)
    return {violation.promise for violation in check(world.history.events, world.final(), drained_within=30)}


def test_a_crashing_step(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(self: Rescue, now: datetime) -> datetime:
        raise KeyError("a bug")

    monkeypatch.setattr(Rescue, "tick", broken)
    assert "no step fails but for the database" in caught(3)
