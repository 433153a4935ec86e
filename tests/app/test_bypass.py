"""A task that runs at most once for each slot of its schedule is not enqueued, by whatever way in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oncue import InvalidJob, Oncue, Task, cron
from oncue.application.connecting import TRUSTED_SECONDS
from oncue.verbs.schedules.declaring import Declaring
from tests.app.conftest import MakeApp
from tests.app.drivers import DRIVERS, Driver
from tests.app.watching import Watcher

Brief = Task[[], None]
REFUSED = (
    r"^task: 'brief' runs at most once .*`oncue trigger brief`, "
    r"`app\.schedules\.run_now\('brief'\)` or POST .*--at INSTANT"
)
SELDOM = cron("0 0 1 1 *")


def declare(app: Oncue, **options: Any) -> Brief:
    @app.task(**{"delivery": "at_most_once", "schedule": SELDOM, **options})
    def brief() -> None: ...

    return brief


def stub(app: Oncue) -> Brief:
    """What a process knows that only wants to enqueue: a name."""

    @app.task
    def brief() -> None: ...

    return brief


WAYS: list[Callable[[Brief], Awaitable[Any]]] = [
    lambda brief: brief.aenqueue(),
    lambda brief: brief.aenqueue_many([(), {}]),
    lambda brief: brief.using(delay="1h", key="one", enqueued_by="a caller").aenqueue(),
]
PLAIN_WAYS: list[Callable[[Brief], Any]] = [
    lambda brief: brief.enqueue(),
    lambda brief: brief.enqueue_many([()]),
    lambda brief: brief.using(priority=9).enqueue(),
]


@pytest.mark.contract("SLOT-11")
@pytest.mark.parametrize("way", WAYS)
async def test_a_plain_enqueue_is_refused_and_told_the_way(app: Oncue, way: Callable[[Brief], Awaitable[Any]]) -> None:
    with pytest.raises(InvalidJob, match=REFUSED) as refused:
        await way(declare(app))
    assert refused.value.field == "task"
    assert await app.jobs.list() == []


@pytest.mark.contract("SLOT-11")
@pytest.mark.parametrize("way", PLAIN_WAYS)
def test_so_it_is_from_plain_code(app: Oncue, way: Callable[[Brief], Any]) -> None:
    with pytest.raises(InvalidJob, match=REFUSED):
        way(declare(app))
    assert app.wait(app.jobs.list()) == []


@pytest.mark.contract("SLOT-11")
@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
@pytest.mark.parametrize("declared_here", [True, False])
async def test_so_it_is_in_a_callers_transaction(
    make_app: MakeApp, request: pytest.FixtureRequest, driver: Driver, declared_here: bool
) -> None:
    url = request.getfixturevalue(f"{driver.back_end}_url")
    app, worker = make_app(url), make_app(url)
    if not declared_here:
        declare(worker)
        await Declaring(worker.internals).synchronise()
    await app.internals.connected()
    brief, other = declare(app) if declared_here else stub(app), app.task(name="other")(lambda: None)
    async with driver.hold(url) as held:
        with pytest.raises(InvalidJob, match=REFUSED):
            await driver.enqueue(brief.using(on=held.on))
        await driver.enqueue(other.using(on=held.on))
        await held.commit()
    assert [job.task for job in await app.jobs.list()] == ["other"], "the caller's transaction went on"


@pytest.mark.contract("SLOT-11")
async def test_a_process_without_the_schedule_is_told_by_the_stored_declaration(
    make_app: MakeApp, database_url: str
) -> None:
    worker, web = make_app(database_url), make_app(database_url)
    declare(worker)
    await Declaring(worker.internals).synchronise()
    with pytest.raises(InvalidJob, match=REFUSED):
        await stub(web).aenqueue()
    await worker.schedules.toggle("brief", False)
    with pytest.raises(InvalidJob, match=REFUSED):
        await web.find("brief").aenqueue()
    assert await web.jobs.list() == []


async def test_what_is_stored_is_asked_for_again_after_a_while(
    make_app: MakeApp, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, web = make_app(database_url), make_app(database_url)
    brief = stub(web)
    assert (await brief.aenqueue()).created, "no worker has declared anything yet"
    declare(worker)
    await Declaring(worker.internals).synchronise()
    clock = (await web.internals.connected()).clock
    later = clock.monotonic() + TRUSTED_SECONDS + 1
    monkeypatch.setattr(clock, "monotonic", lambda: later)
    with pytest.raises(InvalidJob, match=REFUSED):
        await brief.aenqueue()


async def test_a_schedule_that_no_code_declares_any_more_keeps_nothing_back(
    make_app: MakeApp, database_url: str
) -> None:
    before, after = make_app(database_url), make_app(database_url)
    declare(before)
    await Declaring(before.internals).synchronise()
    brief = stub(after)
    await Declaring(after.internals).synchronise()
    assert (await brief.aenqueue()).created


@pytest.mark.parametrize("options", [{"delivery": "at_least_once"}, {"schedule": None}])
async def test_other_tasks_are_enqueued_as_ever(app: Oncue, options: dict[str, Any]) -> None:
    assert (await declare(app, **options).aenqueue()).created


async def test_a_schedule_made_at_run_time_keeps_nothing_back(app: Oncue) -> None:
    brief = declare(app, schedule=None)
    await app.schedules.create("brief", SELDOM, brief)
    assert (await brief.aenqueue()).created


@pytest.mark.contract("SLOT-11")
async def test_slots_by_hand_backfills_and_retries_go_on(app: Oncue) -> None:
    @app.task(delivery="at_most_once", schedule=cron("0 0 * * *"))
    def brief() -> None:
        raise ValueError("no paper")

    watcher, midnight = Watcher(app), datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    slots = [midnight - timedelta(days=days) for days in (9, 8)]
    async with app.worker():
        made = [(await app.schedules.run_now("brief")).job_id]
        await watcher.ended([int(made[-1] or 0)])
        made.append((await app.schedules.trigger("brief", slots[0])).job_id)
        await watcher.ended([int(made[-1] or 0)])
        made += (await app.schedules.backfill("brief", slots[1], slots[1])).jobs
        await watcher.ended([int(made[-1] or 0)])
        again = await app.jobs.retry(int(made[0] or 0))
        await watcher.ended([again.id])
    assert again.retry_of == made[0]
    assert [job.state for job in await app.jobs.list()] == ["failed"] * 4


async def test_bad_arguments_are_told_without_asking_the_database(make_app: MakeApp) -> None:
    @make_app("postgresql://nobody@127.0.0.1:1/nothing").task
    def send(order_id: int) -> None: ...

    with pytest.raises(InvalidJob, match="order_id"):
        await send.aenqueue("one")  # type: ignore[arg-type]
