"""A task's own key: one unfinished job for each, by whatever way it was asked for."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from typing import Any

import pytest

from oncue import Conflict, InvalidJob, Oncue, Task, cron
from oncue.verbs.schedules.declaring import Declaring
from tests.app.conftest import MakeApp
from tests.app.firing import fire

HOURLY = cron("0 * * * *")


@pytest.fixture
def crawl(app: Oncue) -> Task[[int, str], None]:
    @app.task(key=lambda subreddit_id: f"community:{subreddit_id}")
    def crawl(subreddit_id: int, mode: str = "all") -> None: ...

    return crawl


async def unfinished(app: Oncue) -> list[tuple[int, str | None]]:
    return sorted((job.id, job.key) for job in await app.jobs.list() if not job.finished)


async def fired_at(app: Oncue, name: str) -> list[Any]:
    """Fire the slot that comes next, as the leader would; the schedule's slots."""
    connected = await app.internals.connected()
    next_run_at = (await app.schedules.get(name)).next_run_at
    assert next_run_at is not None
    await fire(connected.store, next_run_at)
    return await app.schedules.slots(name, next_run_at, next_run_at)


@pytest.mark.contract("QUE-3")
async def test_every_enqueue_of_the_task_has_it(app: Oncue, crawl: Task[[int, str], None]) -> None:
    first = await crawl.aenqueue(7)
    again = [
        await crawl.aenqueue(subreddit_id=7, mode="new"),
        await crawl.using(priority=60, delay="1h").aenqueue(7),
        *await crawl.aenqueue_many([7, (7, "old"), {"subreddit_id": "7"}, 7.0]),
    ]
    assert [(one.id, one.created) for one in again] == [(first.id, False)] * 6
    assert await unfinished(app) == [(first.id, "community:7")]
    assert [one.created for one in await crawl.aenqueue_many([8, 9, 8])] == [True, True, False]


@pytest.mark.contract("QUE-3")
def test_so_has_one_in_a_callers_transaction(make_app: MakeApp, tmp_path: Any) -> None:
    app = make_app(f"sqlite:///{tmp_path}/shop.db")

    @app.task(key=lambda n: f"n:{n}")
    def work(n: int) -> None: ...

    first = work.enqueue(1)
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        receipts = work.using(on=connection).enqueue_many([1, 2, 2])
    connection.close()
    assert [receipt.created for receipt in receipts] == [False, True, False]
    assert receipts[0].id == first.id


@pytest.mark.contract("QUE-3")
async def test_a_key_by_the_way_is_refused_so_that_the_tasks_own_always_holds(
    app: Oncue, crawl: Task[[int, str], None]
) -> None:
    with pytest.raises(InvalidJob, match="key: expected none: the task crawl declares a key of its own"):
        crawl.using(key="mine")
    assert await unfinished(app) == []


@pytest.mark.parametrize(
    ("key", "complaint"),
    [
        (lambda n: 1 / n, "key: the key of work raised ZeroDivisionError: division by zero"),
        (lambda n: n, "key: expected a text of 1 to 512 characters, not 0"),
        (lambda n: "", "key: expected a text of 1 to 512 characters, not ''"),
        (lambda n: None, "key: expected a text of 1 to 512 characters, not None"),
    ],
)
async def test_a_key_that_cannot_be_told_is_an_invalid_job(app: Oncue, key: Any, complaint: str) -> None:
    @app.task(key=key)
    def work(n: int) -> None: ...

    with pytest.raises(InvalidJob) as refused:
        await work.aenqueue(0)
    assert str(refused.value) == complaint
    with pytest.raises(ValueError, match=complaint.partition(":")[0]):
        await app.schedules.create("hourly", HOURLY, work, {"n": 0})
    assert await app.jobs.list() == []


def test_a_key_is_a_function_of_the_tasks_own_arguments(app: Oncue) -> None:
    def work(n: int, slot: Any = None) -> None: ...

    for key, complaint in (
        ("text", "key: expected a plain function"),
        (lambda m: "k", r"key: expected parameters that the task has too \(n, slot\), not m"),
        (lambda *n: "k", r"key: expected parameters with the names of the task's own, not \*n"),
        (lambda n, /: "k", "key: expected parameters with the names of the task's own, not n"),
        (str, "key: expected a function whose parameters are known, not <class 'str'>"),
    ):
        with pytest.raises(ValueError, match=complaint):
            app.task(key=key)(work)  # type: ignore[call-overload]
    app.task(key=lambda n, salt="x": f"{n}{salt}")(work)
    app.task(key=lambda **all: str(sorted(all)), name="wide")(work)


# --- schedules ------------------------------------------------------------------------------------------------------


@pytest.mark.contract("QUE-3", "SLOT-5")
async def test_a_slot_whose_key_is_held_is_skipped_with_the_job_in_the_way(
    app: Oncue, crawl: Task[[int, str], None]
) -> None:
    made = await app.schedules.create("hourly", HOURLY, crawl, {"subreddit_id": 7})
    assert made.key == "community:7"
    receipt = await crawl.using(delay="30d").aenqueue(7)
    (slot,) = await fired_at(app, "hourly")
    assert (slot.verdict, slot.reason, slot.blocked_by, slot.job_id) == ("skipped", "key_held", receipt.id, None)
    (told, *_) = (await app.schedules.explain_slot("hourly", slot.scheduled_for)).findings
    assert f"the key of its job was held by the unfinished job {receipt.id}, which is scheduled now" in told.text
    await app.jobs.cancel(receipt.id)
    (slot,) = await fired_at(app, "hourly")
    assert slot.verdict == "fired"
    again = await crawl.aenqueue(7)
    assert (again.id, again.created) == (slot.job_id, False)


