"""Operators' verbs on the job of a window's day, on both stores: one success per day, and only before the cutoff."""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime, timedelta
from random import Random

import pytest

from oncue import Conflict, Oncue, daily
from oncue.model import DayCount, Job, Skipped, Slot, Subject
from oncue.policy import options, windows
from oncue.policy.lifecycle import Ended, refusal, settle
from oncue.policy.window_steps import DuePage
from oncue.records.windows import ledger_record
from oncue.verbs.schedules.declaring import Declaring
from tests.app.test_windows import Bench, led, stored
from tests.store.scene import enter, take

DAY, LAST_YEAR = date(2030, 1, 2), date(2025, 1, 2)


@pytest.fixture
def app(app: Oncue) -> Oncue:
    @app.task
    async def reset_chat(user: str) -> None: ...

    @app.task(schedule=daily(window="60m", retry="10m"), max_concurrency=3, on_cutoff=reset_chat)
    async def digest(user: str, day: date, language: str = "en") -> None: ...

    app.wait(Declaring(app.internals).synchronise())
    return app


def at(day: date, hour: int, minute: int = 0) -> datetime:
    return datetime(day.year, day.month, day.day, hour, minute, tzinfo=UTC)


async def opened(bench: Bench, name: str = "ann", day: date = DAY) -> Job:
    """The job of a day from 08:00 to 09:00. That of 2030 is open, that of last year was over long ago."""
    ann = await bench.put(name)
    since = at(day, 8) - timedelta(days=1)
    row = dataclasses.replace(ann, day=day, opens_at=at(day, 8), cutoff_at=at(day, 9), next_at=at(day, 8), since=since)
    assert await bench.store.windows.put([row], bench.now) == [True]
    await bench.plan(at(day, 8))
    job_id = (await stored(bench.app, name)).job_id
    assert job_id is not None
    return await bench.app.jobs.get(job_id)


async def ledger(app: Oncue, name: str = "ann") -> list[Slot]:
    return await app.windows.ledger("digest", name, start=date(2025, 1, 1), end=date(2031, 1, 1))


def decided(subject: Subject) -> tuple[date | None, str | None]:
    return subject.last_date, subject.status


@pytest.mark.contract("WIN-1", "WIN-6")
async def test_a_retry_makes_a_job_that_is_the_days_job(app: Oncue) -> None:
    bench = await led(app)
    first = await opened(bench)
    await app.jobs.set_status(first.id, "failed")
    again = await app.jobs.retry(first.id, by="eve")
    ann = await stored(app, "ann")
    assert (ann.job_id, ann.day, ann.next_at, decided(ann)) == (again.id, DAY, at(DAY, 9), (None, None))
    assert (again.state, again.retry_of, again.subject, again.enqueued_by) == ("queued", first.id, "ann", "eve")
    assert (again.args, again.options, again.order_at) == (first.args, first.options, at(DAY, 9))
    assert (again.schedule_id, again.scheduled_for) == (first.schedule_id, first.scheduled_for)
    assert (await app.jobs.get(first.id)).state == "failed"
    assert [(slot.verdict, slot.job_id, slot.state) for slot in await ledger(app)] == [("fired", again.id, "queued")]
    entry = (await app.audit_log.list(subject=f"job:{first.id}"))[0]
    assert (entry.actor, entry.action, entry.after) == ("eve", "job.retry", {"retried_as": again.id})

    await app.jobs.set_status(again.id, "succeeded")
    assert decided(await stored(app, "ann")) == (DAY, "success")
    with pytest.raises(Conflict, match="the day 2030-01-02 of ann is decided: success"):
        await app.jobs.retry(first.id)
    assert await bench.store.windows.day(bench.window.id, DAY) == [
        DayCount(540, "opened", 1),
        DayCount(540, "success", 1),
    ]


@pytest.mark.contract("WIN-1")
async def test_a_day_has_one_job_at_a_time(app: Oncue) -> None:
    bench = await led(app)
    first = await opened(bench)
    await app.jobs.cancel(first.id)
    second = await app.jobs.retry(first.id)
    with pytest.raises(Conflict, match=f"job {second.id} is for the day 2030-01-02 of ann already") as caught:
        await app.jobs.set_status(first.id, "queued")
    assert caught.value.job_id == second.id
    await app.jobs.cancel(second.id)
    third = await app.jobs.set_status(first.id, "queued")
    assert ((await stored(app, "ann")).job_id, third.retry_of) == (third.id, first.id)


