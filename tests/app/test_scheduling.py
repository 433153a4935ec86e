"""The verbs on schedules and slots, on both stores: what they do, what they refuse, and what they do at once."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import asyncpg
import pytest

from oncue import (
    Conflict,
    InvalidSchedule,
    Oncue,
    ScheduleNotFound,
    SlotTaken,
    StoreUnavailable,
    Task,
    UnknownTask,
    cron,
)
from oncue.engine.context import current_job
from oncue.errors import InvalidJob
from oncue.model import Decided, Schedule, Slot, Step
from oncue.sim.wire import Wire
from tests.app.conftest import MakeApp
from tests.app.watching import Watcher

YEARLY, HOURLY, MINUTELY = "0 0 1 1 *", "0 * * * *", "* * * * *"
EARLY = datetime(2020, 1, 1, tzinfo=UTC)
TICK = timedelta(microseconds=1)


@pytest.fixture
def report(app: Oncue) -> Task[..., None]:
    @app.task(queue="reports", priority=20, max_retries=5, deadline="1d")
    async def report(kind: str = "short", copies: int = 1) -> None: ...

    return report


async def made(app: Oncue, rule: str = YEARLY, **terms: Any) -> Schedule:
    return await app.schedules.create("nightly", rule, "report", **terms)


async def next_slot(app: Oncue, name: str = "nightly") -> datetime:
    return (await app.schedules.preview(name, 1))[0].scheduled_for


async def finished(app: Oncue, slot: Slot) -> None:
    """The slot's run is over, by an operator's hand."""
    assert slot.job_id is not None
    await app.jobs.cancel(slot.job_id)


async def wired(app: Oncue) -> Wire:
    """Put a wire that can break between the application and its database."""
    connection = await app.internals.connected()
    wire = Wire(connection.store, Random(1))
    connection.store = wire.as_store()
    return wire


# --- making ---------------------------------------------------------------------------------------------------------


@pytest.mark.contract("QUE-7")
async def test_a_schedule_has_everything_that_it_was_given(app: Oncue, report: Task[..., None]) -> None:
    before = await app.now()
    made = await app.schedules.create(
        "nightly", cron("30 2 * * *", tz="Europe/Berlin", dst="once"), report, {"kind": "long"},
        description="words", queue="slow", priority=70, missed="each", grace="10m", max_instances=4, created_by="ann",
    )  # fmt: skip
    assert (made.name, made.description, made.task, made.args) == ("nightly", "words", "report", '{"kind":"long"}')
    assert (made.expression, made.tz, made.dst) == ("30 2 * * *", "Europe/Berlin", "once")
    assert (made.queue, made.priority, made.missed, made.grace, made.max_instances) == ("slow", 70, "each", 600.0, 4)
    assert (made.enabled, made.revision, made.created_by, made.declared_by) == (True, 1, "ann", None)
    assert (made.max_retries, made.deadline, made.last_run_at, made.deleted_at) == (5, 86400.0, None, None)
    assert before <= made.created_at == made.updated_at == made.started_at == made.cursor
    assert made.next_run_at == await next_slot(app)
    assert await app.schedules.get("nightly") == made
    assert await app.schedules.list() == [made]
    (revision,) = await app.schedules.revisions("nightly")
    assert (revision.revision, revision.expression, revision.changed_by) == (1, "30 2 * * *", "ann")


async def test_what_is_not_given_is_the_tasks_own(app: Oncue, report: Task[..., None]) -> None:
    schedule = await made(app)
    assert (schedule.queue, schedule.priority, schedule.args) == ("reports", 20, "{}")
    assert (schedule.missed, schedule.grace, schedule.max_instances, schedule.tz) == ("latest", 300.0, 1, "UTC")


@pytest.mark.contract("QUE-7")
async def test_a_name_belongs_to_one_schedule(app: Oncue, report: Task[..., None]) -> None:
    await made(app)
    with pytest.raises(Conflict, match="there is a schedule 'nightly' already"):
        await made(app, HOURLY)
    racing = await asyncio.gather(
        *(app.schedules.create("contested", YEARLY, "report") for _ in range(8)), return_exceptions=True
    )
    assert sum(isinstance(one, Schedule) for one in racing) == 1
    assert all(isinstance(one, Schedule | Conflict) for one in racing)
    assert len(await app.schedules.revisions("contested")) == 1


async def test_schedules_are_listed_by_name_page_by_page(app: Oncue, report: Task[..., None]) -> None:
    for name in ("b", "a", "d", "c"):
        await app.schedules.create(name, YEARLY, "report")
    await app.schedules.delete("b")
    first = await app.schedules.list(limit=2)
    assert [one.name for one in first] == ["a", "c"]
    assert [one.name for one in await app.schedules.list(after="c")] == ["d"]


BAD_TERMS: list[tuple[str, dict[str, Any]]] = [
    ("name", {"name": ""}),
    ("name", {"name": "x" * 129}),
    ("name", {"name": "a\nb"}),
    ("name", {"name": 7}),
    ("expression", {"rule": "* * *"}),
    ("expression", {"rule": "61 * * * *"}),
    ("expression", {"rule": "0 0 30 2 *"}),
    ("expression", {"rule": 7}),
    ("expression", {"rule": None}),
    ("task", {"task": 7}),
    ("task", {"task": None}),
    ("args", {"args": [1, 2]}),
    ("args", {"args": "kind"}),
    ("copies", {"args": {"copies": "many"}}),
    ("arguments", {"args": {"color": "red"}}),
    ("description", {"description": 7}),
    ("description", {"description": "x" * 1001}),
    ("description", {"description": "a\x00b"}),
    ("description", {"description": "\ud800"}),
    ("queue", {"queue": "a b"}),
    ("priority", {"priority": 101}),
    ("missed", {"missed": "all"}),
    ("missed", {"missed": ["each"]}),
    ("grace", {"grace": -1}),
    ("grace", {"grace": "soon"}),
    ("grace", {"grace": float("nan")}),
    ("max_instances", {"max_instances": 0}),
    ("max_instances", {"max_instances": True}),
    ("max_instances", {"max_instances": 10_001}),
    ("enabled", {"enabled": "no"}),
    ("enabled", {"enabled": None}),
    ("created_by", {"created_by": " "}),
]


async def test_what_cannot_be_is_refused_by_name(app: Oncue, report: Task[..., None]) -> None:
    for field, terms in BAD_TERMS:
        given: dict[str, Any] = {"name": "nightly", "rule": YEARLY, "task": "report", **terms}
        with pytest.raises((InvalidSchedule, InvalidJob)) as refused:
            await app.schedules.create(**given)
        assert refused.value.field == field, terms
        assert str(refused.value).startswith(f"{field}: ")
    assert await app.schedules.list() == []


async def test_rules_of_other_kinds_are_refused_by_name(app: Oncue, report: Task[..., None]) -> None:
    for field, rule in (("tz", {"tz": "Mars/Olympus"}), ("dst", {"dst": "never"})):
        with pytest.raises(InvalidSchedule) as refused:
            await app.schedules.create("nightly", cron(YEARLY, **rule), "report")  # type: ignore[arg-type]
        assert refused.value.field == field
    with pytest.raises(UnknownTask, match="no task 'nobody' is declared; declared are: report"):
        await app.schedules.create("nightly", YEARLY, "nobody")


async def test_the_longest_durations_are_taken(app: Oncue, report: Task[..., None]) -> None:
    schedule = await made(app, MINUTELY, grace="36525d")
    slot = await app.schedules.trigger("nightly", await next_slot(app))
    assert schedule.grace == 36525 * 86400
    assert slot.state == "queued"


# --- changing -------------------------------------------------------------------------------------------------------


async def test_an_edit_is_a_revision_from_now_and_keeps_the_rest(app: Oncue, report: Task[..., None]) -> None:
    before = await made(app, HOURLY, args={"kind": "long"}, priority=70, grace=60)
    after = await app.schedules.change("nightly", rule=MINUTELY, changed_by="bob")
    assert (after.revision, after.version) == (2, before.version + 1)
    assert (after.expression, after.args, after.priority, after.grace) == (MINUTELY, '{"kind":"long"}', 70, 60.0)
    assert before.cursor <= after.cursor == after.started_at == after.updated_at
    second, first = await app.schedules.revisions("nightly")
    assert (first.expression, second.expression, second.changed_by) == (HOURLY, MINUTELY, "bob")
    assert second.started_at == after.started_at


async def test_the_same_again_is_no_revision(app: Oncue, report: Task[..., None]) -> None:
    before = await made(app)
    assert await app.schedules.change("nightly", rule=YEARLY, priority=20, grace="5m") == before
    described = await app.schedules.change("nightly", description="words")
    assert (described.description, described.revision, described.version) == ("words", 1, before.version + 1)
    assert len(await app.schedules.revisions("nightly")) == 1


async def test_an_expression_keeps_the_zone_unless_that_is_given_too(app: Oncue, report: Task[..., None]) -> None:
    await app.schedules.create("nightly", cron("30 2 * * *", tz="Europe/Berlin"), "report")
    assert (await app.schedules.change("nightly", rule="30 3 * * *")).tz == "Europe/Berlin"
    assert (await app.schedules.change("nightly", tz="Asia/Tokyo")).expression == "30 3 * * *"
    assert (await app.schedules.change("nightly", rule=cron("30 4 * * *"))).tz == "UTC"


async def test_an_edit_to_what_cannot_be_is_refused_by_name(app: Oncue, report: Task[..., None]) -> None:
    before = await made(app)
    given = [(field, terms) for field, terms in BAD_TERMS if not {"name", "enabled", "created_by"} & set(terms)]
    changes = [(field, terms) for field, terms in given if None not in terms.values()]
    for field, terms in [*changes, ("changed_by", {"changed_by": ""})]:
        with pytest.raises((InvalidSchedule, InvalidJob)) as refused:
            await app.schedules.change("nightly", **terms)
        assert refused.value.field == field, terms
    assert await app.schedules.get("nightly") == before


async def test_who_edits_at_once_loses_nothing(app: Oncue, report: Task[..., None]) -> None:
    """Each edit sees the one before it: no update is lost, and every revision has its number."""
    await made(app)
    await asyncio.gather(
        app.schedules.change("nightly", priority=1),
        app.schedules.change("nightly", grace=7),
        app.schedules.change("nightly", max_instances=9),
        app.schedules.toggle("nightly", False),
    )
    after = await app.schedules.get("nightly")
    assert (after.priority, after.grace, after.max_instances, after.enabled) == (1, 7.0, 9, False)
    assert [revision.revision for revision in await app.schedules.revisions("nightly")] == [5, 4, 3, 2, 1]


@pytest.mark.contract("SLOT-16")
async def test_slots_that_an_edit_overtakes_are_written_down(app: Oncue, report: Task[..., None]) -> None:
    """Nobody leads here, so nothing decides the slots but the edit itself."""
    connection = await app.internals.connected()
    start = connection.now()
    connection.now = lambda: start  # type: ignore[method-assign]
    await made(app, MINUTELY)
    taken = await app.schedules.trigger("nightly", await next_slot(app) + timedelta(minutes=3))
    connection.now = lambda: start + timedelta(minutes=10)  # type: ignore[method-assign]
    after = await app.schedules.change("nightly", rule=HOURLY)
    rows = await app.schedules.slots("nightly", start, start + timedelta(hours=1))
    assert [(row.verdict, row.slots) for row in rows] == [("missed", 3), ("manual", 1), ("missed", 6)]
    assert {row.revision for row in rows} == {1}
    assert rows[1] == taken
    assert after.cursor == start + timedelta(minutes=10)
    assert (await app.schedules.audit("nightly", start)).holds


async def test_disabling_and_enabling(app: Oncue, report: Task[..., None]) -> None:
    await made(app, MINUTELY)
    off = await app.schedules.toggle("nightly", False, changed_by="bob")
    assert (off.enabled, off.reason, off.next_run_at, off.revision) == (False, "disabled by hand", None, 2)
    assert await app.schedules.toggle("nightly", False) == off
    on = await app.schedules.toggle("nightly", True)
    assert (on.enabled, on.reason, on.revision) == (True, None, 3)
    assert on.next_run_at is not None
    assert on.cursor >= off.cursor
    made_off = await app.schedules.create("sleeping", YEARLY, "report", enabled=False)
    assert (made_off.enabled, made_off.reason, made_off.next_run_at) == (False, "disabled by hand", None)
    for wrong in ("no", 1, None):
        with pytest.raises(InvalidSchedule, match="enabled: expected True or False") as refused:
            await app.schedules.toggle("nightly", wrong)  # type: ignore[arg-type]
        assert refused.value.field == "enabled"


async def test_a_deleted_schedule_is_gone_and_its_ledger_is_not(app: Oncue, report: Task[..., None]) -> None:
    before = await made(app)
    at = await next_slot(app)
    slot = await app.schedules.trigger("nightly", at)
    await app.schedules.delete("nightly")
    assert await app.schedules.list() == []
    schedules = app.schedules
    for verb in (
        schedules.get("nightly"), schedules.change("nightly", priority=1), schedules.toggle("nightly", True),
        schedules.delete("nightly"), schedules.trigger("nightly", at), schedules.run_now("nightly"),
        schedules.preview("nightly"), schedules.backfill("nightly", EARLY, EARLY),
    ):  # fmt: skip
        with pytest.raises(ScheduleNotFound, match="there is no schedule 'nightly'"):
            await verb
    assert await app.schedules.slots("nightly", EARLY, at) == [slot]
    assert [revision.enabled for revision in await app.schedules.revisions("nightly")] == [False, True]
    await finished(app, slot)
    again = await app.schedules.create("nightly", YEARLY, "report", created_by="cid")
    assert (again.id, again.revision, again.deleted_at) == (before.id, 3, None)
    with pytest.raises(SlotTaken):
        await app.schedules.trigger("nightly", at)


async def test_what_does_not_exist_is_not_found(app: Oncue, report: Task[..., None]) -> None:
    for verb in (
        app.schedules.get,
        app.schedules.revisions,
        app.schedules.preview,
        app.schedules.audit,
        app.schedules.run_now,
        app.schedules.delete,
    ):
        with pytest.raises(ScheduleNotFound, match="there is no schedule 'nobody'"):
            await verb("nobody")


# --- by hand --------------------------------------------------------------------------------------------------------


@pytest.mark.contract("SLOT-11")
async def test_a_trigger_claims_its_slot_and_makes_its_job(app: Oncue, report: Task[..., None]) -> None:
    schedule = await made(app, args={"kind": "long"}, priority=66)
    at = await next_slot(app)
    slot = await app.schedules.trigger("nightly", at, by="ann")
    assert (slot.scheduled_for, slot.verdict, slot.reason, slot.state) == (at, "manual", "trigger", "queued")
    assert slot.job_id is not None
    job = await app.jobs.get(slot.job_id)
    assert (job.task, job.args, job.priority, job.enqueued_by) == ("report", {"kind": "long"}, 66, "ann")
    assert (job.schedule_id, job.scheduled_for, job.start_by) == (schedule.id, at, None)
    assert job.deadline_at is not None
    assert (await app.schedules.get("nightly")).last_run_at is not None


@pytest.mark.contract("SLOT-3", "SLOT-11")
async def test_a_slot_is_triggered_once_for_ever(app: Oncue, report: Task[..., None]) -> None:
    await made(app)
    at = await next_slot(app)
    slot = await app.schedules.trigger("nightly", at)
    await finished(app, slot)
    with pytest.raises(SlotTaken, match=rf"was decided at .*: manual \(trigger\), as job {slot.job_id}") as taken:
        await app.schedules.trigger("nightly", at)
    assert taken.value.job_id == slot.job_id
    assert len(await app.jobs.list()) == 1


@pytest.mark.contract("SLOT-11")
async def test_only_slots_can_be_triggered(app: Oncue, report: Task[..., None]) -> None:
    await made(app, HOURLY)
    at = await next_slot(app)
    with pytest.raises(InvalidSchedule, match=r"at: .* is no slot of 'nightly' \(0 \* \* \* \*\); near: ") as refused:
        await app.schedules.trigger("nightly", at + TICK)
    assert refused.value.field == "at"
    assert at.isoformat() in str(refused.value)
    for wrong in (at.replace(tzinfo=None), "2030-01-01", None, datetime(9500, 1, 1, tzinfo=UTC), datetime.min):
        with pytest.raises(InvalidSchedule) as refused:
            await app.schedules.trigger("nightly", wrong)  # type: ignore[arg-type]
        assert refused.value.field == "at"
    with pytest.raises(InvalidJob, match=r"^by: "):
        await app.schedules.trigger("nightly", at, by="")
    assert await app.jobs.list() == []


@pytest.mark.contract("SLOT-4")
async def test_an_instant_is_the_same_slot_in_every_zone(app: Oncue, report: Task[..., None]) -> None:
    await made(app, HOURLY, max_instances=2)
    at = await next_slot(app)
    slot = await app.schedules.trigger("nightly", at.astimezone(ZoneInfo("Asia/Tokyo")))
    assert slot.scheduled_for == at
    assert slot.scheduled_for.utcoffset() == timedelta(0)
    with pytest.raises(SlotTaken):
        await app.schedules.trigger("nightly", at)


@pytest.mark.contract("SLOT-3", "SLOT-11")
async def test_of_twenty_that_trigger_one_slot_one_gets_it(
    make_app: MakeApp, database_url: str, app: Oncue, report: Task[..., None]
) -> None:
    await made(app, max_instances=50)
    at = await next_slot(app)
    others = [make_app(database_url) for _ in range(3)]
    for other in others:
        other.internals.tasks = app.internals.tasks
    tries = [one.schedules.trigger("nightly", at, by=f"{number}") for number in range(5) for one in (app, *others)]
    answers = await asyncio.gather(*tries, return_exceptions=True)
    (slot,) = [answer for answer in answers if isinstance(answer, Slot)]
    refused = [answer for answer in answers if isinstance(answer, SlotTaken)]
    assert len(refused) == 19
    assert {answer.job_id for answer in refused} == {slot.job_id}
    assert [job.id for job in await app.jobs.list()] == [slot.job_id]


@pytest.mark.contract("SLOT-5", "SLOT-11")
async def test_of_ten_that_run_now_as_many_run_as_may(app: Oncue, report: Task[..., None]) -> None:
    await made(app, max_instances=3)
    answers = await asyncio.gather(*(app.schedules.run_now("nightly") for _ in range(10)), return_exceptions=True)
    ran = [answer for answer in answers if isinstance(answer, Slot)]
    refused = [answer for answer in answers if isinstance(answer, Conflict)]
    assert (len(ran), len(refused)) == (3, 7)
    assert not any(isinstance(answer, SlotTaken) for answer in refused)
    assert len({slot.scheduled_for for slot in ran}) == 3
    assert {answer.job_id for answer in refused} <= {slot.job_id for slot in ran}


async def test_many_slots_at_once_are_all_taken(app: Oncue, report: Task[..., None]) -> None:
    await made(app, MINUTELY, max_instances=100)
    first = await next_slot(app)
    slots = await asyncio.gather(*(app.schedules.trigger("nightly", first + timedelta(minutes=n)) for n in range(10)))
    assert len({slot.job_id for slot in slots}) == 10


@pytest.mark.contract("SLOT-5")
async def test_a_run_in_the_way_is_a_conflict_and_no_slot_is_taken(app: Oncue, report: Task[..., None]) -> None:
    await made(app, MINUTELY)
    at = await next_slot(app)
    slot = await app.schedules.trigger("nightly", at)
    for verb in (app.schedules.trigger("nightly", at + timedelta(minutes=1)), app.schedules.run_now("nightly")):
        with pytest.raises(Conflict, match=f"job {slot.job_id} is not finished: no slot was taken") as conflict:
            await verb
        assert conflict.value.job_id == slot.job_id
    await finished(app, slot)
    assert (await app.schedules.trigger("nightly", at + timedelta(minutes=1))).state == "queued"
    assert len(await app.jobs.list()) == 2


@pytest.mark.contract("SLOT-11")
async def test_running_now_is_an_extra_slot(app: Oncue, report: Task[..., None]) -> None:
    connection = await app.internals.connected()
    noon = connection.now().replace(second=0, microsecond=0)
    connection.now = lambda: noon  # type: ignore[method-assign]
    await made(app, MINUTELY, max_instances=9)
    slots = [await app.schedules.run_now("nightly", by="ann") for _ in range(3)]
    assert [slot.scheduled_for for slot in slots] == [noon + TICK, noon + 2 * TICK, noon + 3 * TICK]
    assert {(slot.verdict, slot.reason, slot.state) for slot in slots} == {("manual", "run_now", "queued")}
    later = noon + timedelta(minutes=1)
    connection.now = lambda: later  # type: ignore[method-assign]
    found = await app.schedules.audit("nightly", noon)
    assert found.counts() == {"manual": 3, "pending": 1}


async def test_a_disabled_schedule_can_be_run_by_hand(app: Oncue, report: Task[..., None]) -> None:
    await made(app, enabled=False)
    assert (await app.schedules.run_now("nightly")).state == "queued"


@pytest.mark.contract("SLOT-11")
@pytest.mark.parametrize("verb", ["slots.decide", "slots.between", "schedules.get", "slots.unfinished"])
@pytest.mark.parametrize("manner", ["trigger", "run_now"])
async def test_a_lost_reply_doubles_nothing(app: Oncue, report: Task[..., None], verb: str, manner: str) -> None:
    await made(app)
    at = await next_slot(app)
    call: Callable[[], Any] = {
        "trigger": lambda: app.schedules.trigger("nightly", at),
        "run_now": lambda: app.schedules.run_now("nightly"),
    }[manner]
    wire = await wired(app)
    wire.lose_reply(verb)
    slot = await call()
    assert slot.state == "queued"
    assert [job.id for job in await app.jobs.list()] == [slot.job_id]
    assert len(await app.schedules.slots("nightly", EARLY, at)) == 1


async def test_a_database_that_stays_away_is_told(app: Oncue, report: Task[..., None]) -> None:
    await made(app)
    at = await next_slot(app)
    wire = await wired(app)
    wire.down = True
    with pytest.raises(StoreUnavailable):
        await app.schedules.trigger("nightly", at)
    wire.down = False
    assert await app.jobs.list() == []
    assert (await app.schedules.trigger("nightly", at)).state == "queued"


async def test_the_last_of_its_tries_counts(
    app: Oncue, report: Task[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncue.verbs.base.MOST_TRIES", 1)
    await made(app)
    assert (await app.schedules.trigger("nightly", await next_slot(app))).state == "queued"


# --- backfill -------------------------------------------------------------------------------------------------------


async def test_a_backfill_makes_what_is_absent_and_nothing_twice(app: Oncue, report: Task[..., None]) -> None:
    await made(app, MINUTELY)
    end = (await app.now()).replace(second=0, microsecond=0) - timedelta(hours=1)
    start = end - timedelta(minutes=9)
    early = await app.schedules.trigger("nightly", start + timedelta(minutes=4))
    heard: list[tuple[int, int]] = []
    filled = await app.schedules.backfill("nightly", start, end, by="ann", told=lambda *told: heard.append(told))
    assert (len(filled.jobs), filled.present) == (9, 1)
    assert heard == [(10, 10)]
    rows = await app.schedules.slots("nightly", start, end)
    assert [row.scheduled_for for row in rows] == [start + timedelta(minutes=n) for n in range(10)]
    assert {row.reason for row in rows} == {"backfill", "trigger"}
    assert {row.state for row in rows} == {"scheduled", "queued"}
    assert rows[4] == early
    assert {(await app.jobs.get(job)).enqueued_by for job in filled.jobs} == {"ann"}
    again = await app.schedules.backfill("nightly", start, end)
    assert (list(again.jobs), again.present) == ([], 10)
    wider = await app.schedules.backfill("nightly", start - timedelta(minutes=2), end)
    assert (len(wider.jobs), wider.present) == (2, 10)


async def test_backfills_at_once_make_each_slot_once(app: Oncue, report: Task[..., None]) -> None:
    await made(app, MINUTELY)
    end = (await app.now()).replace(second=0, microsecond=0) - timedelta(hours=1)
    start = end - timedelta(minutes=49)
    filled = await asyncio.gather(*(app.schedules.backfill("nightly", start, end) for _ in range(5)))
    assert sorted(len(one.jobs) for one in filled) == [0, 0, 0, 0, 50]
    assert len(await app.jobs.list()) == 50


async def test_a_backfill_whose_reply_was_lost_is_finished_by_the_next(app: Oncue, report: Task[..., None]) -> None:
    await made(app, MINUTELY)
    end = (await app.now()).replace(second=0, microsecond=0) - timedelta(hours=1)
    start = end - timedelta(minutes=9)
    wire = await wired(app)
    wire.lose_reply("slots.decide")
    with pytest.raises(StoreUnavailable):
        await app.schedules.backfill("nightly", start, end)
    await app.schedules.backfill("nightly", start, end)
    assert len(await app.jobs.list()) == 10


async def test_a_backfill_of_what_cannot_be_is_refused_by_name(app: Oncue, report: Task[..., None]) -> None:
    await made(app, "* * * * * *")
    now = await app.now()
    hour = timedelta(hours=1)
    for field, start, end in (
        ("end", now, now + hour),
        ("start", now - hour, now - 2 * hour),
        ("start", now - 48 * hour, now),
        ("start", now.replace(tzinfo=None), now),
        ("end", now - hour, "now"),
    ):
        with pytest.raises(InvalidSchedule) as refused:
            await app.schedules.backfill("nightly", start, end)  # type: ignore[arg-type]
        assert refused.value.field == field
    assert await app.jobs.list() == []


@pytest.mark.contract("SLOT-3")
async def test_what_the_ledger_no_longer_keeps_is_never_run_again(app: Oncue, report: Task[..., None]) -> None:
    await made(app, HOURLY)
    connection = await app.internals.connected()
    end = connection.now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    start = end - timedelta(hours=9)
    for job in (await app.schedules.backfill("nightly", start, end)).jobs:
        await app.jobs.cancel(job)
    await app.jobs.prune(0)
    horizon = start + timedelta(hours=5)
    assert await connection.store.slots.prune(horizon, 1000) == 5
    assert (await app.schedules.get("nightly")).horizon == horizon
    with pytest.raises(SlotTaken, match="up to which the ledger is no longer kept: it cannot be told whether it ran"):
        await app.schedules.trigger("nightly", start)
    with pytest.raises(InvalidSchedule, match=r"start: expected .* or later: before, the ledger is not kept"):
        await app.schedules.backfill("nightly", start, end)
    assert (await app.schedules.backfill("nightly", horizon, end)).present == 5
    found = await app.schedules.audit("nightly", start)
    assert found.holds
    assert found.notes == (f"slots from before {horizon.isoformat()} are no longer kept",)
    assert await app.jobs.list() == []


@pytest.mark.contract("SLOT-3", "SLOT-16")
async def test_a_run_of_missed_slots_takes_no_slot_of_a_later_rule(app: Oncue, report: Task[..., None]) -> None:
    """Every fourth minute was missed for an hour; then the rule was edited to every minute."""
    connection = await app.internals.connected()
    start = connection.now().replace(minute=0, second=0, microsecond=0)

    def minute(number: int) -> datetime:
        return start + timedelta(minutes=number)

    connection.now = lambda: start  # type: ignore[method-assign]
    await made(app, "*/4 * * * *")
    connection.now = lambda: minute(60)  # type: ignore[method-assign]
    await app.schedules.change("nightly", rule=MINUTELY)
    (run,) = await app.schedules.slots("nightly", start, minute(60))
    assert (run.scheduled_for, run.until, run.slots) == (minute(4), minute(60), 15)

    for old in (4, 8, 60):
        with pytest.raises(SlotTaken, match=r": missed \(the schedule was changed before"):
            await app.schedules.trigger("nightly", minute(old))
    new = await app.schedules.trigger("nightly", minute(9))
    assert (new.scheduled_for, new.reason) == (minute(9), "trigger")
    with pytest.raises(SlotTaken, match="manual"):
        await app.schedules.trigger("nightly", minute(9))

    wanted = [minute(number) for number in (3, 5, 6, 7, 10, 11)]
    assert await app.schedules.undecided("nightly", minute(3), minute(12)) == wanted
    filled = await app.schedules.backfill("nightly", minute(3), minute(12))
    assert (len(filled.jobs), filled.present) == (6, 4)
    assert [(await app.jobs.get(job)).scheduled_for for job in filled.jobs] == wanted
    assert list((await app.schedules.backfill("nightly", minute(3), minute(12))).jobs) == []

    found = await app.schedules.audit("nightly", start)
    assert (found.holds, found.counts()) == (True, {"missed": 15, "manual": 7})
    for number, told in ((8, "missed"), (9, "manual"), (10, "manual"), (13, "never_a_slot")):
        assert (await app.schedules.explain_slot("nightly", minute(number))).status == told


async def test_a_backfill_over_many_rows_of_another_rule_is_brisk(
    app: Oncue, report: Task[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand new slots between a thousand runs of old ones, which come in many pages."""
    connection = await app.internals.connected()
    start = connection.now().replace(minute=0, second=0, microsecond=0) - timedelta(days=3)

    def minute(number: int) -> datetime:
        return start + timedelta(minutes=number)

    connection.now = lambda: start  # type: ignore[method-assign]
    first = await made(app, "0-1,3-4 * * * *", max_instances=50)
    rows = [Decided(minute(3 * n + 1), "missed", "misfire", until=minute(3 * n + 2), slots=2) for n in range(1000)]
    step = Step(first.id, first.version, minute(3000), minute(3001), rows)
    assert await connection.store.slots.decide([step], minute(3000), by="tests") == [True]
    connection.now = lambda: minute(3000)  # type: ignore[method-assign]
    await app.schedules.change("nightly", rule="*/3 * * * *")
    monkeypatch.setattr("oncue.verbs.schedules.reading.LEDGER_PAGE", 100)
    asked: Counter[str] = Counter()
    wire = await wired(app)
    passed_on = wire.pass_on

    async def count(verb: str, *rest: Any) -> Any:
        asked[verb] += 1
        return await passed_on(verb, *rest)

    wire.pass_on = count  # type: ignore[method-assign]
    assert len((await app.schedules.backfill("nightly", minute(0), minute(2997))).jobs) == 1000
    assert (asked["slots.between"], asked["schedules.revisions"], asked["slots.decide"]) == (11, 1, 1)


