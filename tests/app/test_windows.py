"""`app.windows` on both stores: subjects, their days, and who may change what."""

from __future__ import annotations

import dataclasses
import logging
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import asyncpg
import pytest

from oncue import Conflict, InvalidSubject, Oncue, SubjectNotFound, daily
from oncue.engine.planner import Planner
from oncue.model import DayCount, Schedule, Subject
from oncue.policy.lifecycle import close_day
from oncue.store.contract import LEADER, Store
from oncue.telemetry import Telemetry
from oncue.verbs.schedules.declaring import Declaring

DAY = date(2030, 1, 2)


@pytest.fixture
def app(app: Oncue) -> Oncue:
    @app.task(schedule=daily(window="60m", retry="10m"), max_concurrency=3)
    async def digest(user: str, day: date, language: str = "en") -> None: ...

    @app.task
    async def other() -> None: ...

    app.wait(Declaring(app.internals).synchronise())
    return app


async def stored(app: Oncue, name: str) -> Subject:
    return await app.windows.subject("digest", name)


async def test_a_subject_is_added_changed_and_removed(app: Oncue) -> None:
    ann = await app.windows.add("digest", "ann", at="9:05", tz="Europe/Berlin", args={"language": "de"})
    assert (ann.due, ann.tz, ann.args, ann.version) == (545, "Europe/Berlin", '{"language": "de"}', 1)
    assert ann.cutoff_at - ann.opens_at == timedelta(hours=1)
    assert await app.windows.add("digest", "ann", at="09:05", tz="Europe/Berlin", args={"language": "de"}) == ann
    changed = await app.windows.change("digest", "ann", at="10:00", weekdays="MON-FRI", days_off=["2030-12-24"])
    assert (changed.due, changed.tz, changed.weekdays, changed.days_off) == (
        *(600, "Europe/Berlin", 31),
        (date(2030, 12, 24),),
    )
    await app.windows.remove("digest", "ann")
    assert await app.windows.subjects("digest") == []
    with pytest.raises(SubjectNotFound, match="no subject 'ann'"):
        await app.windows.subject("digest", "ann")
    assert (await app.windows.add("digest", "ann", at="09:00")).version == 4
    actions = [entry.action for entry in await app.audit_log.list()]
    assert actions[:4] == ["subject.add", "subject.remove", "subject.change", "subject.add"]


async def test_the_audit_log_tells_the_terms_before_and_after(app: Oncue) -> None:
    await app.windows.add("digest", "ann", at="09:00", tz="Europe/Berlin", args={"language": "de"})
    await app.windows.change("digest", "ann", days_off=["2030-12-24"], args={})
    await app.windows.remove("digest", "ann")
    removed, changed, added = [(entry.before, entry.after) for entry in (await app.audit_log.list())[:3]]
    assert changed == (
        {"days_off": [], "args": {"language": "de"}}, {"days_off": ["2030-12-24"], "args": {}},
    )  # fmt: skip
    every_day = "MON,TUE,WED,THU,FRI,SAT,SUN"
    terms = {"at": "09:00", "tz": "Europe/Berlin", "weekdays": every_day, "days_off": [], "args": {"language": "de"}}
    assert added == (None, terms)
    assert removed == ({**terms, "days_off": ["2030-12-24"], "args": {}}, None)


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("at", {"at": "25:00"}), ("at", {"at": "9 o'clock"}), ("tz", {"tz": "Mars/Base"}),
        ("weekdays", {"weekdays": "MON-XYZ"}), ("days_off", {"days_off": ["soon"]}),
        ("args.language", {"args": {"language": 7}}), ("args.user", {"args": {"user": "bob"}}),
        ("args", {"args": "de"}),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_named(app: Oncue, field: str, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidSubject) as caught:
        await app.windows.add("digest", "ann", **{"at": "09:00", **given})
    assert caught.value.field == field
    assert await app.windows.subjects("digest") == []


