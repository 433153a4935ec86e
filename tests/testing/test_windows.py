"""A day of a window, from its opening to its cutoff, on the real engine under the test's clock."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from oncue import Conflict, Fail, InvalidJob, Oncue, Retry, current_job, daily, testing
from oncue.model import EVERY_DAY, DayCount, Subject
from oncue.policy import windows
from oncue.testing import Kit
from oncue.verbs.schedules.declaring import Declaring

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
DAY = date(2026, 11, 18)


class Digest:
    """An application with a window, what its handlers were called with, and what they do."""

    def __init__(self) -> None:
        self.app = Oncue(name="digest")
        self.sent: list[tuple[str, date, str]] = []
        self.reset: list[tuple[str, date]] = []
        self.failing: set[str] = set()
        self.breaks = False
        self.raises: Exception = RuntimeError("the model is away")

        @self.app.task
        def reset_chat(user: str, day: date) -> None:
            self.reset.append((user, day))
            if self.breaks:
                raise Fail("there is no such chat")

        @self.app.task(schedule=daily(window="60m", retry="10m"), max_concurrency=2, on_cutoff=reset_chat)
        async def digest(user: str, day: date, language: str = "en") -> None:
            self.sent.append((user, day, language))
            if user in self.failing:
                raise self.raises

        self.task = digest


@pytest.fixture
def digest() -> Digest:
    return Digest()


@pytest.fixture
def kit(digest: Digest) -> Iterator[Kit]:
    with testing.use(digest.app, now=NOON) as kit:
        yield kit


def add(kit: Kit, name: str, due: int = 9 * 60, tz: str | None = None, **fields: Any) -> None:
    """A subject whose day ends at this minute."""
    store, now = kit._store, kit.clock.now()
    (window,) = asyncio.run(store.windows.all())
    subject = Subject(
        schedule_id=window.id, name=name, due=due, tz=tz, weekdays=EVERY_DAY, days_off=(), args="{}", version=0,
        since=now, day=DAY, opens_at=now, cutoff_at=now, next_at=now, job_id=None, last_date=None, status=None,
        reason=None, last_run_at=None, created_at=now, updated_at=now, removed_at=None,
    )  # fmt: skip
    terms = windows.terms_of(subject, windows.rule_of(window.expression), window.tz)
    day = windows.first_day(terms, None, now)
    fields = {"day": day.date, "opens_at": day.opens_at, "cutoff_at": day.cutoff_at, **fields}
    next_at = max(day.opens_at, now)
    from dataclasses import replace

    assert asyncio.run(store.windows.put([replace(subject, **fields, next_at=next_at)], now)) == [True]


def until(kit: Kit, end: datetime) -> None:
    kit.elapse(end - kit.clock.now())


def subject(kit: Kit, name: str) -> Subject:
    (window,) = asyncio.run(kit._store.windows.all())
    (found,) = asyncio.run(kit._store.windows.subjects(window.id, [name]))
    return found


def counts(kit: Kit, day: date = DAY) -> list[DayCount]:
    (window,) = asyncio.run(kit._store.windows.all())
    return asyncio.run(kit._store.windows.day(window.id, day))


@pytest.mark.contract("WIN-1", "WIN-7", "WIN-8", "WIN-9")
def test_a_day_opens_an_hour_before_its_cutoff_and_ends_with_its_success(digest: Digest, kit: Kit) -> None:
    add(kit, "ann", args='{"language": "de"}')
    until(kit, datetime(2026, 11, 18, 7, 59, tzinfo=UTC))
    assert digest.sent == []
    kit.elapse("2h")
    assert digest.sent == [("ann", DAY, "de")]
    ann = subject(kit, "ann")
    assert (ann.last_date, ann.status, ann.reason) == (DAY, "success", None)
    assert ann.last_run_at == datetime(2026, 11, 18, 8, tzinfo=UTC)
    assert (ann.day, ann.next_at) == (date(2026, 11, 19), datetime(2026, 11, 19, 8, tzinfo=UTC))
    assert counts(kit) == [DayCount(540, "opened", 1), DayCount(540, "success", 1)]
    assert digest.reset == []
    (job,) = kit.jobs(digest.task)
    assert (job.state, job.subject, job.order_at) == ("succeeded", "ann", datetime(2026, 11, 18, 9, tzinfo=UTC))


@pytest.mark.contract("WIN-6", "WIN-8", "WIN-11", "WIN-13")
def test_attempts_are_the_delay_apart_until_the_cutoff_which_runs_the_hook_once(digest: Digest, kit: Kit) -> None:
    add(kit, "ann")
    digest.failing.add("ann")
    until(kit, datetime(2026, 11, 18, 12, tzinfo=UTC))
    assert digest.sent == [("ann", DAY, "en")] * 6
    ann = subject(kit, "ann")
    assert (ann.last_date, ann.status, ann.reason, ann.last_run_at) == (DAY, "cutoff_reached", None, None)
    assert digest.reset == [("ann", DAY)]
    (job,) = kit.jobs(digest.task)
    assert (job.state, job.reason, job.attempt) == ("skipped", "cutoff_reached", 6)
    assert counts(kit) == [DayCount(540, "cutoff_reached", 1), DayCount(540, "opened", 1)]
    digest.failing.clear()
    kit.elapse("1d")
    assert subject(kit, "ann").status == "success"
    assert digest.reset == [("ann", DAY)]


@pytest.mark.contract("WIN-6", "WIN-8", "WIN-13")
def test_no_attempt_begins_after_the_cutoff_though_the_window_is_disabled(digest: Digest, kit: Kit) -> None:
    """The planner leaves the days of a disabled window alone: its failing jobs were tried again without end."""
    add(kit, "ann")
    digest.failing.add("ann")
    until(kit, datetime(2026, 11, 18, 8, 45, tzinfo=UTC))
    digest.app.wait(digest.app.schedules.toggle("digest", False))
    until(kit, datetime(2026, 11, 18, 23, tzinfo=UTC))
    assert digest.sent == [("ann", DAY, "en")] * 6
    ann = subject(kit, "ann")
    assert (ann.last_date, ann.status, ann.last_run_at) == (DAY, "cutoff_reached", None)
    assert digest.reset == [("ann", DAY)]
    (job,) = kit.jobs(digest.task)
    assert (job.state, job.reason, job.attempt) == ("skipped", "cutoff_reached", 6)
    digest.app.wait(digest.app.schedules.toggle("digest", True))
    digest.failing.clear()
    kit.elapse("1d")
    assert subject(kit, "ann").status == "success"
    assert digest.reset == [("ann", DAY)]


@pytest.mark.contract("WIN-16")
def test_neither_a_day_nor_its_cutoffs_job_has_a_line_above_debug(
    digest: Digest, kit: Kit, caplog: pytest.LogCaptureFixture
) -> None:
    """A cutoff of 20,000 users had made 40,000 lines."""
    caplog.set_level(logging.INFO)
    add(kit, "ann")
    digest.failing.add("ann")
    until(kit, datetime(2026, 11, 18, 12, tzinfo=UTC))
    assert digest.reset == [("ann", DAY)]
    assert [record.getMessage() for record in caplog.records if record.name == "oncue.job"] == []
    digest.breaks = True
    kit.elapse("1d")
    (line,) = [record.getMessage() for record in caplog.records if record.name == "oncue.job"]
    assert "failed task=reset_chat" in line


@pytest.mark.contract("WIN-2", "WIN-14")
def test_a_window_that_nobody_served_is_over_while_its_date_lasts_and_missed_later(digest: Digest, kit: Kit) -> None:
    add(kit, "ann")
    kit.clock.advance_to(datetime(2026, 11, 18, 15, tzinfo=UTC))
    kit.elapse("1m")
    assert (subject(kit, "ann").last_date, subject(kit, "ann").status) == (DAY, "cutoff_reached")
    assert digest.reset == [("ann", DAY)]
    kit.clock.advance_to(datetime(2026, 11, 22, 3, tzinfo=UTC))
    kit.elapse("1m")
    ann = subject(kit, "ann")
    assert (ann.last_date, ann.status, ann.reason) == (date(2026, 11, 21), "missed", "outage")
    assert digest.reset == [("ann", DAY)]
    (window,) = asyncio.run(kit._store.windows.all())
    ledger = asyncio.run(kit._store.windows.ledger(window.id, "ann", NOON - timedelta(days=9), kit.clock.now(), 10))
    assert [(slot.verdict, slot.reason, slot.slots) for slot in ledger] == [
        ("skipped", "added_late", 1),
        ("skipped", "cutoff_reached", 1),
        ("missed", "outage", 3),
    ]


@pytest.mark.contract("WIN-2")
def test_a_window_that_was_served_late_is_opened_then(digest: Digest, kit: Kit) -> None:
    add(kit, "ann")
    kit.clock.advance_to(datetime(2026, 11, 18, 8, 50, tzinfo=UTC))
    kit.elapse("1m")
    assert digest.sent == [("ann", DAY, "en")]


@pytest.mark.contract("WIN-9")
def test_a_subject_added_after_its_cutoff_has_its_day_behind_it(digest: Digest, kit: Kit) -> None:
    add(kit, "ann")
    kit.elapse("1m")
    ann = subject(kit, "ann")
    assert (ann.last_date, ann.status, ann.reason) == (date(2026, 11, 17), "cutoff_reached", "added_late")
    assert (digest.sent, digest.reset) == ([], [])
    assert counts(kit, date(2026, 11, 17)) == [DayCount(540, "added_late", 1)]


@pytest.mark.contract("WIN-3")
def test_the_earliest_cutoff_comes_first(digest: Digest, kit: Kit) -> None:
    for minute, name in enumerate(("zoe", "bob", "ann")):
        add(kit, name, due=9 * 60 - minute)
    kit.clock.advance_to(datetime(2026, 11, 18, 8, 30, tzinfo=UTC))
    kit.elapse("1m")
    assert [user for user, *_ in digest.sent] == ["ann", "bob", "zoe"]


def test_a_handler_that_gives_up_leaves_the_day_to_its_cutoff(digest: Digest, kit: Kit) -> None:
    add(kit, "ann")
    digest.failing.add("ann")
    digest.raises = Fail("no such account")
    until(kit, datetime(2026, 11, 18, 8, 59, tzinfo=UTC))
    assert len(digest.sent) == 1
    assert subject(kit, "ann").last_date == date(2026, 11, 17)
    kit.elapse("2m")
    assert (subject(kit, "ann").status, digest.reset) == ("cutoff_reached", [("ann", DAY)])


@pytest.mark.contract("WIN-6")
def test_a_cutoff_that_passes_while_a_handler_moves_the_clock_is_seen_at_once() -> None:
    app = Oncue(name="digest")

    @app.task(schedule=daily())
    async def slow(user: str) -> None:
        if current_job().attempt == 1:
            raise RuntimeError("the model is away")
        kit.clock.advance("20s")
        raise Fail("after the cutoff")

    with testing.use(app, now=NOON) as kit:
        app.wait(app.windows.add(slow, "ann", at="09:00"))
        until(kit, datetime(2026, 11, 18, 8, 5, tzinfo=UTC))
        kit.clock.advance_to(datetime(2026, 11, 18, 8, 59, 50, tzinfo=UTC))
        kit.elapse("5m")
        ann = app.wait(app.windows.subject(slow, "ann"))
        assert (ann.last_date, ann.status) == (DAY, "cutoff_reached")


@pytest.mark.contract("WIN-2", "WIN-6")
def test_a_new_rule_after_an_outage_takes_no_day_away(digest: Digest, kit: Kit) -> None:
    """The window was closed while nothing ran, and the version that comes up has another retry delay."""
    add(kit, "ann")
    kit.elapse("1m")
    newer = Oncue(name="digest")

    @newer.task(name="digest", schedule=daily(window="60m", retry="5m"))
    async def changed(user: str, day: date, language: str = "en") -> None: ...

    kit.clock.advance_to(datetime(2026, 11, 18, 15, tzinfo=UTC))
    connected = digest.app.wait(digest.app.internals.connected())
    digest.app.wait(Declaring(newer.internals).synchronise(connected, dials=False))
    (window,) = digest.app.wait(digest.app.windows.list())
    assert (window.expression, window.revision) == ("@window 1h retry 5m", 2)
    kit.elapse("1m")
    assert (subject(kit, "ann").last_date, subject(kit, "ann").status) == (DAY, "cutoff_reached")


@pytest.mark.contract("WIN-6")
def test_no_operator_makes_a_success_after_the_cutoff(digest: Digest, kit: Kit) -> None:
    add(kit, "ann")
    digest.failing.add("ann")
    until(kit, datetime(2026, 11, 18, 8, 5, tzinfo=UTC))
    (job,) = kit.jobs(digest.task)
    kit.clock.advance_to(datetime(2026, 11, 18, 9, tzinfo=UTC))
    with pytest.raises(Conflict, match="a success counts only before that"):
        digest.app.wait(digest.app.jobs.set_status(job.id, "success"))
    kit.elapse("1m")
    assert subject(kit, "ann").status == "cutoff_reached"


def test_a_handler_says_when_it_wants_to_be_tried_again(digest: Digest, kit: Kit) -> None:
    add(kit, "ann")
    digest.failing.add("ann")
    digest.raises = Retry("busy", after="25m")
    until(kit, datetime(2026, 11, 18, 10, tzinfo=UTC))
    assert len(digest.sent) == 3


@pytest.mark.contract("WIN-14", "WIN-19")
def test_a_window_across_midnight_belongs_to_the_day_of_its_cutoff_in_its_zone(digest: Digest, kit: Kit) -> None:
    add(kit, "ann", due=30, tz="Asia/Tokyo")  # 00:30 in Tokyo is 15:30 of the day before in UTC
    until(kit, datetime(2026, 11, 17, 14, 31, tzinfo=UTC))
    assert digest.sent == [("ann", DAY, "en")]


@pytest.mark.contract("WIN-1")
def test_the_task_of_a_window_is_not_enqueued_by_itself(digest: Digest, kit: Kit) -> None:
    with pytest.raises(InvalidJob, match="oncue subjects run digest"):
        digest.task.enqueue("ann", DAY)


def test_what_a_window_cannot_have_is_refused_by_name() -> None:
    app = Oncue(name="digest")
    wrong: list[dict[str, Any]] = [
        {"max_retries": 3}, {"deadline": "5m"}, {"delivery": "at_most_once"}, {"missed": "each"},
        {"max_concurrency": 0}, {"on_cutoff": print},
    ]  # fmt: skip
    for options in wrong:
        with pytest.raises(ValueError, match=next(iter(options))):
            app.task(schedule=daily(), **options)(lambda user: None)
    with pytest.raises(ValueError, match="max_concurrency: only tasks with schedule=daily"):
        app.task(max_concurrency=3)(lambda user: None)
    with pytest.raises(ValueError, match="the first one gets the subject"):
        app.task(schedule=daily())(lambda: None)


# --- in the caller's own transaction --------------------------------------------------------------------------------


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.execute("create table users (name text)")
    yield connection
    connection.close()


def test_a_subject_of_a_transaction_that_is_rolled_back_was_never_there(
    digest: Digest, kit: Kit, connection: sqlite3.Connection
) -> None:
    app = digest.app
    app.wait(app.windows.add("digest", "ann", at="09:00"))
    with connection:
        app.wait(app.windows.add("digest", "bob", at="09:00", on=connection))
    app.wait(app.windows.add("digest", "cas", at="09:00", on=connection))
    app.wait(app.windows.change("digest", "ann", at="10:00", on=connection))
    connection.rollback()
    until(kit, datetime(2026, 11, 18, 8, tzinfo=UTC))
    assert sorted(user for user, *_ in digest.sent) == ["ann", "bob"]


@pytest.mark.parametrize("committed", [True, False])
def test_no_attempt_of_a_removed_subject_starts(
    digest: Digest, kit: Kit, connection: sqlite3.Connection, committed: bool
) -> None:
    app = digest.app
    digest.failing.add("ann")
    app.wait(app.windows.add("digest", "ann", at="09:00"))
    until(kit, datetime(2026, 11, 18, 8, 1, tzinfo=UTC))
    assert len(digest.sent) == 1
    app.wait(app.windows.remove("digest", "ann", on=connection))
    (connection.commit if committed else connection.rollback)()
    until(kit, datetime(2026, 11, 18, 8, 15, tzinfo=UTC))
    (job,) = kit.jobs(digest.task)
    assert (len(digest.sent), job.state) == ((1, "cancelled") if committed else (2, "retrying"))


@pytest.mark.contract("WIN-1", "WIN-2")
def test_a_subject_that_comes_back_is_served_on_the_same_day(digest: Digest, kit: Kit) -> None:
    app = digest.app
    digest.failing.add("ann")
    app.wait(app.windows.add("digest", "ann", at="09:00"))
    until(kit, datetime(2026, 11, 18, 8, 1, tzinfo=UTC))
    app.wait(app.windows.remove("digest", "ann"))
    app.wait(app.windows.add("digest", "ann", at="09:00"))
    digest.failing.clear()
    until(kit, datetime(2026, 11, 18, 8, 30, tzinfo=UTC))
    assert (subject(kit, "ann").status, subject(kit, "ann").last_date) == ("success", DAY)
    assert len(digest.sent) == 2
    until(kit, datetime(2026, 11, 18, 9, 30, tzinfo=UTC))
    assert counts(kit) == [DayCount(540, "opened", 1), DayCount(540, "success", 1)]