# --- looking --------------------------------------------------------------------------------------------------------


async def test_a_preview_shows_what_the_time_zone_does(app: Oncue, report: Task[..., None]) -> None:
    await app.schedules.create("nightly", cron("30 2 * * *", tz="Europe/Berlin"), "report")
    shown = await app.schedules.preview("nightly", 3, datetime(2030, 3, 30, tzinfo=UTC))
    assert [(fire.scheduled_for.isoformat(), fire.mark) for fire in shown] == [
        ("2030-03-30T01:30:00+00:00", None),
        ("2030-03-31T01:00:00+00:00", "gap"),
        ("2030-04-01T00:30:00+00:00", None),
    ]
    assert [fire.local.hour for fire in shown] == [2, 3, 2]
    assert len(await app.schedules.preview("nightly")) == 10
    await app.schedules.toggle("nightly", False)
    assert len(await app.schedules.preview("nightly", 5)) == 5
    for wrong in (0, -1, 10_001, True, "3", 2.5):
        with pytest.raises(InvalidSchedule, match="count: expected a whole number") as refused:
            await app.schedules.preview("nightly", wrong)  # type: ignore[arg-type]
        assert refused.value.field == "count"


@pytest.mark.contract("SLOT-16")
async def test_the_audit_names_a_row_that_somebody_deleted(app: Oncue, report: Task[..., None]) -> None:
    connection = await app.internals.connected()
    start = connection.now()
    connection.now = lambda: start  # type: ignore[method-assign]
    schedule = await made(app, MINUTELY)
    first = await next_slot(app)
    connection.now = lambda: start + timedelta(minutes=10)  # type: ignore[method-assign]
    assert (await app.schedules.audit("nightly", start)).counts() == {"pending": 10}
    for number in range(3):
        await finished(app, await app.schedules.trigger("nightly", first + timedelta(minutes=number)))
    await app.schedules.toggle("nightly", False)
    assert (await app.schedules.audit("nightly", start)).counts() == {"manual": 3, "missed": 7}
    assert (await app.schedules.audit("nightly", first, first)).counts() == {"manual": 1}
    await delete_slot(app.settings.database_url, schedule.id, first + timedelta(minutes=1))
    found = await app.schedules.audit("nightly", start)
    assert [(fate.scheduled_for, fate.verdict) for fate in found.problems] == [
        (first + timedelta(minutes=1), "unaccounted")
    ]


