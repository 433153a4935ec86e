"""Jobs that follow from others: `current_job().then(…)`, on each back end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oncue import InvalidJob, Job, Ladder, Oncue, Retry, Skip, cron, current_job
from oncue.engine import context
from tests.app.conftest import MakeApp
from tests.app.watching import Watcher


@pytest.fixture
def app(make_app: MakeApp, database_url: str) -> Oncue:
    app = make_app(database_url, lease="1s")

    @app.task
    def report(number: int) -> None: ...

    return app


async def followers(app: Oncue) -> list[Job]:
    return sorted(await app.jobs.list(task="report"), key=lambda job: job.id)


async def ended(app: Oncue, *names: str) -> list[Job]:
    """Enqueue a job of each of these tasks, and let a worker run them."""
    watcher = Watcher(app)
    async with app.worker():
        ids = [(await app.find(name).aenqueue()).id for name in names]
        return await watcher.ended(ids)


@pytest.mark.parametrize("plain", [False, True])
async def test_jobs_follow_from_a_success(app: Oncue, plain: bool) -> None:
    report: Any = app.find("report")
    far = datetime(2090, 5, 1, tzinfo=UTC)

    def ask() -> None:
        job = current_job()
        job.then(report, 1)
        options = {"queue": "mail", "priority": 7, "delay": "1h", "deadline": "2h", "key": "k", "enqueued_by": "ada"}
        job.then(report.using(**options), number=2)
        job.then(report.using(at=far), 3)

    async def ask_later() -> None:
        ask()

    app.task(ask if plain else ask_later, name="ask")
    (done,) = await ended(app, "ask")
    assert done.state == "succeeded"
    soon, later, latest = await followers(app)
    assert (soon.args, soon.queue, soon.enqueued_by, soon.max_retries) == ({"number": 1}, "default", "system", 3)
    assert soon.created_at == soon.visible_at == done.finished_at
    assert (later.state, later.queue, later.priority, later.key) == ("scheduled", "mail", 7, "k")
    assert (later.visible_at, later.enqueued_by) == (later.created_at + timedelta(hours=1), "ada")
    assert later.deadline_at == later.created_at + timedelta(hours=2)
    assert (latest.state, latest.visible_at, latest.max_runtime) == ("scheduled", far, soon.max_runtime)


async def test_nothing_follows_from_any_other_end(app: Oncue) -> None:
    report = app.find("report")

    def fails() -> None:
        current_job().then(report, 1)
        raise ValueError("no")

    def skips() -> None:
        current_job().then(report, 1)
        raise Skip("nothing to do")

    app.task(fails, max_retries=0)
    app.task(skips)
    assert [job.state for job in await ended(app, "fails", "skips")] == ["failed", "skipped"]
    assert await followers(app) == []


async def test_only_the_attempt_that_succeeds_is_followed(app: Oncue) -> None:
    report = app.find("report")

    async def ask() -> None:
        current_job().then(report, current_job().attempt)
        if current_job().attempt < 3:
            raise Retry("not yet", after=0.01)

    app.task(ask, retry=Ladder(0.01, 0.01))
    (done,) = await ended(app, "ask")
    assert done.attempt == 3
    assert [job.args for job in await followers(app)] == [{"number": 3}]


async def test_a_key_that_is_taken_leaves_the_job_out(app: Oncue) -> None:
    report = app.find("report")
    standing = await report.using(key="k", delay="1h").aenqueue(0)

    def ask() -> None:
        current_job().then(report.using(key="k"), 1)

    app.task(ask)
    (done,) = await ended(app, "ask")
    assert done.state == "succeeded"
    assert [job.id for job in await followers(app)] == [standing.id]


async def test_what_follows_is_run_and_counted(app: Oncue) -> None:
    counted: list[tuple[str, int]] = []
    telemetry = app.internals.telemetry
    telemetry.subscribe(lambda _, numbers, told: counted.append((told["task"], int(numbers["jobs"]))), "enqueue")
    seen: list[int] = []

    @app.task
    def last(number: int) -> None:
        seen.append(number)

    @app.task
    async def first() -> None:
        for number in (1, 2):
            current_job().then(last, number)

    watcher = Watcher(app)
    async with app.worker():
        receipt = await first.aenqueue()
        await watcher.ended([receipt.id])
        await watcher.ended([job.id for job in await app.jobs.list(task="last")])
    assert sorted(seen) == [1, 2]
    assert sorted(counted) == [("first", 1), ("last", 1), ("last", 1)]


async def test_mistakes_are_told_where_they_are_made(app: Oncue, monkeypatch: pytest.MonkeyPatch) -> None:
    report: Any = app.find("report")
    monkeypatch.setattr(context, "MOST_FOLLOW_UPS", 2)
    found: list[str] = []

    @app.task(schedule=cron("0 3 1 1 *"), delivery="at_most_once")
    def yearly() -> None: ...

    @app.task
    def ask() -> None:
        job = current_job()
        for wrong in (
            lambda: job.then(print, 1),  # type: ignore[arg-type]
            lambda: job.then(report, "many"),
            lambda: job.then(report),
            lambda: job.then(report.using(on=object()), 1),
            lambda: job.then(yearly),
            lambda: [job.then(report, 1) for _ in range(3)],
        ):
            with pytest.raises((TypeError, ValueError, InvalidJob)) as refused:
                wrong()
            found.append(str(refused.value))

    (done,) = await ended(app, "ask")
    assert done.state == "succeeded", done.error
    assert "then: expected a task or task.using(…)" in found[0]
    assert "number" in found[1]
    assert "number" in found[2]
    assert "on: expected none: a job that follows is written in the transaction that ends this one" in found[3]
    assert "runs at most once for each slot" in found[4]
    assert "then: expected at most 2 jobs that follow" in found[5]
    assert len(await followers(app)) == 2
