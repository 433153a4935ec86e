"""A subject that is removed and added again on the same day, and what the code says of a window's concurrency."""

from __future__ import annotations

import logging
from datetime import UTC, date, datetime, timedelta

import pytest

from oncue import Oncue, daily
from oncue.model import DayCount
from oncue.policy import subjects
from oncue.policy.lifecycle import close_day
from oncue.verbs.schedules.declaring import Declaring
from tests.app.conftest import MakeApp
from tests.app.test_windows import DAY, Bench, led, stored
from tests.app.test_windows import app as app  # the fixture

OPENS, LATER, CUTOFF = (datetime(2030, 1, 2, *time, tzinfo=UTC) for time in ((8, 0), (8, 30), (9, 0)))


async def open_day(bench: Bench) -> int:
    """Ann's day of 2 January is open; the id of its job."""
    await bench.put("ann")
    await bench.plan(OPENS)
    return await job_of_day(bench.app)


async def job_of_day(app: Oncue) -> int:
    found = (await stored(app, "ann")).job_id
    assert found is not None
    return found


async def come_back(app: Oncue) -> None:
    await app.windows.remove("digest", "ann")
    await app.windows.add("digest", "ann", at="09:00")


@pytest.mark.contract("WIN-1", "WIN-2", "WIN-9")
async def test_a_day_without_success_gets_another_job(app: Oncue) -> None:
    bench = await led(app)
    first = await open_day(bench)
    await come_back(app)
    assert (await app.jobs.get(first)).state == "cancelled"
    await bench.plan(LATER)
    second = await job_of_day(app)
    job = await app.jobs.get(second)
    assert (job.retry_of, job.state, job.scheduled_for) == (first, "queued", datetime(2030, 1, 2, tzinfo=UTC))
    ledger = await app.windows.ledger("digest", "ann", start=date(2030, 1, 1), end=date(2030, 1, 9))
    assert [(slot.verdict, slot.job_id, slot.state) for slot in ledger] == [("fired", second, "queued")]
    await bench.plan(LATER)
    assert await job_of_day(app) == second, "looked at again, it has its job"
    (known,) = await bench.store.windows.unfinished([second])
    done = close_day(known, LATER, "success", "by a test")._replace(state="succeeded", reason=None)
    assert await bench.store.jobs.apply([done], LATER) == [True]
    await bench.plan(CUTOFF)
    ann = await stored(app, "ann")
    assert (ann.last_date, ann.status, ann.day) == (DAY, "success", date(2030, 1, 3))
    counted = [DayCount(540, "opened", 1), DayCount(540, "success", 1)]
    assert await bench.store.windows.day(bench.window.id, DAY) == counted, "it was one day"


@pytest.mark.contract("WIN-1")
async def test_a_day_with_its_success_gets_no_other_job(app: Oncue) -> None:
    bench = await led(app)
    first = await open_day(bench)
    (job,) = await bench.store.windows.unfinished([first])
    done = close_day(job, OPENS, "success", "by a test")._replace(state="succeeded", reason=None)
    assert await bench.store.jobs.apply([done], OPENS) == [True]
    await come_back(app)
    await bench.plan(LATER)
    ann = await stored(app, "ann")
    assert (ann.last_date, ann.status, ann.day) == (DAY, "success", date(2030, 1, 3))
    assert await bench.store.windows.unfinished([first, first + 1]) == []


@pytest.mark.contract("WIN-1", "WIN-10")
async def test_it_waits_until_the_job_that_was_asked_to_stop_has_ended(app: Oncue) -> None:
    bench = await led(app)
    first = await open_day(bench)
    gone = subjects.removed(await stored(app, "ann"), bench.now)
    assert await bench.store.windows.put([gone], bench.now, stops=[first]) == [True]
    (job,) = await bench.store.windows.unfinished([first])
    assert (job.state, job.cancel_requested_at) == ("queued", bench.now), "as in a caller's own transaction"
    await app.windows.add("digest", "ann", at="09:00")
    await bench.plan(LATER)
    ann = await stored(app, "ann")
    assert (ann.job_id, ann.next_at) == (first, LATER + timedelta(seconds=5))
    await app.jobs.cancel(first)
    await bench.plan(LATER + timedelta(seconds=5))
    assert (await app.jobs.get(await job_of_day(app))).retry_of == first