@pytest.mark.contract("WIN-1", "WIN-9")
async def test_a_planner_that_read_the_day_before_its_retry_does_not_end_it(app: Oncue) -> None:
    bench = await led(app)
    first = await opened(bench)
    await app.jobs.set_status(first.id, "failed")
    (before,) = await bench.store.windows.subjects(bench.window.id, ["ann"])
    again = await app.jobs.retry(first.id)
    page = DuePage(bench.window, at(DAY, 9))
    planned = await bench.planner._planned(page, [before], 1)
    assert not await bench.planner._move(page, planned, bench.planner._leadership.epoch or 0)
    assert decided(await stored(app, "ann")) == (None, None)
    await bench.plan(at(DAY, 9))
    assert decided(await stored(app, "ann")) == (DAY, "cutoff_reached")
    assert (await app.jobs.get(again.id)).state == "skipped"


@pytest.mark.contract("WIN-6", "WIN-12")
async def test_after_the_cutoff_there_is_no_retry_and_no_success_by_hand(app: Oncue) -> None:
    bench = await led(app)
    job = await opened(bench, day=LAST_YEAR)
    with pytest.raises(Conflict, match="its day was over at 2025-01-02 09:00 UTC, and a success counts only before"):
        await app.jobs.set_status(job.id, "succeeded")
    assert (await app.jobs.set_status(job.id, "failed")).state == "failed"
    with pytest.raises(Conflict, match="the day 2025-01-02 of ann was over at its cutoff"):
        await app.jobs.retry(job.id)
    assert decided(await stored(app, "ann")) == (None, None)


@pytest.mark.contract("WIN-1", "WIN-6", "WIN-7")
@pytest.mark.parametrize("is_running", [False, True])
async def test_a_success_by_hand_decides_the_day(app: Oncue, is_running: bool) -> None:
    bench = await led(app)
    job = await opened(bench)
    if is_running:
        node = await enter(bench.store, started_at=at(DAY, 8), expires_at=at(DAY, 9))
        (claim,) = await take(
            bench.store, node, queues=["windows"], tasks=["digest"], now=at(DAY, 8), rooms={"windows": 3}
        )
        assert claim.id == job.id
    before = await app.now()
    assert (await app.jobs.set_status(job.id, "success")).state == "succeeded"
    ann = await stored(app, "ann")
    assert decided(ann) == (DAY, "success")
    assert ann.last_run_at is not None
    assert before <= ann.last_run_at <= await app.now()
    assert await bench.store.windows.day(bench.window.id, DAY) == [
        DayCount(540, "opened", 1),
        DayCount(540, "success", 1),
    ]
    await bench.plan(at(DAY, 9))
    assert decided(await stored(app, "ann")) == (DAY, "success")


@pytest.mark.contract("WIN-6", "WIN-13")
async def test_a_job_that_ends_by_hand_leaves_the_day_to_its_cutoff(app: Oncue) -> None:
    bench = await led(app)
    failed, cancelled = await opened(bench), await opened(bench, "bob")
    await app.jobs.set_status(failed.id, "failed")
    await app.jobs.cancel(cancelled.id)
    assert [decided(await stored(app, name)) for name in ("ann", "bob")] == [(None, None)] * 2
    await bench.plan(at(DAY, 9))
    assert [decided(await stored(app, name)) for name in ("ann", "bob")] == [(DAY, "cutoff_reached")] * 2
    assert [job.args["user"] for job in await app.jobs.list(task="reset_chat")] == ["bob", "ann"]
    for name, job in (("ann", failed), ("bob", cancelled)):
        (slot,) = await ledger(app, name)
        assert (slot.verdict, slot.reason, slot.job_id) == ("fired", "cutoff_reached", job.id)
        assert ledger_record(slot)["outcome"] == "cutoff_reached"


@pytest.mark.contract("WIN-14")
async def test_a_day_whose_job_had_ended_is_missed_in_the_ledger_too(app: Oncue) -> None:
    bench = await led(app)
    job = await opened(bench)
    await app.jobs.cancel(job.id)
    await bench.plan(at(DAY, 9) + timedelta(days=3))
    told = [(slot.verdict, slot.reason, slot.slots, slot.job_id) for slot in await ledger(app)]
    assert told[:2] == [("fired", "outage", 1, job.id), ("missed", "outage", 2, None)]