async def delete_slot(url: str, schedule_id: int, at: datetime) -> None:
    """A hand in the ledger itself, on either store."""
    statement = "delete from oncue_slots where schedule_id = {} and scheduled_for = {}"
    if url.startswith("postgres"):
        connection = await asyncpg.connect(url)
        assert await connection.execute(statement.format("$1", "$2"), schedule_id, at) == "DELETE 1"
        await connection.close()
        return
    file = sqlite3.connect(url.removeprefix("sqlite:///"))
    with file:
        micros = (at - datetime(1970, 1, 1, tzinfo=UTC)) // TICK
        assert file.execute(statement.format("?", "?"), (schedule_id, micros)).rowcount == 1
    file.close()


async def test_an_audit_of_what_cannot_be_is_refused_by_name(app: Oncue, report: Task[..., None]) -> None:
    await made(app)
    now = await app.now()
    for field, start, end in (
        ("start", now, now - timedelta(hours=1)),
        ("start", now + timedelta(days=1), None),
        ("start", "yesterday", None),
        ("end", None, now.replace(tzinfo=None)),
    ):
        with pytest.raises(InvalidSchedule) as refused:
            await app.schedules.audit("nightly", start, end)  # type: ignore[arg-type]
        assert refused.value.field == field


async def test_an_audit_during_an_edit_raises_no_alarm(app: Oncue, report: Task[..., None]) -> None:
    """Between any two of its looks the schedule is edited, and a slot fires under the new revision."""
    connection = await app.internals.connected()
    real, start = connection.store, connection.now().replace(minute=0, second=0, microsecond=0)

    def minute(number: int) -> datetime:
        return start + timedelta(minutes=number)

    async def edit_and_fire(name: str) -> None:
        connection.now = lambda: minute(5)  # type: ignore[method-assign]
        edited = await app.schedules.change(name, rule="*/2 * * * *", changed_by="bob")
        (job,) = await connection.ids(1)
        step = Step(edited.id, edited.version, minute(6), minute(8), [Decided(minute(6), "fired", None, job)])
        assert await real.slots.decide([step], minute(6), by="schedule") == [True]
        connection.now = lambda: minute(7)  # type: ignore[method-assign]

    for verb in ("schedules.get", "slots.between", "slots.doubled", "schedules.revisions"):
        name = f"edited before {verb}"
        connection.now = lambda: start  # type: ignore[method-assign]
        await app.schedules.create(name, MINUTELY, "report")
        connection.now = lambda: minute(7)  # type: ignore[method-assign]
        wire = await wired(app)
        passed_on = wire.pass_on

        async def meddle(asked: str, *rest: Any, verb: str = verb, name: str = name, passed_on: Any = passed_on) -> Any:
            if asked == verb:
                connection.store = real
                await edit_and_fire(name)
            return await passed_on(asked, *rest)

        wire.pass_on = meddle  # type: ignore[method-assign]
        found = await app.schedules.audit(name, start)
        assert connection.store is real, "somebody meddled"
        assert found.holds, (verb, found.problems)
        assert (await app.schedules.audit(name, start)).counts() == {"missed": 5, "fired": 1}


