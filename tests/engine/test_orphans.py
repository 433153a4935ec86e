"""Deliveries of whose groups nothing is known any more are found and sent after all, under virtual time."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from oncue.engine.orphans import OrphanRules, Orphans
from oncue.errors import StoreRefused, StoreUnavailable
from oncue.model import DELIVER, WEBHOOKS_QUEUE, Limits
from oncue.policy.durations import go_style
from oncue.policy.options import Options
from oncue.sim.member import Crew
from oncue.sim.script import Act
from oncue.sim.world import PACE, World, finish
from oncue.telemetry import Telemetry
from tests.engine.rig import execute

CREW = Crew(queues=(WEBHOOKS_QUEUE,), tasks=(DELIVER,))
FAILS = Act("fail")
PATIENT = Options(timeout=None, max_runtime=None)


def cluster(rules: OrphanRules | None = None, **terms: Any) -> World:
    return World(1, crew=CREW, pace=replace(PACE, orphans=rules or OrphanRules()), **terms)


def lost(world: World, group: str = "orders", *acts: Act) -> int:
    """A delivery of which nothing tells, as no correct program leaves it."""
    job_id = world.enqueue(*(acts or (Act(),)), task=DELIVER, queue=WEBHOOKS_QUEUE, group=group)
    execute(world, "delete from oncue_group_wakeups")
    return job_id


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "oncue.orphans"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(300, "5m0s"), (750, "12m30s"), (3600, "1h0m0s"), (90061.9, "25h1m1s"), (45, "45s"), (0.4, "0s"), (60, "1m0s")],
)
def test_durations_are_written_as_go_writes_them(seconds: float, text: str) -> None:
    assert go_style(seconds) == text


@pytest.mark.contract("HOOK-11", "HOOK-21")
def test_an_orphan_is_emitted_again_once_it_is_overdue(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = cluster()
    job_id = lost(world)
    world.boot("one")
    world.run(599.0)
    assert (world.job(job_id).state, world.job(job_id).claim_no) == ("queued", 0), "no claim looks at it"
    assert said(caplog) == ["reconciler: started (interval=5m0s, threshold=10m0s, batch=100)"]
    world.run(302.0)
    job = world.job(job_id)
    assert (job.state, job.attempt, job.retry_count, job.claim_no) == ("succeeded", 1, 0, 1)
    _, found, emitted, complete = said(caplog)
    assert found == "reconciler: found 1 orphaned executions"
    due = job.created_at.isoformat()
    age = emitted.rpartition("(age=")[2]
    assert emitted == f"reconciler: re-emitted execution={job.uid} job=orders scheduled_at={due} (age={age}"
    assert age in ("15m0s)", "10m0s)")
    assert complete == "reconciler: cycle complete, re-emitted=1, failed=0"
    world.close()


@pytest.mark.contract("HOOK-11")
def test_a_cycle_is_bounded_and_the_next_one_goes_on() -> None:
    world = cluster(OrphanRules(interval=60.0, threshold=30.0, batch=3))
    jobs = [lost(world, f"endpoint {number}") for number in range(7)]
    world.boot("one")
    for cycle, done in enumerate([3, 6, 7], start=1):
        world.run(61.0)
        assert sum(world.job(job).finished for job in jobs) == done, f"after cycle {cycle}"
    world.close()


@pytest.mark.contract("HOOK-10", "HOOK-11")
def test_what_has_ended_runs_or_waits_for_its_ladder_is_left_as_it_is() -> None:
    world = cluster(OrphanRules(interval=30.0, threshold=10.0))
    world.boot("one")
    delivered = world.enqueue(Act(), task=DELIVER, queue=WEBHOOKS_QUEUE, group="a")
    failed = world.enqueue(FAILS, task=DELIVER, queue=WEBHOOKS_QUEUE, group="b", max_retries=0)
    runs = world.enqueue(Act(seconds=900.0), task=DELIVER, queue=WEBHOOKS_QUEUE, group="c", options=PATIENT)
    world.run(5.0)
    execute(world, "delete from oncue_group_wakeups")
    before = [world.job(job) for job in (delivered, failed, runs)]
    assert [job.state for job in before] == ["succeeded", "failed", "running"]
    world.run(200.0)
    assert [world.job(job.id) for job in before] == before
    assert len(world.jobs()) == 3, "none was made"
    world.close()


@pytest.mark.contract("HOOK-11")
def test_what_waits_for_room_or_a_pause_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    world = cluster(OrphanRules(interval=30.0, threshold=10.0))
    finish(world.store.queues.default_limits(WEBHOOKS_QUEUE, Limits(per_group=1), world.clock.now()))
    world.boot("one")
    for _ in range(2):
        world.enqueue(Act(seconds=600.0), task=DELIVER, queue=WEBHOOKS_QUEUE, group="slow", options=PATIENT)
    finish(world.operator.queues.pause(WEBHOOKS_QUEUE, group="held"))
    world.enqueue(Act(), task=DELIVER, queue=WEBHOOKS_QUEUE, group="held")
    world.run(300.0)
    assert sorted(job.state for job in world.jobs()) == ["queued", "queued", "running"]
    assert said(caplog) == []
    world.close()


@pytest.mark.contract("HOOK-11")
def test_it_can_be_turned_off(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = cluster(OrphanRules(enabled=False, interval=30.0, threshold=10.0))
    job_id = lost(world)
    world.boot("one")
    world.run(3600.0)
    assert (world.job(job_id).state, said(caplog)) == ("queued", [])
    world.close()


@pytest.mark.contract("HOOK-11")
def test_only_the_leader_looks(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = cluster(OrphanRules(interval=30.0, threshold=10.0))
    world.boot("one")
    world.run(1.0)
    world.boot("two")
    world.run(300.0)
    assert len(said(caplog)) == 1
    world.crash("one")
    job_id = lost(world)
    world.run(120.0)
    assert world.job(job_id).state == "succeeded"
    assert len([line for line in said(caplog) if "started" in line]) == 2
    world.close()


def test_quiet_time_ends_when_an_orphan_is_due() -> None:
    world = cluster(elide=True)
    world.boot("one")
    world.run(60.0)
    job_id = lost(world)
    world.run(1800.0)
    assert world.job(job_id).state == "succeeded"
    world.close()


class Broken:
    """A store whose verb fails so many times."""

    def __init__(self, world: World, verb: str, error: Exception, times: int = 1) -> None:
        self._world, self._verb, self._error, self.left = world, verb, error, times

    @property
    def webhooks(self) -> Broken:
        return self

    def __getattr__(self, name: str) -> Any:
        if name == self._verb and self.left:
            self.left -= 1
            return self._fail
        return getattr(self._world.store.webhooks, name)

    async def _fail(self, *arguments: Any) -> Any:
        raise self._error


@pytest.mark.contract("HOOK-11", "HOOK-12")
@pytest.mark.parametrize(
    ("verb", "error"), [("orphans", StoreUnavailable("the database is away")), ("re_emit", StoreRefused("no"))]
)
def test_an_error_ends_the_cycle_and_the_next_one_makes_good(
    verb: str, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    world, told = cluster(), []
    lost(world)
    telemetry = Telemetry()

    def listen(event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        told.append(dict(measurements))

    telemetry.subscribe(listen, "orphans")
    store: Any = Broken(world, verb, error)
    service, now = Orphans(store, telemetry, OrphanRules()), world.clock.now() + timedelta(minutes=15)
    for _ in range(3):
        again_at = finish(service.tick(now))
        assert again_at == now + timedelta(minutes=5), "not before the interval is over"
        now = again_at
    failed, made_good = {"found": 1, "re_emitted": 0, "failed": 1}, {"found": 1, "re_emitted": 1, "failed": 0}
    assert told == ([made_good] if verb == "orphans" else [failed, made_good])
    lines = said(caplog)
    assert sum(str(error) in line for line in lines) == 1
    assert lines[-1] == "reconciler: cycle complete, re-emitted=1, failed=0"
    world.close()


def test_a_signal_does_not_bring_the_next_cycle_forward() -> None:
    world = cluster()
    store: Any = Broken(world, "orphans", AssertionError("it looked"), times=9)
    service, now = Orphans(store, Telemetry(), OrphanRules()), world.clock.now()
    planned = finish(service.tick(now))
    assert finish(service.tick(now + timedelta(seconds=299))) == planned
    early = now - timedelta(days=1)
    with pytest.raises(AssertionError, match="it looked"):  # the clock was set back: the plan is of no use
        finish(service.tick(early))
    world.close()
