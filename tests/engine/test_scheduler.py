"""The scheduler under virtual time: punctual, fenced, bounded, and fair to runs that are in its way."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from oncue.engine import scheduler
from oncue.errors import Conflict, SlotTaken
from oncue.model import Change, Claim, Decided, Step
from oncue.policy import slots
from oncue.policy.options import Options
from oncue.policy.retry import Ladder
from oncue.sim.checker import check
from oncue.sim.driver import finish
from oncue.sim.script import Act
from oncue.sim.world import PACE, World
from oncue.store.contract import LEADER
from tests.answering import Answering
from tests.engine.rig import Leader, audit_holds, execute, fired, since, verdicts

ONCE = Options("at_most_once", None, 10.0)
HOUR = timedelta(hours=1)


def alone(**options: Any) -> World:
    world = World(1, **options)
    world.boot("alone")
    world.run(1.0)
    return world


def slot_events(world: World) -> list[tuple[float, float]]:
    """When slots were decided, and when they were due."""
    return [
        (event.at / 1e6, event.fields["at"] / 1e6) for event in world.history.events if event.kind == "slot"
    ]  # fmt: skip


def ran(world: World) -> list[datetime | None]:
    """The slots whose jobs started, in that order."""
    return [
        world.job(event.fields["id"]).scheduled_for for event in world.history.events if event.kind == "start"
    ]  # fmt: skip


# --- on time --------------------------------------------------------------------------------------------------------


@pytest.mark.contract("SLOT-4", "HOOK-15")
def test_a_slot_is_decided_in_its_very_instant_and_its_job_starts() -> None:
    world = alone()
    made = world.schedule("often", "@every 7s")
    world.run(60.0)
    assert fired(world, "often") == since(made, *range(7, 60, 7))
    assert all(decided == due for decided, due in slot_events(world))
    assert ran(world) == since(made, *range(7, 60, 7))
    assert {job.state for job in world.jobs()} == {"succeeded"}


@pytest.mark.contract("SLOT-4")
def test_the_job_carries_its_slot() -> None:
    world = alone()
    made = world.schedule("often", "@every 7s", grace=20.0, priority=33)
    world.run(8.0)
    (job,) = world.jobs()
    assert (job.scheduled_for, job.schedule_id, job.priority) == (since(made, 7)[0], made.id, 33)
    assert (job.start_by, job.enqueued_by) == (since(made, 27)[0], "schedule")
    (slot,) = world.slots("often")
    assert (slot.job_id, slot.epoch, slot.revision, slot.state) == (job.id, 1, 1, "succeeded")
    assert slot.decided_by == world.members["alone"].worker.node.id


@pytest.mark.contract("QUE-18")
def test_a_new_schedule_is_noticed_by_its_hint_or_at_the_next_pass() -> None:
    hinted, deaf = alone(), alone(hints=0.0)
    for world, late in ((hinted, 0.0), (deaf, PACE.schedules)):
        world.run(1.0)
        made = world.schedule("often", "@every 1s")
        world.run(late + 1.0)
        assert fired(world, "often")
        assert sum(row.slots for row in world.slots("often")) == late + 1
        assert audit_holds(world, "often")
        assert made.next_run_at == since(made, 1)[0]


def test_a_hundred_hints_a_second_are_one_look() -> None:
    world = alone()
    wire = world.members["alone"].wire
    calls: list[str] = []
    real = wire.pass_on

    async def noted(verb: str, *rest: Any) -> Any:
        calls.append(verb)
        return await real(verb, *rest)

    wire.pass_on = noted  # type: ignore[method-assign]
    for _ in range(100):
        world.hint()
        world.run(0.01)
    assert calls.count("slots.due") <= 3


@pytest.mark.contract("SLOT-16")
def test_telemetry_tells_of_each_slot() -> None:
    world = alone()
    heard: list[tuple[str, float, str]] = []

    def hear(_: str, measured: Mapping[str, float], told: Mapping[str, Any]) -> None:
        heard.append((told["schedule"], measured["late"], told["decided"].verdict))

    world.members["alone"].telemetry.subscribe(hear, "slot")
    world.schedule("long", "@every 2s", Act(seconds=3.0))
    world.run(5.0)
    assert heard == [("long", 0.0, "fired"), ("long", 0.0, "skipped")]


# --- in the way -----------------------------------------------------------------------------------------------------


@pytest.mark.contract("SLOT-5")
def test_no_two_runs_of_a_schedule_overlap() -> None:
    world = alone()
    world.schedule("long", "@every 2s", Act(seconds=5.0), options=Options(max_runtime=60.0))
    world.run(30.5)
    assert world.members["alone"].executor.most_running == 1
    rows = world.slots("long")
    blocked = [row for row in rows if row.verdict == "skipped"]
    assert {row.reason for row in blocked} == {"max_instances"}
    runs = [row.job_id for row in rows if row.verdict == "fired"]
    assert {row.blocked_by for row in blocked} <= set(runs)
    assert verdicts(world, "long")[:6] == ["fired", "skipped", "skipped", "fired", "skipped", "skipped"]
    assert audit_holds(world, "long")


@pytest.mark.contract("SLOT-5")
def test_as_many_run_at_once_as_the_schedule_allows() -> None:
    world = alone()
    world.schedule("long", "@every 1s", Act(seconds=5.5), options=Options(max_runtime=60.0), max_instances=3)
    world.run(20.0)
    assert world.members["alone"].executor.most_running == 3


@pytest.mark.contract("SLOT-5")
def test_a_job_that_waits_for_its_retry_is_in_the_way_too() -> None:
    world = alone()
    world.schedule("flaky", "@every 2s", Act("fail"), Act(), options=Options(retry=Ladder("5s")))
    world.run(6.5)
    assert verdicts(world, "flaky") == ["fired", "skipped", "skipped"]


@pytest.mark.contract("SLOT-8")
def test_an_overlong_at_most_once_run_ends_before_the_next_slot_and_that_one_runs() -> None:
    """Its node is stuck, so that nobody else cuts it off first."""
    world = World(1, pace=dataclasses.replace(PACE, lease=300.0, beat=100.0))
    world.boot("leader").executor.concurrency = 0
    world.run(0.5)
    stuck = world.boot("stuck")
    world.run(0.5)
    made = world.schedule("stale", "@every 12s", Act("hang", stubborn=True), options=ONCE, max_retries=0)
    world.run(12.2)
    stuck.freeze_all_but("membership")
    first = world.jobs()[0]
    assert first.state == "running"
    world.run(11.3)
    assert world.job(first.id).state == "running", "ten seconds are over, and nothing was due"
    world.run(0.5)
    ended = world.job(first.id)
    assert (ended.state, ended.reason, ended.error) == ("skipped", "skipped_timeout", "over its maximum runtime")
    assert ended.finished_at == since(made, 24)[0]
    assert verdicts(world, "stale") == ["fired", "fired"]
    (second,) = [job for job in world.jobs() if job.id != first.id]
    assert (second.state, second.scheduled_for) == ("queued", since(made, 24)[0])
    order = [(event.kind, event.fields.get("state")) for event in world.history.events][-8:]
    assert order.index(("change", "skipped")) < order.index(("slot", None))


@pytest.mark.contract("SLOT-8")
@pytest.mark.parametrize(("retries", "state", "verdict"), [(3, "retrying", "skipped"), (0, "failed", "fired")])
def test_an_overlong_at_least_once_run_stays_in_the_way_while_it_has_retries(
    retries: int, state: str, verdict: str
) -> None:
    world = World(1, pace=dataclasses.replace(PACE, lease=300.0, beat=100.0))
    world.boot("leader").executor.concurrency = 0
    world.run(0.5)
    stuck = world.boot("stuck")
    world.run(0.5)
    options = Options("at_least_once", None, 10.0, Ladder("60s"))
    world.schedule("stale", "@every 12s", Act("hang", stubborn=True), options=options, max_retries=retries)
    world.run(12.2)
    stuck.freeze_all_but("membership")
    world.run(12.0)
    rows = world.slots("stale")
    assert [row.verdict for row in rows] == ["fired", verdict]
    assert rows[0].state == state
    assert rows[1].blocked_by == (rows[0].job_id if verdict == "skipped" else None)


def test_a_run_within_its_time_is_left_alone() -> None:
    world = alone()
    world.schedule("long", "@every 2s", Act(seconds=9.0), options=ONCE, max_retries=0)
    world.run(12.0)
    rows = world.slots("long")
    assert [row.verdict for row in rows] == ["fired", *["skipped"] * 4, "fired"]
    assert rows[0].state == "succeeded"


def settled_meanwhile(real: Any, requeue: bool) -> Answering:
    """A store on which another node settles a run in the moment before the scheduler does."""
    done: list[bool] = []

    async def apply(changes: Sequence[Change], now: datetime, **options: Any) -> list[bool]:
        if not done:
            done.append(True)
            state = "queued" if requeue else "succeeded"
            await real.jobs.apply([change._replace(state=state, outcome=None, reason=None) for change in changes], now)
        took: list[bool] = await real.jobs.apply(changes, now, **options)
        return took

    return Answering(real, jobs=Answering(real.jobs, apply=apply))


@pytest.mark.contract("SLOT-5", "SLOT-8")
@pytest.mark.parametrize(("requeue", "verdict"), [(True, "skipped"), (False, "fired")])
def test_a_run_that_somebody_else_settles_first_is_looked_at_again(requeue: bool, verdict: str) -> None:
    """If it was given back it is still in the way; if it ended by itself it is not."""
    world = World(1)
    made = world.schedule("stale", "@every 12s", Act("hang"), options=ONCE, max_retries=0)
    world.boot("worker").worker.leadership._is_alive = lambda: False
    world.run(0.5)
    one = Leader(world, "leader", settled_meanwhile(world.store, requeue))  # type: ignore[arg-type]
    world.run(11.5)
    one.tick(since(made, 12)[0])
    world.run(1.0)
    assert world.jobs()[0].state == "running"
    world.members["worker"].frozen = frozenset({"claimer", "executor", "settler", "rescue", "reconciler"})
    at = since(made, 24)[0]
    one.tick(at)
    assert verdicts(world, "stale") == ["fired"], "it is left to the next pass"
    one.tick(at)
    rows = world.slots("stale")
    assert [row.verdict for row in rows] == ["fired", verdict]
    assert rows[1].blocked_by == (rows[0].job_id if requeue else None)


# --- misfire at start -----------------------------------------------------------------------------------------------


@pytest.mark.contract("SLOT-10")
def test_a_slot_job_that_does_not_start_within_its_grace_is_skipped() -> None:
    world = World(1, concurrency=0)
    world.boot("leader")
    world.run(0.5)
    world.schedule("strict", "@every 60s", grace=20.0)
    world.schedule("patient", "@every 60s", grace=600.0)
    world.run(60.5)
    assert [job.state for job in world.jobs()] == ["queued", "queued"]
    world.run(20.0)
    world.boot("worker").executor.concurrency = 4
    world.run(2.0)
    (strict,), (patient,) = world.slots("strict"), world.slots("patient")
    assert (strict.verdict, strict.state, strict.state_reason) == ("fired", "skipped", "misfire")
    assert strict.started_at is None
    assert patient.state == "succeeded"


@pytest.mark.contract("SLOT-10")
def test_a_retry_is_no_misfire() -> None:
    world = alone()
    world.schedule("flaky", "@every 60s", Act("fail"), Act(), options=Options(retry=Ladder("30s")), grace=5.0)
    world.run(95.0)
    assert world.slots("flaky")[0].state == "succeeded"


# --- bounds, and one that spoils it ---------------------------------------------------------------------------------


def test_more_schedules_than_one_pass_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "LIMIT", 3)
    world = alone(concurrency=20)
    for number in range(10):
        world.schedule(f"one {number}", "0 * * * *")
    world.run(3600.0)
    for number in range(10):
        (row,) = world.slots(f"one {number}")
        assert (row.verdict, row.decided_at, row.state) == ("fired", row.scheduled_for, "succeeded")
    assert len({job.id for job in world.jobs()}) == 10


def test_what_waits_to_be_written_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "LIMIT", 3)
    world = World(1)
    for number in range(7):
        world.schedule(f"one {number}", "0 * * * *")
    leader, reads = Leader(world, "leader"), []
    leader.tick()
    ask = leader.store.slots.due

    async def due(*asked: Any) -> Sequence[Any]:
        reads.append(await ask(*asked))
        return reads[-1]

    leader.scheduler._store = leader.store = Answering(leader.store, slots=Answering(leader.store.slots, due=due))
    leader.tick(world.clock.now() + timedelta(hours=1))
    leader.tick()
    assert (len(leader.scheduler.backlog), [len(read) for read in reads]) == (2, [3, 3])
    leader.tick()
    assert len(reads) == 2, "two passes wait: that is enough"
    finish(leader.scheduler.write_next())
    leader.tick()
    leader.tick()
    assert [len(read) for read in reads] == [3, 3, 1], "one pass is still to be written, and would be read once more"
    finish(leader.scheduler.write_next())
    leader.tick()
    assert [len(read) for read in reads] == [3, 3, 1, 0]
    assert [len(fired(world, f"one {number}")) for number in range(7)] == [1] * 7


def test_who_leads_anew_reads_everything_that_is_due_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it read under its former epoch it may not write, and another leader may have written it."""
    monkeypatch.setattr(scheduler, "LIMIT", 3)
    world = World(1)
    for number in range(7):
        world.schedule(f"one {number}", "0 * * * *")
    leader = Leader(world, "leader")
    leader.tick()
    leader.tick(world.clock.now() + timedelta(hours=1))
    leader.tick()
    assert len(leader.scheduler.backlog) == 2
    former = leader.leadership.epoch
    leader.tick(leader.clock.now() + timedelta(minutes=1))  # it slept, and its lease ended meanwhile
    assert leader.leadership.epoch != former
    while leader.scheduler.backlog:
        finish(leader.scheduler.write_next())
        leader.tick()
    leader.tick()
    assert [len(world.slots(f"one {number}")) for number in range(7)] == [1] * 7
    steps = [event for event in world.history.events if event.kind == "step"]
    assert all(event.fields["accepted"] for event in steps)