async def test_a_window_has_no_slots_that_could_be_run_by_hand(app: Oncue) -> None:
    start, end = datetime(2030, 1, 1, tzinfo=UTC), datetime(2030, 1, 2, tzinfo=UTC)
    for verb in (
        lambda: app.schedules.run_now("digest"),
        lambda: app.schedules.trigger("digest", start),
        lambda: app.schedules.backfill("digest", start, end),
        lambda: app.schedules.undecided("digest", start, end),
    ):
        with pytest.raises(Conflict, match=r"'digest' is a daily window, .* `oncue subjects run digest SUBJECT`"):
            await verb()
    assert await app.jobs.list() == []


async def test_there_is_no_window_but_that_of_a_daily_schedule(app: Oncue) -> None:
    with pytest.raises(SubjectNotFound, match="no window 'other'"):
        await app.windows.add("other", "ann", at="09:00")
    assert [one.name for one in await app.windows.list()] == ["digest"]


async def test_many_are_added_in_batches_and_once(app: Oncue) -> None:
    rows = [{"subject": f"user{number:04}", "at": "09:00"} for number in range(2500)]
    told: list[int] = []
    assert await app.windows.add_many("digest", rows, progress=told.append) == 2500
    assert told == [1000, 2000, 2500]
    assert await app.windows.add_many("digest", [*rows, {"subject": "zoe", "at": "08:00"}]) == 1
    with pytest.raises(InvalidSubject, match=r"at: expected a time of day .* \(row 2\)"):
        await app.windows.add_many("digest", [{"subject": "yan", "at": "08:00"}, {"subject": "xi", "at": "8"}])
    with pytest.raises(InvalidSubject, match=r"^zone: there is no such field; expected some of at, tz, .*\(row 2\)$"):
        await app.windows.add_many(
            "digest", [{"subject": "wu", "at": "08:00"}, {"subject": "v", "at": "8:00", "zone": ""}]
        )
    page = await app.windows.subjects("digest", after="user2498")
    assert [one.name for one in page] == ["user2499", "zoe"]


class Bench:
    """A planner that leads, on a clock that the test sets."""

    def __init__(self, app: Oncue, store: Store, window: Schedule) -> None:
        self.app, self.store, self.window = app, store, window
        self.node = uuid4()
        self.now = datetime(2030, 1, 1, 12, tzinfo=UTC)
        self.planner: Planner

    async def lead(self) -> None:
        leader = Leading(1)
        until = self.now + timedelta(days=400)
        await self.store.leases.acquire(LEADER, self.node, "test", self.now, until, respect=None)
        lease = await self.store.leases.get(LEADER)
        assert lease is not None
        leader.epoch = lease.epoch
        self.planner = Planner(
            self.store,
            self.node,
            leader,  # type: ignore[arg-type]
            (await self.app.internals.connected()).clock,
            Telemetry(),
            interval=60,
            poll=0.5,
        )

    async def plan(self, now: datetime) -> None:
        while await self.planner.tick(now) <= now:
            pass

    async def put(self, name: str, **fields: Any) -> Subject:
        """A subject whose window of 2 January is from 08:00 to 09:00."""
        opens_at, cutoff_at = (datetime(2030, 1, 2, hour, tzinfo=UTC) for hour in (8, 9))
        await self.app.windows.add("digest", name, at="09:00")
        known = await stored(self.app, name)
        since = datetime(2030, 1, 1, tzinfo=UTC)
        row = dataclasses.replace(
            known, day=DAY, opens_at=opens_at, cutoff_at=cutoff_at, next_at=opens_at, since=since, **fields
        )
        assert await self.store.windows.put([row], self.now) == [True]
        return await stored(self.app, name)


class Leading:
    """What a planner asks of its leadership."""

    def __init__(self, epoch: int) -> None:
        self.epoch: int | None = epoch
        self.followers: list[Any] = []


async def led(app: Oncue) -> Bench:
    """The window was declared long ago, and the planner leads."""
    connected = await app.internals.connected()
    made = Bench(app, connected.store, await app.windows.get("digest"))
    await made.lead()
    return made


