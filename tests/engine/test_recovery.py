"""What a worker does first: the runs of its predecessor, if that one is proved dead, and nobody else's."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from oncue.engine.recovery import Recovery
from oncue.model import Claim
from oncue.policy.options import Options
from oncue.sim.checker import check
from oncue.sim.driver import finish
from oncue.sim.script import Act
from oncue.sim.world import PACE, Member, World
from oncue.store.contract import EXCLUSIVE
from oncue.store.sqlite.jobs import SqliteJobs
from oncue.telemetry import Telemetry
from tests.engine.rig import take_over

ONCE = Options("at_most_once", None, 600.0)
OFTEN = Options("at_least_once", None, 600.0)
LONG = Act(seconds=300.0)


def with_runs(**options: Any) -> tuple[World, int, int]:
    """A worker in the middle of two runs."""
    exclusive = options.pop("exclusive", False)
    world = World(1, **options)
    world.boot("worker", exclusive=exclusive)
    world.run(1.0)
    once = world.enqueue(LONG, options=ONCE, max_retries=0)
    often = world.enqueue(LONG, Act(), options=OFTEN)
    world.run(1.0)
    assert [world.job(job).state for job in (once, often)] == ["running", "running"]
    return world, once, often


def recovered(world: World, once: int, often: int) -> bool:
    ended, again = world.job(once), world.job(often)
    assert (ended.state, ended.reason, ended.error) == ("failed", *["worker_startup_recovery"] * 2)
    assert ended.finished_at is not None
    assert again.state in ("queued", "running", "succeeded")
    assert (again.crashes, again.retry_count) == (1, 0)
    (attempt,) = world.attempts(often)
    assert (attempt.outcome, attempt.error) == ("worker_startup_recovery", "worker_startup_recovery")
    violations = check(world.history.events, world.final())
    assert not violations, "\n".join(map(str, violations))
    return True


def untouched(world: World, *jobs: int) -> bool:
    return all(world.job(job).state == "running" and world.job(job).claim_no == 1 for job in jobs)


@pytest.mark.contract("SLOT-9")
def test_proof_one_the_lease_of_the_predecessor_is_over() -> None:
    world, once, often = with_runs()
    world.crash("worker")
    world.run(PACE.lease)
    member = world.boot("worker")
    assert untouched(world, once, often)
    world.run(0.01)
    assert recovered(world, once, often)
    assert member.alive


@pytest.mark.contract("SLOT-9")
def test_proof_two_this_node_holds_the_exclusive_lease_now() -> None:
    world, once, often = with_runs(exclusive=True)
    worker = world.members["worker"]
    worker.frozen = frozenset({"exclusivity"})  # it beats, but has lost the lease that matters
    world.run(0.5)
    world.boot("heir", exclusive=True, known_as="worker")
    world.run(PACE.lease - 1.0)
    assert untouched(world, once, often)
    world.run(1.0)
    assert recovered(world, once, often)
    ours = world.members["heir"].worker
    assert ours.may_work()
    late = [event for event in world.history.events if event.kind == "change" and event.node == "worker.1"]
    assert not any(event.fields["accepted"] for event in late)


@pytest.mark.contract("SLOT-2", "SLOT-9")
@pytest.mark.parametrize("deed", ["stop", "crash"])
def test_holding_the_exclusive_lease_proves_nothing_of_one_that_stands_by(deed: str) -> None:
    """One goes, one of two under its name takes over: the other one has never held the lease, and is alive."""
    world = World(1)
    world.boot("first", exclusive=True, known_as="worker")
    world.run(0.5)
    heirs = {name: world.boot(name, exclusive=True, known_as="worker") for name in ("second", "third")}
    world.run(2.0)
    once = world.enqueue(LONG, options=ONCE, max_retries=0) if deed == "crash" else None
    world.run(0.5)
    getattr(world, deed)("first")
    world.run(3 * PACE.lease)
    (heir,) = [name for name, member in heirs.items() if member.worker.may_work()]
    (spare,) = set(heirs) - {heir}
    assert [event for event in world.history.events if event.kind == "lease.end" and event.node == f"{spare}.1"] == []
    assert heirs[spare].worker.exclusivity.holder is not None
    assert heirs[spare].worker.membership.is_alive()
    if once is not None:
        assert world.job(once).reason == "worker_startup_recovery", "the one that had the lease is still proved dead"
    world.stop(heir, within=0.0)
    world.run(PACE.beat)
    assert heirs[spare].worker.may_work()


@pytest.mark.contract("SLOT-9")
def test_proof_three_its_process_is_gone_from_this_host() -> None:
    world, once, often = with_runs(one_host=True)
    world.crash("worker")
    world.run(0.1)
    world.boot("worker")
    world.run(0.01)
    assert recovered(world, once, often)


@pytest.mark.contract("SLOT-9")
@pytest.mark.parametrize("exclusive", [False, True])
def test_without_proof_nothing_is_touched(exclusive: bool) -> None:
    """A second process of the same name, while the first is alive and well."""
    world, once, often = with_runs(exclusive=exclusive, one_host=True)
    world.boot("twin", exclusive=exclusive, known_as="worker")
    world.run(60.0)
    assert untouched(world, once, often)
    assert world.members["worker"].executor.busy == 2


@pytest.mark.contract("SLOT-9")
def test_an_exclusive_lease_that_is_over_proves_nothing() -> None:
    world, once, often = with_runs(exclusive=True)
    now, heir = world.clock.now(), world._node("worker", exclusive=True)
    over = now + timedelta(seconds=0.5)
    finish(world.store.leases.release(EXCLUSIVE, world.members["worker"].worker.node.id, 1, now))
    finish(world.store.leases.acquire(EXCLUSIVE, heir.id, "worker", now, over, respect=None))
    recovery = Recovery(world.store, heir, world.dice, Telemetry(), lambda _: False)
    finish(recovery.recover(over))
    assert untouched(world, once, often)
    finish(recovery.recover(now))
    assert not untouched(world, once, often)


@pytest.mark.contract("SLOT-9")
def test_the_exclusive_lease_proves_nothing_of_one_that_never_asked_for_it() -> None:
    """A worker is started anew as the exclusive one, and the old one is still at work."""
    world, once, often = with_runs()
    world.boot("twin", exclusive=True, known_as="worker")
    world.run(60.0)
    assert world.members["twin"].worker.may_work()
    assert untouched(world, once, often)


@pytest.mark.contract("SLOT-9")
def test_a_predecessor_on_another_host_is_left_to_its_lease() -> None:
    world, once, often = with_runs()
    (dead,) = finish(world.store.nodes.alive())
    world.crash("worker")
    world.run((dead.expires_at - world.clock.now()).total_seconds() - 0.1)
    world.boot("worker")
    world.run(0.05)
    assert untouched(world, once, often)
    world.run(PACE.lease * 3)
    ended = world.job(once)
    assert (ended.state, ended.reason, ended.error) == ("skipped", "skipped_timeout", "node_lost")


@pytest.mark.contract("SLOT-9")
def test_others_of_another_name_are_left_to_their_leases() -> None:
    world, once, often = with_runs(one_host=True)
    world.crash("worker")
    world.boot("other")
    world.run(1.0)
    assert untouched(world, once, often)


@pytest.mark.contract("SLOT-9")
def test_a_log_line_and_telemetry_say_how_many(caplog: pytest.LogCaptureFixture) -> None:
    world, once, often = with_runs(one_host=True)
    dead = world.members["worker"].worker.node
    world.crash("worker")
    member = world.boot("worker")
    heard: list[tuple[str, float]] = []

    def hear(event: str, measured: Mapping[str, float], _: Mapping[str, Any]) -> None:
        heard.append((event, measured.get("jobs", 0)))

    member.telemetry.subscribe(hear, "recovery", "rescue")
    with caplog.at_level(logging.WARNING, "oncue.recovery"):
        world.run(0.01)
    lines = [record.message for record in caplog.records]
    assert (
        lines[0]
        == f"startup recovery: 2 runs of worker ({dead.id}), which is dead, were ended (worker_startup_recovery)"
    )
    assert f"startup recovery: job {once} (scripted) is now failed" in lines
    assert f"startup recovery: job {often} (scripted) is now queued" in lines
    assert heard == [("recovery", 2), ("rescue", 0), ("rescue", 0)]


@pytest.mark.parametrize(
    ("runs", "level", "words"),
    [(0, "INFO", ("0 runs", "were")), (1, "WARNING", ("1 run", "was")), (2, "WARNING", ("2 runs", "were"))],
)
def test_one_run_is_not_many(caplog: pytest.LogCaptureFixture, runs: int, level: str, words: tuple[str, str]) -> None:
    world = World(1, one_host=True)
    dead = world.boot("worker").worker.node
    world.run(0.5)
    for _ in range(runs):
        world.enqueue(LONG, options=ONCE, max_retries=0)
    world.run(0.5)
    world.crash("worker")
    world.boot("worker")
    with caplog.at_level(logging.INFO, "oncue.recovery"):
        world.run(0.01)
    told = [(record.levelname, record.message) for record in caplog.records if record.name == "oncue.recovery"]
    counted, verb = words
    line = f"startup recovery: {counted} of worker ({dead.id}), which is dead, {verb} ended (worker_startup_recovery)"
    assert told[0] == (level, line)


@pytest.mark.contract("SLOT-9")
def test_recovery_comes_before_anything_is_scheduled_or_claimed() -> None:
    """So a schedule whose run was cut off runs its next slot, and nothing is in its way."""
    world = World(1, one_host=True)
    world.boot("worker")
    world.run(1.0)
    world.schedule("daily", "@every 60s", LONG, options=ONCE, max_retries=0)
    world.run(61.0)
    world.crash("worker")
    world.run(57.0)
    world.boot("worker")
    world.run(5.0)
    first, second = world.slots("daily")
    assert (first.state, first.state_reason) == ("failed", "worker_startup_recovery")
    assert (second.verdict, second.state) == ("fired", "running")


def test_one_that_left_in_good_order_needs_no_recovery(caplog: pytest.LogCaptureFixture) -> None:
    world = World(1, one_host=True)
    world.boot("worker")
    world.run(1.0)
    world.stop("worker", within=0.0)
    world.run(10.0)
    world.boot("worker")
    world.run(1.0)
    assert "startup recovery" not in caplog.text


@pytest.mark.parametrize("call", range(1, 8))
def test_a_recovery_that_is_cut_off_is_taken_up_again(call: int) -> None:
    world, once, often = with_runs(one_host=True)
    world.crash("worker")
    member: Member = world.boot("worker")
    member.wire.crash_at(call, "after")
    world.run(0.5)
    world.revive("worker")
    world.run(1.0)
    ended = world.job(once)
    assert (ended.state, ended.reason) == ("failed", "worker_startup_recovery")
    assert world.job(often).crashes == 1
    violations = check(world.history.events, world.final())
    assert not violations, "\n".join(map(str, violations))


def test_runs_that_were_taken_over_meanwhile_are_not_taken_again() -> None:
    """The job runs elsewhere under a new claim: the recovery of its former node does not see it."""
    world, _, often = with_runs()
    world.boot("helper")
    world.crash("worker")
    world.run(PACE.lease * 2)
    assert world.job(often).claim_no == 2
    world.boot("worker")
    world.run(1.0)
    assert world.job(often).claim_no == 2
    assert world.job(often).crashes == 1


def test_a_run_that_is_taken_over_while_recovery_looks_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    real = SqliteJobs.running

    async def running(self: SqliteJobs, ids: Sequence[int]) -> list[Claim]:
        for claim in await real(self, [often]):
            if claim.claim_no == 1:
                await take_over(world, claim, helper.worker.node.id)
        return await real(self, ids)

    monkeypatch.setattr(SqliteJobs, "running", running)  # before anybody has asked: a wire looks a verb up only once
    world, _, often = with_runs(one_host=True)
    helper = world.boot("helper")
    world.run(0.1)
    world.crash("worker")
    world.boot("worker")
    world.run(0.01)
    row = world.job(often)
    assert (row.state, row.claim_no, row.node_id, row.crashes) == ("running", 2, helper.worker.node.id, 1)
