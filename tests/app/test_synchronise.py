"""Schedules that code declares: what a start makes of them, and what it leaves alone."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta
from typing import Any

import pytest

from oncue import Conflict, Oncue, SlotTaken, StoreUnavailable, Task, cron
from oncue.policy.schedules import BY_HAND, UNDECLARED
from oncue.settings import load
from oncue.verbs.schedules.declaring import Declaring
from tests.answering import Answering
from tests.app.test_scheduling import wired

NIGHTLY = cron("30 2 * * *", tz="Europe/Berlin")


class Programs:
    """Versions of applications on one database: each start is a fresh process, as it were."""

    def __init__(self, url: str, runner: asyncio.Runner) -> None:
        self._url = url
        self._runner = runner
        self.made: list[Oncue] = []

    def program(self, name: str = "app") -> Oncue:
        app = Oncue(name=name, settings=load({"database_url": self._url}, environment={}))
        self.made.append(app)
        return app

    async def start(self, *declared: Any, name: str = "app") -> Oncue:
        """A program whose code declares this: (task's name, options of the task)."""
        app = self.program(name)
        for task, options in declared:
            declare(app, task, **options)
        await Declaring(app.internals).synchronise()
        return app


def declare(app: Oncue, name: str, **options: Any) -> Task[..., None]:
    @app.task(name=name, **options)
    async def work(slot: datetime | None = None) -> None:
        """Does its work.

        And more.
        """

    return work


@pytest.fixture
def programs(database_url: str, runner: asyncio.Runner) -> Any:
    made = Programs(database_url, runner)
    yield made
    for app in made.made:
        runner.run(app.aclose())
        app.close()


async def test_what_code_declares_is_there_after_a_start(programs: Programs) -> None:
    options = {
        "schedule": NIGHTLY, "queue": "slow", "priority": 9, "missed": "each", "grace": "10m", "max_instances": 3,
        "delivery": "at_most_once", "deadline": "2h",
    }  # fmt: skip
    app = await programs.start(("brief", options), ("plain", {}))
    (found,) = await app.schedules.list()
    assert (found.name, found.task, found.description, found.declared_by) == ("brief", "brief", "Does its work.", "app")
    assert (found.expression, found.tz, found.queue, found.priority) == ("30 2 * * *", "Europe/Berlin", "slow", 9)
    assert (found.missed, found.grace, found.max_instances, found.max_retries) == ("each", 600.0, 3, 0)
    assert (found.enabled, found.revision, found.created_by, found.deadline) == (True, 1, "code:app", 7200.0)


async def test_the_same_declaration_again_changes_nothing(programs: Programs) -> None:
    first = await (await programs.start(("brief", {"schedule": NIGHTLY}))).schedules.get("brief")
    app = await programs.start(("brief", {"schedule": NIGHTLY}))
    assert await app.schedules.get("brief") == first
    await asyncio.gather(*(Declaring(app.internals).synchronise() for _ in range(5)))
    assert await app.schedules.get("brief") == first
    assert len(await app.schedules.revisions("brief")) == 1


async def test_a_changed_declaration_is_a_revision_from_now(programs: Programs) -> None:
    first = await (await programs.start(("brief", {"schedule": NIGHTLY}))).schedules.get("brief")
    app = await programs.start(("brief", {"schedule": cron("0 4 * * *"), "max_instances": 2}))
    found = await app.schedules.get("brief")
    assert (found.id, found.revision, found.expression, found.tz) == (first.id, 2, "0 4 * * *", "UTC")
    assert (found.max_instances, found.enabled) == (2, True)
    assert found.cursor == found.started_at > first.started_at


async def test_options_of_the_task_alone_make_no_revision(programs: Programs) -> None:
    await programs.start(("brief", {"schedule": NIGHTLY}))
    app = await programs.start(("brief", {"schedule": NIGHTLY, "timeout": "5m", "max_retries": 7}))
    found = await app.schedules.get("brief")
    assert (found.revision, found.max_retries) == (1, 7)
    assert "300" in found.options


async def test_what_is_declared_no_more_is_disabled_and_says_so(
    programs: Programs, caplog: pytest.LogCaptureFixture
) -> None:
    await programs.start(("brief", {"schedule": NIGHTLY}), ("other", {"schedule": NIGHTLY}))
    with caplog.at_level(logging.WARNING, "oncue.schedules"):
        app = await programs.start(("other", {"schedule": NIGHTLY}), ("brief", {}))
    found = await app.schedules.get("brief")
    assert (found.enabled, found.reason, found.next_run_at, found.revision) == (False, UNDECLARED, None, 2)
    assert caplog.messages == ["schedule brief is disabled: the code of 'app' no longer declares it"]
    assert (await app.schedules.get("other")).enabled
    caplog.clear()
    await Declaring(app.internals).synchronise()
    assert caplog.messages == [], "once"


async def test_what_is_declared_again_is_enabled_from_now(programs: Programs) -> None:
    await programs.start(("brief", {"schedule": NIGHTLY}))
    gone = await (await programs.start()).schedules.get("brief")
    app = await programs.start(("brief", {"schedule": NIGHTLY}))
    found = await app.schedules.get("brief")
    assert (found.enabled, found.reason, found.revision) == (True, None, 3)
    assert found.cursor > gone.cursor
    assert found.next_run_at is not None
    assert (await app.schedules.audit("brief")).holds


async def test_what_was_disabled_by_hand_stays_so(programs: Programs) -> None:
    app = await programs.start(("brief", {"schedule": NIGHTLY}))
    await app.schedules.toggle("brief", False)
    app = await programs.start(("brief", {"schedule": NIGHTLY}))
    found = await app.schedules.get("brief")
    assert (found.enabled, found.reason, found.revision) == (False, BY_HAND, 2)
    app = await programs.start(("brief", {"schedule": cron("0 4 * * *")}))
    found = await app.schedules.get("brief")
    assert (found.enabled, found.reason, found.expression) == (False, BY_HAND, "0 4 * * *")
    await programs.start()
    app = await programs.start(("brief", {"schedule": NIGHTLY}))
    assert (await app.schedules.get("brief")).reason == BY_HAND, "nor does its absence for a while enable it"
    await app.schedules.toggle("brief", True)
    await Declaring(app.internals).synchronise()
    assert (await app.schedules.get("brief")).enabled


async def test_a_declared_schedule_is_changed_in_code_only(programs: Programs) -> None:
    app = await programs.start(("brief", {"schedule": NIGHTLY}))
    for verb in (app.schedules.change("brief", priority=3), app.schedules.delete("brief")):
        with pytest.raises(Conflict, match="schedule 'brief' is declared in the code of 'app': change it there"):
            await verb
    with pytest.raises(Conflict, match="there is a schedule 'brief' already"):
        await app.schedules.create("brief", "@daily", "brief")
    slot = await app.schedules.run_now("brief")
    assert slot.state == "queued"


async def test_a_schedule_of_run_time_under_the_same_name_stands_and_the_log_says_so(
    programs: Programs, caplog: pytest.LogCaptureFixture
) -> None:
    app = await programs.start(("brief", {}))
    await app.schedules.create("brief", "@daily", "brief", created_by="ann")
    await programs.start(("brief", {"schedule": NIGHTLY}), ("other", {"schedule": NIGHTLY}))
    assert "schedule 'brief' was made at run time by ann, and the code declares one" in caplog.text
    assert (await app.schedules.get("brief")).expression == "@daily"
    assert (await app.schedules.get("other")).enabled, "the rest is declared all the same"
    await app.schedules.delete("brief")
    app = await programs.start(("brief", {"schedule": NIGHTLY}))
    found = await app.schedules.get("brief")
    assert (found.declared_by, found.enabled, found.revision) == ("app", True, 3)


async def test_what_was_undeclared_can_be_deleted_and_declared_anew(programs: Programs) -> None:
    app = await programs.start(("brief", {"schedule": cron("0 0 1 1 *")}))
    at = (await app.schedules.preview("brief", 1))[0].scheduled_for
    slot = await app.schedules.trigger("brief", at)
    app = await programs.start()
    await app.schedules.delete("brief")
    assert await app.schedules.list() == []
    app = await programs.start(("brief", {"schedule": cron("0 0 1 1 *")}))
    assert (await app.schedules.get("brief")).enabled
    assert slot.job_id is not None
    await app.jobs.cancel(slot.job_id)
    with pytest.raises(SlotTaken):
        await app.schedules.trigger("brief", at)


async def test_an_application_that_gets_another_name_keeps_its_schedules(programs: Programs) -> None:
    await programs.start(("brief", {"schedule": NIGHTLY}), ("digest", {"schedule": NIGHTLY}), name="one")
    two = await programs.start(("brief", {"schedule": NIGHTLY}), name="two")
    found = {schedule.name: schedule for schedule in await two.schedules.list()}
    assert (found["brief"].enabled, found["brief"].declared_by, found["brief"].revision) == (True, "two", 1)
    assert (found["digest"].enabled, found["digest"].reason) == (False, UNDECLARED)


async def test_a_schedule_that_fires_all_the_while_is_disabled_all_the_same(programs: Programs) -> None:
    """Each slot that is decided changes the row: between look and write there may be one."""
    await programs.start(("brief", {"schedule": cron("* * * * *"), "max_instances": 9}))
    app = programs.program()
    connection = await app.internals.connected()
    real, disturbed = connection.store, []

    async def revise(changes: Any, now: datetime) -> list[bool]:
        if len(disturbed) < 3:
            disturbed.append(await busy.schedules.run_now("brief"))
        return await real.schedules.revise(changes, now)

    busy = programs.program()
    declare(busy, "brief")
    connection.store = Answering(real, schedules=Answering(real.schedules, revise=revise))  # type: ignore[assignment]
    await Declaring(app.internals).synchronise()
    found = await app.schedules.get("brief")
    assert (found.enabled, found.reason) == (False, UNDECLARED)
    assert len(disturbed) == 3


async def test_an_operator_who_enables_it_meanwhile_is_heard(programs: Programs) -> None:
    app = await programs.start(("brief", {"schedule": NIGHTLY}))
    await app.schedules.toggle("brief", False)
    late = programs.program()
    declare(late, "brief", schedule=cron("0 4 * * *"))
    connection = await late.internals.connected()
    real, done = connection.store, []

    async def revise(changes: Any, now: datetime) -> list[bool]:
        if not done:
            done.append(await app.schedules.toggle("brief", True))
        return await real.schedules.revise(changes, now)

    connection.store = Answering(real, schedules=Answering(real.schedules, revise=revise))  # type: ignore[assignment]
    await Declaring(late.internals).synchronise()
    found = await app.schedules.get("brief")
    assert (found.enabled, found.reason, found.expression) == (True, None, "0 4 * * *")


async def test_ten_processes_that_start_at_once_make_one_revision(programs: Programs) -> None:
    await asyncio.gather(*(programs.start(("brief", {"schedule": NIGHTLY})) for _ in range(10)))
    app = programs.made[0]
    assert [revision.revision for revision in await app.schedules.revisions("brief")] == [1]


async def test_a_start_whose_reply_was_lost_is_repeated_without_harm(programs: Programs) -> None:
    app = programs.program()
    declare(app, "brief", schedule=NIGHTLY)
    wire = await wired(app)
    wire.lose_reply("schedules.revise")
    with pytest.raises(StoreUnavailable):
        await Declaring(app.internals).synchronise()
    await Declaring(app.internals).synchronise()
    assert len(await app.schedules.revisions("brief")) == 1


async def test_slots_overtaken_by_a_new_declaration_are_written_down(programs: Programs) -> None:
    app = programs.program()
    declare(app, "brief", schedule=cron("* * * * *"))
    connection = await app.internals.connected()
    start = connection.now()
    await Declaring(app.internals).synchronise()
    late = programs.program()
    later = await late.internals.connected()
    later.now = lambda: start + timedelta(minutes=5)  # type: ignore[method-assign]
    declare(late, "brief", schedule=cron("0 4 * * *"))
    await Declaring(late.internals).synchronise()
    (row,) = await late.schedules.slots("brief", start, start + timedelta(minutes=5))
    assert (row.verdict, row.slots, row.revision) == ("missed", 5, 1)
    assert (await late.schedules.audit("brief", start)).holds


async def test_a_worker_synchronises_when_it_starts(programs: Programs) -> None:
    app = programs.program()
    declare(app, "brief", schedule=NIGHTLY)
    assert await app.schedules.list() == []
    async with app.worker():
        assert [found.name for found in await app.schedules.list()] == ["brief"]


def test_what_a_schedule_cannot_call_is_refused_where_it_is_declared() -> None:
    app = Oncue("sqlite:///nowhere.db")
    with pytest.raises(ValueError, match=r"schedule: report has parameters without a default \(kind\)"):

        @app.task(schedule=NIGHTLY)
        def report(slot: datetime, kind: str) -> None: ...

    for options in (
        {"schedule": "0 3 * * *"},
        {"schedule": NIGHTLY, "missed": "all"},
        {"schedule": NIGHTLY, "grace": "soon"},
        {"schedule": NIGHTLY, "max_instances": 0},
    ):
        with pytest.raises(ValueError, match=f"^{[*options][-1]}: "):
            declare(app, "other", **options)


async def test_nothing_is_disabled_while_a_live_worker_declares_it(programs: Programs) -> None:
    """A rolling deployment: a worker of the old version starts again beside one of the new version."""
    old, new = ("old", {"schedule": NIGHTLY}), ("new", {"schedule": NIGHTLY})
    current = programs.program()
    for task, options in (old, new):
        declare(current, task, **options)
    async with current.worker():
        app = await programs.start(old)
        assert (await app.schedules.get("new")).enabled
    await Declaring(app.internals).disable_undeclared()
    found = await app.schedules.get("new")
    assert (found.enabled, found.reason) == (False, UNDECLARED), "once nobody declares it any more"
    assert (await app.schedules.get("old")).enabled


async def test_a_schedule_that_somebody_takes_over_is_theirs(programs: Programs) -> None:
    app = await programs.start(("brief", {"schedule": NIGHTLY}))
    app = await programs.start(("brief", {}))
    await app.schedules.change("brief", description="for the archive")
    assert (await app.schedules.get("brief")).declared_by == "app"
    await app.schedules.toggle("brief", True)
    await Declaring(app.internals).disable_undeclared()
    found = await app.schedules.get("brief")
    assert (found.enabled, found.declared_by) == (True, None)
    app = await programs.start(("brief", {"schedule": cron("0 4 * * *")}))
    found = await app.schedules.get("brief")
    assert (found.declared_by, found.expression, found.enabled) == ("app", "0 4 * * *", True)