@pytest.mark.parametrize("limit", [0, -1, 10**9])
async def test_a_listing_without_bounds_is_refused(app: Oncue, report: Task[..., None], limit: int) -> None:
    await made(app)
    with pytest.raises(ValueError, match="limit: expected a whole number from 1 to 100,000"):
        await app.schedules.list(limit=limit)
    with pytest.raises(ValueError, match="limit: expected a whole number from 1 to 100,000"):
        await app.schedules.slots("nightly", EARLY, EARLY, limit)
    with pytest.raises(ValueError, match="count: expected a whole number from 1 to 100,000"):
        await app.schedules.latest_slots("nightly", limit)


# --- running --------------------------------------------------------------------------------------------------------


@pytest.mark.contract("SLOT-4")
async def test_a_handler_is_told_its_slot(app: Oncue) -> None:
    told: dict[str, Any] = {}

    @app.task
    async def by_parameter(slot: datetime, kind: str = "short") -> None:
        told["parameter"] = (slot, kind)

    @app.task
    def by_asking() -> None:
        told["asking"] = current_job().slot

    @app.task
    async def without() -> None:
        told["without"] = current_job().slot

    await app.schedules.create("one", YEARLY, by_parameter, {"kind": "long"})
    await app.schedules.create("two", YEARLY, by_asking)
    one = await app.schedules.trigger("one", await next_slot(app, "one"))
    two = await app.schedules.run_now("two")
    plain = await without.aenqueue()
    assert one.job_id is not None
    assert two.job_id is not None
    watcher = Watcher(app)
    async with app.worker():
        jobs = await watcher.ended([one.job_id, two.job_id, plain.id])
    assert [job.state for job in jobs] == ["succeeded"] * 3
    assert told == {"parameter": (one.scheduled_for, "long"), "asking": two.scheduled_for, "without": None}