@pytest.mark.contract("WIN-3", "WIN-4", "WIN-9")
async def test_the_planner_opens_a_day_once_with_its_slot_and_its_job(app: Oncue) -> None:
    bench = await led(app)
    await bench.put("ann")
    await bench.plan(datetime(2030, 1, 2, 7, 59, tzinfo=UTC))
    assert (await stored(app, "ann")).job_id is None
    await bench.plan(datetime(2030, 1, 2, 8, tzinfo=UTC))
    ann = await stored(app, "ann")
    assert ann.job_id is not None
    assert ann.next_at == ann.cutoff_at
    job = await app.jobs.get(ann.job_id)
    assert (job.queue, job.subject, job.args) == ("windows", "ann", {"user": "ann", "day": "2030-01-02"})
    assert (job.scheduled_for, job.order_at, job.state) == (datetime(2030, 1, 2, tzinfo=UTC), ann.cutoff_at, "queued")
    await bench.plan(datetime(2030, 1, 2, 8, 30, tzinfo=UTC))
    assert [one.id for one in await bench.store.windows.unfinished([ann.job_id, ann.job_id + 1])] == [ann.job_id]
    ledger = await app.windows.ledger("digest", "ann", start=date(2030, 1, 1), end=date(2030, 1, 9))
    assert [(slot.verdict, slot.job_id) for slot in ledger] == [("fired", ann.job_id)]
    queues = {queue.name: queue.global_limit for queue in await app.queues.list()}
    assert queues["windows"] == 3


@pytest.mark.contract("WIN-2")
async def test_days_that_cannot_be_worked_out_keep_no_other_subject_waiting(
    app: Oncue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Their zone is unknown to this host, so what comes after a cutoff is, too. There are more of them than one page of
    the planner has."""
    monkeypatch.setattr("oncue.engine.planner.LIMIT", 2)
    bench = await led(app)
    for name in ("a", "b", "c", "d"):
        await bench.put(name, tz="Mars/Olympus")
    await bench.put("zoe")
    cutoff = datetime(2030, 1, 2, 9, tzinfo=UTC)
    await bench.plan(cutoff)
    assert (await stored(app, "zoe")).status == "cutoff_reached"
    waiting = [await stored(app, name) for name in ("a", "b", "c", "d")]
    assert {one.next_at for one in waiting} == {cutoff + timedelta(seconds=60)}
    assert {one.day for one in waiting} == {DAY}
    assert caplog.text.count("days of window digest in Mars/Olympus cannot be worked out") == 1
    await app.windows.change("digest", "a", tz="UTC")
    assert (await stored(app, "a")).tz == "UTC", "other terms mend it"


@pytest.mark.contract("WIN-4")
async def test_held_subjects_keep_no_other_waiting_however_many_there_are(
    app: Oncue, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not database_url.startswith("postgres"):  # on SQLite a session that holds a row holds the file
        return
    monkeypatch.setattr("oncue.engine.planner.LIMIT", 2)
    bench = await led(app)
    for name in ("a", "b", "c", "zoe"):
        await bench.put(name)
    session = await asyncpg.connect(database_url)
    try:
        async with session.transaction():
            await session.execute("select from oncue_subjects where name in ('a', 'b', 'c') for update")
            await bench.plan(datetime(2030, 1, 2, 8, tzinfo=UTC))
            assert (await stored(app, "zoe")).job_id is not None
            assert (await stored(app, "a")).job_id is None
    finally:
        await session.close()
    await bench.plan(datetime(2030, 1, 2, 8, 1, tzinfo=UTC))
    assert None not in {(await stored(app, name)).job_id for name in ("a", "b", "c")}


@pytest.mark.contract("WIN-16")
async def test_a_subject_that_another_session_holds_is_told_of_once(
    app: Oncue, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The planner looks twice a second: an hour of it would fill the log."""
    if not database_url.startswith("postgres"):  # on SQLite a session that holds a row holds the file
        return
    bench = await led(app)
    for name in ("ann", "bob", "cas"):
        await bench.put(name)

    async def lines(now: datetime) -> list[str]:
        caplog.clear()
        session = await asyncpg.connect(database_url)
        try:
            async with session.transaction():
                await session.execute("select from oncue_subjects where name in ('ann', 'bob') for update")
                for _ in range(3):
                    await bench.plan(now)
        finally:
            await session.close()
        return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]

    opening = datetime(2030, 1, 2, 8, tzinfo=UTC)
    assert await lines(opening) == [
        "another session holds a lock on 2 subjects of window digest: left for a later pass"
    ]
    await bench.plan(opening)
    ids = [(await stored(app, name)).job_id for name in ("ann", "bob")]
    (line,) = await lines(datetime(2030, 1, 2, 9, tzinfo=UTC))
    assert line == f"another session holds a lock on 2 jobs ({ids[0]}, {ids[1]}): left for a later pass"
    await bench.plan(datetime(2030, 1, 2, 9, 1, tzinfo=UTC))
    assert {(await stored(app, name)).status for name in ("ann", "bob")} == {"cutoff_reached"}