@pytest.mark.contract("QUE-3")
async def test_of_schedules_that_share_a_key_one_fires(app: Oncue, crawl: Task[[int, str], None]) -> None:
    for name in ("one", "two", "three"):
        await app.schedules.create(name, HOURLY, crawl, {"subreddit_id": 7})
    await app.schedules.create("other", HOURLY, crawl, {"subreddit_id": 8})
    at = (await fired_at(app, "one"))[0].scheduled_for
    verdicts = [(await app.schedules.slots(name, at, at))[0] for name in ("one", "two", "three", "other")]
    assert sorted(slot.verdict for slot in verdicts) == ["fired", "fired", "skipped", "skipped"]
    (made,) = {slot.job_id for slot in verdicts[:3] if slot.job_id is not None}
    assert {slot.blocked_by for slot in verdicts[:3] if slot.verdict == "skipped"} == {made}


@pytest.mark.contract("QUE-3", "SLOT-5")
async def test_by_hand_a_held_key_is_a_conflict_and_takes_no_slot(app: Oncue, crawl: Task[[int, str], None]) -> None:
    await app.schedules.create("hourly", HOURLY, crawl, {"subreddit_id": 7})
    receipt = await crawl.aenqueue(7)
    now = await app.now()
    past = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    for attempt in (
        app.schedules.run_now("hourly"),
        app.schedules.trigger("hourly", past),
        app.schedules.backfill("hourly", past, past + timedelta(hours=1)),
    ):
        with pytest.raises(Conflict, match=f"job {receipt.id} is not finished and has the key") as refused:
            await attempt
        assert refused.value.job_id == receipt.id
    assert await app.schedules.latest_slots("hourly") == []
    await app.jobs.cancel(receipt.id)
    assert (await app.schedules.trigger("hourly", past)).verdict == "manual"


@pytest.mark.contract("QUE-3")
async def test_of_a_backfill_one_job_stands_for_all_slots(app: Oncue, crawl: Task[[int, str], None]) -> None:
    await app.schedules.create("hourly", HOURLY, crawl, {"subreddit_id": 7})
    now = await app.now()
    last = now.replace(minute=0, second=0, microsecond=0)
    done = await app.schedules.backfill("hourly", last - timedelta(hours=3), last)
    assert (len(done.jobs), done.present, done.skipped) == (1, 0, 3)
    slots = await app.schedules.slots("hourly", last - timedelta(hours=3), last)
    assert [(slot.verdict, slot.blocked_by) for slot in slots] == [("manual", None), *[("skipped", done.jobs[0])] * 3]
    assert await unfinished(app) == [(done.jobs[0], "community:7")]
    again = await app.schedules.backfill("hourly", last - timedelta(hours=3), last)
    assert (list(again.jobs), again.present, again.skipped) == ([], 4, 0)


async def test_a_schedules_key_cannot_name_the_slot(app: Oncue) -> None:
    @app.task(key=lambda slot: str(slot))
    def work(slot: Any) -> None: ...

    with pytest.raises(InvalidJob, match="key: the key of work depends on the slot"):
        await app.schedules.create("hourly", HOURLY, work)


@pytest.mark.contract("QUE-3")
async def test_schedules_from_before_the_key_was_declared_get_it_when_a_worker_starts(
    make_app: MakeApp, database_url: str
) -> None:
    before, after = make_app(database_url), make_app(database_url)

    def crawl(subreddit_id: int) -> None: ...

    before.task(crawl)
    after.task(key=lambda subreddit_id: f"community:{subreddit_id}")(crawl)
    made = await before.schedules.create("hourly", HOURLY, "crawl", {"subreddit_id": 7})
    assert made.key is None
    await Declaring(after.internals).synchronise()
    stands = await after.schedules.get("hourly")
    assert (stands.key, stands.revision, stands.next_run_at) == ("community:7", made.revision, made.next_run_at)
    edited = await after.schedules.change("hourly", args={"subreddit_id": 8})
    assert edited.key == "community:8"


@pytest.mark.contract("QUE-4", "QUE-7")
async def test_a_schedule_may_say_how_often_its_jobs_are_retried(app: Oncue, crawl: Task[[int, str], None]) -> None:
    await app.schedules.create("hourly", HOURLY, crawl, {"subreddit_id": 7}, max_retries=10)
    (slot,) = await fired_at(app, "hourly")
    assert (await app.jobs.get(slot.job_id)).max_retries == 10
    edited = await app.schedules.change("hourly", priority=30)
    assert edited.max_retries == 10, "what is absent from an edit keeps its value"
    edited = await app.schedules.change("hourly", max_retries=0)
    assert (edited.max_retries, edited.priority) == (0, 30)
    with pytest.raises(InvalidJob, match="max_retries: expected a whole number"):
        await app.schedules.change("hourly", max_retries=-1)


@pytest.mark.contract("QUE-3", "QUE-12", "QUE-14")
@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
async def test_a_retry_of_a_slots_job_whose_key_is_held_is_a_conflict_with_that_jobs_id(
    app: Oncue, delivery: Any
) -> None:
    @app.task(key=lambda n: f"n:{n}", delivery=delivery)
    def work(n: int) -> None: ...

    await app.schedules.create("hourly", HOURLY, work, {"n": 1})
    (slot,) = await fired_at(app, "hourly")
    await app.jobs.set_status(slot.job_id, "failed")
    stands = await work.aenqueue(1)
    with pytest.raises(Conflict, match=f"its key 'n:1' is held by job {stands.id}") as refused:
        await app.jobs.retry(slot.job_id)
    assert refused.value.job_id == stands.id
    await app.jobs.cancel(stands.id)
    again = await app.jobs.retry(slot.job_id)
    assert (again.key, again.state) == ("n:1", "queued")
    assert not (await work.aenqueue(1)).created