@pytest.mark.contract("SLOT-5")
async def test_a_worker_fires_slots_and_runs_a_backfill(app: Oncue) -> None:
    ran: list[datetime] = []

    @app.task
    async def note(slot: datetime) -> None:
        ran.append(slot)

    await app.schedules.create("often", "@every 1s", note, missed="each", max_instances=5)
    await app.schedules.create("filled", MINUTELY, note)
    end = (await app.now()) - timedelta(hours=1)
    filled = await app.schedules.backfill("filled", end - timedelta(minutes=3), end)
    watcher = Watcher(app)
    fired = asyncio.Event()
    app.internals.telemetry.subscribe(lambda _, __, told: fired.set() if told["schedule"] == "often" else None, "slot")
    async with app.worker():
        await watcher.ended(filled.jobs)
        async with asyncio.timeout(60):
            await fired.wait()
    past = [slot for slot in ran if slot <= end]
    assert past == sorted(past)
    assert len(past) == len(filled.jobs) == 3
    assert (await app.schedules.audit("often")).holds


@pytest.mark.contract("QUE-16")
async def test_a_schedule_may_get_another_name(app: Oncue, report: Task[..., None]) -> None:
    first = await made(app)
    await app.schedules.create("second", YEARLY, "report")
    with pytest.raises(Conflict, match="name of schedule"):
        await app.schedules.change("nightly", new_name="second", priority=9)
    renamed = await app.schedules.change("nightly", new_name="third", priority=7, enabled=False)
    assert (renamed.id, renamed.name, renamed.priority, renamed.enabled) == (first.id, "third", 7, False)
    assert [revision.revision for revision in await app.schedules.revisions("third")] == [2, 1], (
        "one edit, one revision"
    )
    with pytest.raises(ScheduleNotFound):
        await app.schedules.get("nightly")
    assert (await app.schedules.change("third", new_name="nightly")).id == first.id