@pytest.mark.contract("WIN-6", "WIN-12")
async def test_a_cutoff_ends_the_job_and_a_later_success_changes_nothing(app: Oncue) -> None:
    bench = await led(app)
    await bench.put("ann")
    await bench.plan(datetime(2030, 1, 2, 8, tzinfo=UTC))
    job_id = (await stored(app, "ann")).job_id
    assert job_id is not None
    (before,) = await bench.store.windows.unfinished([job_id])
    await bench.plan(datetime(2030, 1, 2, 9, tzinfo=UTC))
    ann, job = await stored(app, "ann"), await app.jobs.get(job_id)
    assert (ann.last_date, ann.status, ann.day) == (DAY, "cutoff_reached", date(2030, 1, 3))
    assert (job.state, job.reason) == ("skipped", "cutoff_reached")
    late = close_day(before, bench.now, "success", "late")
    assert await bench.store.jobs.apply([late], bench.now) == [False]
    assert (await stored(app, "ann")).status == "cutoff_reached"
    counted = await bench.store.windows.day(bench.window.id, DAY)
    assert counted == [DayCount(540, "cutoff_reached", 1), DayCount(540, "opened", 1)]
    assert await bench.store.windows.fold(100) == 2
    assert await bench.store.windows.day(bench.window.id, DAY) == counted


@pytest.mark.contract("WIN-1", "WIN-6")
async def test_a_success_before_the_cutoff_decides_the_day(app: Oncue) -> None:
    bench = await led(app)
    await bench.put("ann")
    await bench.plan(datetime(2030, 1, 2, 8, tzinfo=UTC))
    job_id = (await stored(app, "ann")).job_id
    assert job_id is not None
    (job,) = await bench.store.windows.unfinished([job_id])
    at = datetime(2030, 1, 2, 8, 30, tzinfo=UTC)
    done = close_day(job, at, "success", "by a test")._replace(state="succeeded", reason=None)
    assert await bench.store.jobs.apply([done], at) == [True]
    ann = await stored(app, "ann")
    assert (ann.last_date, ann.status, ann.last_run_at, ann.next_at) == (DAY, "success", at, ann.cutoff_at)
    await bench.plan(datetime(2030, 1, 2, 9, tzinfo=UTC))
    ann = await stored(app, "ann")
    assert (ann.status, ann.day, ann.job_id) == ("success", date(2030, 1, 3), None)


async def test_two_planners_decide_a_day_once(app: Oncue) -> None:
    bench = await led(app)
    ann = await bench.put("ann")
    await bench.plan(datetime(2030, 1, 2, 8, tzinfo=UTC))
    first = (await stored(app, "ann")).job_id
    again = dataclasses.replace(await stored(app, "ann"), job_id=None, next_at=ann.opens_at)
    assert await bench.store.windows.put([again], bench.now) == [True]
    await bench.plan(datetime(2030, 1, 2, 8, tzinfo=UTC))
    second = (await stored(app, "ann")).job_id
    assert (first, second) != (None, None)
    assert second is not None
    assert await bench.store.windows.unfinished([second]) == []


async def test_a_planner_that_leads_no_more_writes_nothing(app: Oncue) -> None:
    bench = await led(app)
    await bench.put("ann")
    later = bench.now + timedelta(days=500)
    await bench.store.leases.acquire(LEADER, uuid4(), "other", later, later + timedelta(days=1), respect=None)
    await bench.planner.tick(datetime(2030, 1, 2, 8, tzinfo=UTC))
    assert (await stored(app, "ann")).job_id is None