async def test_a_day_that_was_opened_by_hand_and_left_waits_for_its_window(app: Oncue) -> None:
    bench = await led(app)
    await bench.put("ann")
    await app.windows.run_now("digest", "ann")
    first = await job_of_day(app)
    await come_back(app)
    await bench.plan(OPENS - timedelta(minutes=1))
    assert await job_of_day(app) == first
    await bench.plan(OPENS)
    assert (await app.jobs.get(await job_of_day(app))).retry_of == first


async def test_a_subject_that_comes_back_after_its_cutoff_begins_with_the_next_day(app: Oncue) -> None:
    bench = await led(app)
    await open_day(bench)
    gone = subjects.removed(await stored(app, "ann"), bench.now)
    assert await bench.store.windows.put([gone], bench.now) == [True]
    (row,) = await bench.store.windows.subjects(bench.window.id, ["ann"])
    wanted = app.windows._wanted(bench.window, "ann", {"at": "09:00"}, CUTOFF)
    back = subjects.added(bench.window, wanted, row, CUTOFF)
    assert (back.day, back.job_id) == (date(2030, 1, 3), None)


async def test_a_stale_removal_stops_no_job(app: Oncue) -> None:
    bench = await led(app)
    first = await open_day(bench)
    ann = await stored(app, "ann")
    await app.windows.change("digest", "ann", at="10:00")
    assert await bench.store.windows.put([subjects.removed(ann, bench.now)], bench.now, stops=[first]) == [False]
    assert (await app.jobs.get(first)).cancel_requested_at is None


# --- max_concurrency ------------------------------------------------------------------------------------------------


async def declared(make_app: MakeApp, url: str, *limits: int) -> Oncue:
    """A worker starts whose code has windows with these limits."""
    app = make_app(url)
    for number, most in enumerate(limits):
        _declare(app, f"digest{number}", most)
    await Declaring(app.internals).synchronise()
    return app


def _declare(app: Oncue, name: str, most: int) -> None:
    @app.task(name=name, schedule=daily(), max_concurrency=most)
    async def digest(user: str) -> None: ...


async def limit(app: Oncue) -> int | None:
    return {queue.name: queue.global_limit for queue in await app.queues.list()}["windows"]


@pytest.mark.contract("WIN-3", "WIN-18")
async def test_the_limit_follows_the_code(make_app: MakeApp, database_url: str) -> None:
    assert await limit(await declared(make_app, database_url, 20)) == 20
    app = await declared(make_app, database_url, 50)
    assert await limit(app) == 50
    entry = (await app.audit_log.list(subject="queue:windows"))[0]
    assert entry.actor.startswith("code:")
    assert await limit(await declared(make_app, database_url, 50)) == 50
    assert await limit(await declared(make_app, database_url, 50, 30)) == 30, "the least of its windows"


@pytest.mark.contract("WIN-3")
async def test_a_limit_that_was_set_by_hand_stays(
    make_app: MakeApp, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = await declared(make_app, database_url, 20)
    await app.queues.limit("windows", globally=7, per_node=3)
    with caplog.at_level(logging.WARNING, "oncue.schedules"):
        assert await limit(await declared(make_app, database_url, 50)) == 7
    assert "max_concurrency is 50 in the code, and the limit that was set by hand is 7" in caplog.text
    await app.queues.limit("windows", globally=50)
    assert await limit(await declared(make_app, database_url, 60)) == 60, "it is the code's again"
    limits = await (await app.internals.connected()).store.queues.limits("windows")
    assert limits.per_node == 3, "other limits are the operator's"


async def test_a_queue_that_was_paused_before_its_window_was_declared_gets_the_limit(
    make_app: MakeApp, database_url: str
) -> None:
    await make_app(database_url).queues.pause("windows")
    assert await limit(await declared(make_app, database_url, 20)) == 20