# --- looking ahead of an edit, and for schedules ----------------------------------------------------------------------


async def test_a_preview_of_an_edit_tells_which_slots_go_stay_and_come(app: Oncue, report: Task[..., None]) -> None:
    before = await made(app, "0 9,17 * * *")
    found = await app.schedules.preview_change("nightly", count=4, rule="0 9,12 * * *")
    assert found.is_revision
    assert found.given_up == 0
    assert {one.fire.local.hour: one.stays for one in found.going} == {9: True, 17: False}
    assert {one.fire.local.hour: one.stays for one in found.coming} == {9: True, 12: False}
    assert len(found.going) == len(found.coming) == 4
    assert await app.schedules.get("nightly") == before
    assert len(await app.schedules.revisions("nightly")) == 1


async def test_a_preview_of_an_edit_that_changes_no_slot(app: Oncue, report: Task[..., None]) -> None:
    await made(app, "0 9 * * *")
    same = await app.schedules.preview_change("nightly", rule="0 9 * * *")
    assert not same.is_revision
    found = await app.schedules.preview_change("nightly", priority=70, description="later")
    assert found.is_revision
    assert found.after.priority == 70
    assert all(one.stays for one in (*found.going, *found.coming))


async def test_a_preview_of_an_edit_is_refused_as_the_edit_would_be(app: Oncue, report: Task[..., None]) -> None:
    await made(app)
    for terms, wrong in (
        ({"rule": "0 25 * * *"}, "expression"),
        ({"tz": "Europe/Berlinn"}, "tz"),
        ({"grace": "soon"}, "grace"),
        ({"args": {"pages": 3}}, "arguments"),
        ({"priority": 101}, "priority"),
    ):
        with pytest.raises((InvalidSchedule, InvalidJob)) as refused:
            await app.schedules.preview_change("nightly", **terms)  # type: ignore[arg-type]
        assert refused.value.field == wrong