def around_noon(ahead: timedelta) -> tuple[str, str]:
    """A zone in which it is about noon, whatever the hour, and the time of day there that is so far ahead."""
    now = datetime.now(UTC)
    tz = f"Etc/GMT{now.hour - 12:+d}"
    return tz, (now.astimezone(ZoneInfo(tz)) + ahead).strftime("%H:%M")


@pytest.mark.contract("WIN-1")
async def test_running_now_takes_the_day_and_only_once(app: Oncue) -> None:
    tz, soon = around_noon(timedelta(hours=5))
    await app.windows.add("digest", "ann", at=soon, tz=tz)
    opened = await app.windows.run_now("digest", "ann")
    assert opened.job_id is not None
    assert opened.next_at == opened.cutoff_at
    with pytest.raises(Conflict, match="has its job already"):
        await app.windows.run_now("digest", "ann")
    await app.windows.remove("digest", "ann")
    assert (await app.jobs.get(opened.job_id)).state == "cancelled"


async def opened(app: Oncue, name: str) -> int:
    """The job of a subject's day that ends in two hours."""
    tz, ends_at = around_noon(timedelta(hours=2))
    await app.windows.add("digest", name, at=ends_at, tz=tz)
    job_id = (await app.windows.run_now("digest", name)).job_id
    assert job_id is not None
    return job_id


@pytest.mark.contract("WIN-1", "WIN-6")
async def test_a_retry_of_a_day_that_gave_up_is_the_days_job_from_then_on(app: Oncue) -> None:
    other, first = await opened(app, "bob"), await opened(app, "ann")
    await app.jobs.set_status(first, "failed")
    again = await app.jobs.retry(first, by="ops")
    assert (again.retry_of, again.state, again.subject, again.scheduled_for) == (
        *(first, "queued", "ann"),
        (await app.jobs.get(first)).scheduled_for,
    )
    assert (await stored(app, "ann")).job_id == again.id
    assert (await app.jobs.get(first)).state == "failed"
    with pytest.raises(Conflict, match=r"is for the day .* already"):
        await app.jobs.retry(first)
    await app.jobs.set_status(again.id, "success", by="ops")
    ann = await stored(app, "ann")
    assert (ann.last_date, ann.status) == (ann.day, "success")
    (slot,) = await app.windows.ledger("digest", "ann", start=ann.day, end=ann.day)
    assert (slot.job_id, slot.state) == (again.id, "succeeded")
    with pytest.raises(Conflict, match="is decided: success"):
        await app.jobs.retry(again.id)
    with pytest.raises(Conflict, match="is decided: success"):
        await app.jobs.set_status(again.id, "queued")
    assert (await app.jobs.get(other)).state == "queued", "the jobs of other subjects are left alone"
    assert "job.retry" in [entry.action for entry in await app.audit_log.list()]


@pytest.mark.contract("WIN-13", "WIN-6")
async def test_no_job_of_a_day_that_is_over_is_repeated(app: Oncue) -> None:
    job_id = await opened(app, "ann")
    await app.jobs.cancel(job_id)
    ann = await stored(app, "ann")
    store = (await app.internals.connected()).store
    now = datetime.now(UTC)
    over = dataclasses.replace(ann, cutoff_at=now, next_at=now)
    assert await store.windows.put([over], now) == [True]
    with pytest.raises(Conflict, match=r"the day .* was over at its cutoff"):
        await app.jobs.retry(job_id)
    await app.windows.remove("digest", "ann")
    with pytest.raises(Conflict, match="ann is no subject of window digest any more"):
        await app.jobs.retry(job_id)


async def test_old_days_are_pruned_with_their_counts_and_tombstones(app: Oncue) -> None:
    bench = await led(app)
    await bench.put("ann")
    await bench.plan(datetime(2030, 1, 2, 15, tzinfo=UTC))
    assert (await stored(app, "ann")).status == "cutoff_reached"
    await app.windows.remove("digest", "ann")
    await bench.store.windows.fold(100)
    assert await bench.store.windows.prune(datetime(2030, 1, 2, tzinfo=UTC), 100) == 0
    assert await bench.store.windows.prune(datetime(2040, 1, 1, tzinfo=UTC), 100) == 1
    assert await bench.store.windows.subjects(bench.window.id, ["ann"]) == []
    assert await bench.store.windows.day(bench.window.id, DAY) == []