async def test_a_removed_subject_and_a_disabled_window_have_no_retry(app: Oncue) -> None:
    bench = await led(app)
    job = await opened(bench)
    await app.jobs.cancel(job.id)
    await app.schedules.toggle("digest", False)
    with pytest.raises(Conflict, match="window digest is disabled"):
        await app.jobs.retry(job.id)
    await app.windows.remove("digest", "ann")
    with pytest.raises(Conflict, match="ann is no subject of window digest any more"):
        await app.jobs.retry(job.id)


async def test_many_at_once_tell_of_each(app: Oncue) -> None:
    bench = await led(app)
    jobs = [await opened(bench), await opened(bench, "bob"), await opened(bench, "cas", LAST_YEAR)]
    ids = [job.id for job in jobs]
    told = await app.jobs.set_status_many(ids, "failed")
    assert [one.outcome for one in told] == ["changed"] * 3
    told = await app.jobs.retry_many(ids)
    assert [one.outcome for one in told] == ["changed", "changed", "conflict"]
    assert "was over at its cutoff" in told[2].message
    told = await app.jobs.set_status_many([one.job_id for one in await app.windows.subjects("digest") if one.job_id],
                                          "succeeded")  # fmt: skip
    assert [(one.outcome, one.state) for one in told] == [
        ("changed", "succeeded"),
        ("changed", "succeeded"),
        ("conflict", "failed"),
    ]
    assert decided(await stored(app, "bob")) == (DAY, "success")


async def test_the_priority_of_a_days_job_can_be_changed(app: Oncue) -> None:
    bench = await led(app)
    job = await opened(bench)
    assert await app.jobs.boost(job.id, 7) == job.priority + 7


@pytest.mark.contract("WIN-2", "WIN-14")
async def test_a_day_that_is_over_is_decided_before_the_terms_change(app: Oncue) -> None:
    """No planner has come to it yet; it would go by the new terms."""
    bench = await led(app)
    job = await opened(bench, day=LAST_YEAR)
    await app.windows.change("digest", "ann", weekdays="SUN")
    ann = await stored(app, "ann")
    assert (decided(ann), ann.day.weekday(), (await app.jobs.get(job.id)).finished) == ((LAST_YEAR, "missed"), 6, True)
    first = (await ledger(app))[0]
    assert (first.scheduled_for.date(), ledger_record(first)["outcome"]) == (LAST_YEAR, "missed")


@pytest.mark.contract("WIN-6", "WIN-8", "WIN-13", "WIN-14")
@pytest.mark.parametrize(
    ("found_at", "status", "hooks"), [(at(DAY, 9), "cutoff_reached", 1), (at(date(2030, 1, 3), 9), "missed", 0)]
)
async def test_a_claim_after_the_cutoff_does_not_begin_and_decides_the_day(
    app: Oncue, found_at: datetime, status: str, hooks: int
) -> None:
    """In the planner's stead: its window may be disabled, or another session may hold the subject's row."""
    bench = await led(app)
    job = await opened(bench)
    node = await enter(bench.store, started_at=found_at, expires_at=found_at + timedelta(hours=1))
    (claim,) = await take(bench.store, node, queues=["windows"], tasks=["digest"], now=found_at, rooms={"windows": 3})
    assert refusal(claim, at(DAY, 9) - timedelta(microseconds=1)) is None
    refused = refusal(claim, found_at)
    assert refused == Skipped("cutoff_reached")
    terms, window = windows.terms_of_refusal(claim, refused, found_at), options.read(claim.options).window
    assert terms is not None
    assert window is not None
    terms = windows.terms_as_of(terms, window, found_at)
    ids = await bench.store.jobs.reserve(len(terms.late_follow_ups))
    terms = terms._replace(late_follow_ups=tuple(one._replace(ids=list(ids)) for one in terms.late_follow_ups))
    change = settle(Ended(claim, refused, None, found_at, terms=terms), Random(1))
    assert await bench.store.jobs.apply([change], found_at) == [True]
    assert decided(await stored(app, "ann")) == (DAY, status)
    ended = await app.jobs.get(job.id)
    assert (ended.state, ended.attempt) == ("skipped", 0)
    assert [made.task for made in await app.jobs.list() if made.id != job.id] == ["reset_chat"] * hooks
    assert DayCount(540, status, 1) in await bench.store.windows.day(bench.window.id, DAY)