async def test_a_preview_of_an_edit_counts_the_slots_that_it_gives_up_on(app: Oncue, report: Task[..., None]) -> None:
    stored = await made(app, "* * * * *")
    await passed(app, stored, minutes=3)
    found = await app.schedules.preview_change("nightly", rule="0 9 * * *")
    assert found.given_up == 3


async def passed(app: Oncue, stored: Schedule, minutes: int) -> None:
    """Nothing was decided for so long."""
    connected = await app.internals.connected()
    since = connected.now() - timedelta(minutes=minutes)
    step = Step(stored.id, stored.version, since, since, ())
    assert await connected.store.slots.decide([step], since, by="tests") == [True]


async def test_schedules_are_searched_by_the_beginning_of_their_names(app: Oncue, report: Task[..., None]) -> None:
    for name in ("a1", "b", "b-1", "b/2", "c", "bb"):
        await app.schedules.create(name, YEARLY, report, enabled=name != "b-1")
    found = await app.schedules.find(prefix="b")
    assert {one.name for one in found.schedules} == {"b", "b-1", "b/2", "bb"}
    assert found.go_on is None
    assert [one.name for one in (await app.schedules.find(enabled=False)).schedules] == ["b-1"]
    assert [one.name for one in (await app.schedules.find(prefix="b", enabled=False)).schedules] == ["b-1"]
    first = await app.schedules.find(prefix="b", limit=3)
    assert first.go_on == first.schedules[-1].name
    rest = await app.schedules.find(prefix="b", limit=3, after=first.go_on)
    assert {one.name for one in (*first.schedules, *rest.schedules)} == {"b", "b-1", "b/2", "bb"}
    assert rest.go_on is None
    await app.schedules.delete("b")
    assert "b" not in {one.name for one in (await app.schedules.find(prefix="b")).schedules}