def test_a_leader_that_can_write_nothing_asks_whether_it_leads_before_it_tries_again() -> None:
    world = World(1)
    world.schedule("often", "@every 1s")
    leader, now = Leader(world, "leader"), world.clock.now() + timedelta(seconds=1)
    leader.tick()
    finish(world.store.leases.release(LEADER, leader.node.id, 1, world.clock.now()))
    finish(world.store.leases.acquire(LEADER, uuid4(), "other", now, now + timedelta(seconds=9), respect=None))
    leader.clock.set_to(now)
    leader.leadership.signal.take()
    assert finish(leader.scheduler.tick(now)) == now + timedelta(seconds=PACE.poll)
    assert leader.leadership.signal.take()


@pytest.mark.contract("HOOK-15")
def test_what_is_cut_is_logged_and_follows(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(slots, "MOST", 10)
    world = alone(concurrency=100)
    made = world.schedule("often", "@every 1s", missed="each", max_instances=100)
    world.crash("alone")
    world.run(35.0)
    with caplog.at_level(logging.WARNING, "oncue.scheduler"):
        world.boot("alone")
        world.run(0.5)
    cut = [record.message for record in caplog.records if "slots due; the rest follows" in record.message]
    assert cut == ["scheduler: often has more than 10 slots due; the rest follows"] * 3
    assert fired(world, "often") == since(made, *range(1, 36))
    assert audit_holds(world, "often")


def test_a_schedule_that_cannot_be_worked_out_waits_and_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    world = alone()
    heard: list[str] = []
    telemetry = world.members["alone"].telemetry
    telemetry.subscribe(lambda _, __, told: heard.append(told["schedule"]), "schedule.error")
    broken, good = world.schedule("broken", "@every 5s"), world.schedule("good", "@every 5s")
    execute(world, "update oncue_schedules set tz = 'Mars/Olympus' where name = 'broken'")
    world.run(41.0)
    assert verdicts(world, "good") == ["fired"] * 8
    assert verdicts(world, "broken") == []
    assert heard == ["broken", "broken"], "once per interval, not at every pass"
    assert "the slots of broken cannot be worked out, and wait" in caplog.text
    execute(world, "update oncue_schedules set tz = 'UTC' where name = 'broken'")
    world.run(30.0)
    assert sum(row.slots for row in world.slots("broken")) == len(since(broken, *range(5, 71, 5)))
    assert audit_holds(world, "broken")
    assert audit_holds(world, "good")
    assert good.created_at == broken.created_at


# --- by hand --------------------------------------------------------------------------------------------------------


@pytest.mark.contract("SLOT-5", "SLOT-11")
def test_a_trigger_during_a_run_conflicts_and_takes_no_slot() -> None:
    world = alone()
    made = world.schedule("long", "@every 10s", Act(seconds=9.0), options=Options())
    world.run(11.0)
    (job,) = world.jobs()
    for verb in (
        world.operator.schedules.trigger("long", since(made, 30)[0]),
        world.operator.schedules.run_now("long"),
    ):
        with pytest.raises(Conflict, match=f"job {job.id} is not finished: no slot was taken") as conflict:
            finish(verb)
        assert conflict.value.job_id == job.id
        assert not isinstance(conflict.value, SlotTaken)
    assert len(world.slots("long")) == 1
    world.run(20.0)
    assert verdicts(world, "long") == ["fired", "fired", "fired"]


@pytest.mark.contract("SLOT-11")
def test_a_slot_that_was_triggered_ahead_of_time_does_not_fire_again() -> None:
    world = alone()
    made = world.schedule("often", "@every 10s")
    world.run(5.0)
    taken = finish(world.operator.schedules.trigger("often", since(made, 20)[0]))
    world.run(30.0)
    rows = world.slots("often")
    assert [(row.scheduled_for, row.verdict) for row in rows] == list(
        zip(since(made, 10, 20, 30), ("fired", "manual", "fired"), strict=True)
    )
    assert rows[1].job_id == taken.job_id
    assert len(world.jobs()) == 3
    assert audit_holds(world, "often")


@pytest.mark.contract("SLOT-11")
def test_running_now_uses_up_no_regular_slot() -> None:
    world = alone()
    made = world.schedule("often", "@every 10s", max_instances=2)
    world.run(10.0)
    first = finish(world.operator.schedules.run_now("often"))
    world.run(1.0)
    second = finish(world.operator.schedules.run_now("often"))
    assert first.scheduled_for == since(made, 10)[0] + timedelta(microseconds=1), "this instant is a regular slot"
    assert second.scheduled_for == world.clock.now()
    world.run(20.0)
    assert fired(world, "often") == since(made, 10, 20, 30)
    assert audit_holds(world, "often")


def test_running_now_twice_in_one_instant_is_two_extra_slots() -> None:
    world = alone(concurrency=0)
    world.schedule("often", "@every 1h", max_instances=5)
    made = [finish(world.operator.schedules.run_now("often")) for _ in range(3)]
    assert len({slot.scheduled_for for slot in made}) == 3
    assert len({slot.job_id for slot in made}) == 3


@pytest.mark.contract("SLOT-3")
def test_a_trigger_between_look_and_decision_wins_and_the_rest_is_decided_anew() -> None:
    world = World(1)
    made = world.schedule("often", "@every 10s")
    one = Leader(world, "leader")
    one.tick(made.created_at)
    now = since(made, 20)[0]
    world.clock.advance_to(now)
    real = one.store.slots.decide

    async def too_late(steps: Sequence[Step], *rest: Any, **options: Any) -> list[bool]:
        if len(world.slots("often")) == 0:
            await world.operator.schedules.trigger("often", since(made, 10)[0])
        return await real(steps, *rest, **options)

    one.store.slots.decide = too_late  # type: ignore[method-assign]
    execute(world, "update oncue_leases set expires_at = :until", until=2**52)
    one.leadership.until = now + HOUR
    one.tick(now)
    assert verdicts(world, "often") == ["manual"]
    one.tick(now)
    assert verdicts(world, "often") == ["manual", "skipped"]
    assert audit_holds(world, "often")


@pytest.mark.contract("SLOT-5")
@pytest.mark.parametrize("most", [1, 3])
def test_a_backfill_runs_oldest_first_and_within_max_instances(most: int) -> None:
    world = alone(concurrency=10)
    world.run(3600.0)
    world.schedule("often", "0 * * * *", Act(seconds=1.0), max_instances=most)
    now = world.clock.now() + timedelta(seconds=1)
    world.run(1.0)
    finish(world.operator.schedules.change("often", rule="* * * * *"))
    filled = finish(world.operator.schedules.backfill("often", now - timedelta(seconds=600), now))
    assert len(filled.jobs) == 10
    again = finish(world.operator.schedules.backfill("often", now - timedelta(seconds=600), now))
    assert (list(again.jobs), again.present) == ([], 10)
    assert world.members["alone"].executor.busy == 0
    world.run(50.0)
    done = [slot for slot in ran(world) if slot is not None and slot <= now]
    assert done == sorted(done)
    assert len(done) == 10
    assert world.members["alone"].executor.most_running == most


def test_a_backfilled_job_that_is_cancelled_and_started_over_counts_once() -> None:
    world = alone()
    world.run(3600.0)
    world.schedule("often", "0 * * * *")
    world.run(1.0)
    finish(world.operator.schedules.change("often", rule="* * * * *"))
    now = world.clock.now()
    first, *_ = finish(world.operator.schedules.backfill("often", now - timedelta(seconds=180), now)).jobs
    finish(world.operator.jobs.cancel(first))
    assert finish(world.operator.jobs.retry(first)).state == "queued"
    world.run(30.0)
    assert world.job(first).state == "succeeded"
    assert check(world.history.events, world.final()) == []


# --- clocks ---------------------------------------------------------------------------------------------------------


@pytest.mark.contract("SLOT-3", "HOOK-1")
@pytest.mark.parametrize("back", [0.5, 5.0, 86400.0])
def test_a_database_whose_clock_steps_back_fires_nothing_twice(back: float) -> None:
    world = World(1)
    made = world.schedule("often", "@every 1s", missed="each", max_instances=1000)
    one = Leader(world, "leader")
    for second in range(11):
        one.tick(since(made, second)[0])
    assert len(fired(world, "often")) == 10
    stepped = since(made, 10 - back)[0]
    for second in range(21):
        one.tick(stepped + timedelta(seconds=second))
    expected = max(10, int(30 - back))
    assert fired(world, "often") == since(made, *range(1, expected + 1))
    assert len(world.jobs()) == expected
    cursors = [event.fields["cursor"] for event in world.history.events if event.kind == "step"]
    assert cursors == sorted(cursors)


def test_a_schedule_made_after_a_step_back_is_noticed() -> None:
    world = World(1)
    one = Leader(world, "leader")
    noon = world.clock.now()
    one.tick(noon + HOUR)
    made = world.schedule("often", "@every 1s")
    one.scheduler.signal.set()
    one.tick(since(made, 1)[0])
    assert fired(world, "often") == since(made, 1)


def test_nothing_is_fired_by_who_does_not_lead() -> None:
    world = World(1)
    made = world.schedule("often", "@every 1s")
    one = Leader(world, "leader")
    one.clock.set_to(since(made, 5)[0])
    again = finish(one.scheduler.tick(one.clock.now()))
    assert world.slots("often") == []
    assert again == one.clock.now() + timedelta(seconds=30)


def test_a_leader_whose_epoch_is_over_does_not_ask_again_and_again() -> None:
    """Its own lease seems good, but somebody has proved it dead: it finds out at once, and not by a storm."""
    world = alone(hints=0.0)
    world.schedule("often", "@every 1s", missed="each", max_instances=100)
    world.run(4.5)
    wire = world.members["alone"].wire
    execute(world, "update oncue_leases set epoch = epoch + 1, expires_at = 0 where name = 'leader'")
    before = wire.calls
    world.run(0.6)
    lost = world.members["alone"].worker.leadership.epoch
    assert lost != 1
    assert wire.calls - before < 60
    world.run(10.0)
    assert world.members["alone"].leads
    assert set(verdicts(world, "often")) == {"fired"}
    assert audit_holds(world, "often")


def test_a_run_is_as_old_as_its_start() -> None:
    """It may have waited for a seat in its process, after it was claimed."""
    world = alone()
    now = world.clock.now()
    claim = Claim(
        1, "scripted", "default", 0, "{}", ONCE.stored(), now, now, None, now, None, 1, 0, 0, 0, 0, False
    )  # fmt: skip
    assert not scheduler._is_over(claim, now + timedelta(seconds=9))
    assert scheduler._is_over(claim, now + timedelta(seconds=10))
    started = claim._replace(started_at=now + timedelta(seconds=5))
    assert not scheduler._is_over(started, now + timedelta(seconds=14))
    assert scheduler._is_over(started, now + timedelta(seconds=15))


def test_a_decision_without_the_lead_writes_nothing_at_all() -> None:
    world = World(1)
    made = world.schedule("often", "@every 1s")
    one = Leader(world, "leader")
    at = since(made, 1)[0]
    step = Step(made.id, made.version, at, None, [Decided(at, "fired", job_id=99)])
    took = finish(world.store.slots.decide([step], at, by="x", node=one.node.id, epoch=1))
    assert took == [False]
    assert (world.slots("often"), world.jobs()) == ([], [])