async def test_a_search_that_finds_few_says_where_it_would_go_on(
    app: Oncue, report: Task[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncue.verbs.schedules.reading.MOST_LOOKED_AT", 4)
    monkeypatch.setattr("oncue.verbs.schedules.reading.SEARCH_PAGE", 2)
    for number in range(6):
        await app.schedules.create(f"s{number}", YEARLY, report, enabled=number < 5)
    found = await app.schedules.find(enabled=False)
    assert found == ([], "s3")
    assert found.go_on is not None
    (last,) = (await app.schedules.find(enabled=False, after=found.go_on)).schedules
    assert last.name == "s5"


async def test_schedules_by_their_next_slot(app: Oncue, report: Task[..., None]) -> None:
    for name, rule in (("yearly", YEARLY), ("minutely", MINUTELY), ("off", MINUTELY)):
        await app.schedules.create(name, rule, report, enabled=name != "off")
    found = await app.schedules.coming()
    assert [one.name for one in found] == ["minutely", "yearly"]
    assert found[0].next_run_at is not None
    assert await app.schedules.coming(after=(found[0].next_run_at, found[0].id)) == found[1:]


async def test_the_latest_slots_of_several_schedules_and_those_before(app: Oncue, report: Task[..., None]) -> None:
    one, other = await made(app), await app.schedules.create("idle", YEARLY, report)
    first = await app.schedules.trigger("nightly", await next_slot(app))
    await finished(app, first)
    second = await app.schedules.run_now("nightly")
    found = await app.schedules.latest_slots_of([one, other], 1)
    assert [slot.scheduled_for for slot in found[one.id]] == [first.scheduled_for]
    assert found[other.id] == []
    (before,) = await app.schedules.latest_slots("nightly", 9, before=first.scheduled_for)
    assert before.scheduled_for == second.scheduled_for
    assert await app.schedules.latest_slots_of([]) == {}
