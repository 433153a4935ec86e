"""Schedules: slots that vanish, come twice, or too early."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from oncue.engine.scheduler import Scheduler
from oncue.model import Due, Schedule, Step
from oncue.policy import schedules, slots
from oncue.policy.triggers import trigger_of
from oncue.store import statements
from oncue.store.sqlite import values
from oncue.store.sqlite.slots import SqliteSlots
from tests.answering import Answering
from tests.sim.bugs import runs
from tests.sim.bugs.kit import DIALECT, Patch, bug

SECOND = timedelta(seconds=1)


def two_steps(store: Any) -> Answering:
    """A store whose slots and jobs are written one after the other."""

    async def decide(steps: Sequence[Step], now: datetime, **kept: Any) -> list[bool]:
        took: list[bool] = await store.slots.decide(steps, now, **kept)
        won = [step for step, written in zip(steps, took, strict=True) if written]
        await store.slots.make_jobs(won, now)
        return took

    return Answering(store, slots=Answering(store.slots, decide=decide))


@bug(
    "a slot and its job in two transactions",
    seen_in="Sidekiq: scheduled jobs were popped, and the process was gone before it had pushed them "
    "(sidekiq/sidekiq#843)",
    run=runs.schedules,
    caught_by=("a slot and its job are written together", "every slot is accounted for"),
)
def slot_and_job_apart(patch: Patch) -> None:
    make_jobs = statements.load(DIALECT)["make_jobs"]
    patch.sql("make_jobs", "on s.id = t.schedule_id", "on s.id = t.schedule_id and :epoch is null")

    async def made(self: SqliteSlots, steps: Sequence[Step], now: datetime) -> None:
        instant = values.micros(now)
        rows = [
            [step.schedule_id, *values.decided_row(decided)]
            for step in steps
            for decided in step.decided
            if decided.job_id is not None
        ]
        parameters = {"now": instant, "by": "schedule", "state": "queued", "visible_at": instant}

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(make_jobs, {**parameters, "decided": json.dumps(rows)})

        await self._db.write(work)

    def apart(self: Scheduler, store: Any, *rest: Any, **kept: Any) -> None:
        make(self, two_steps(store), *rest, **kept)

    patch.add(SqliteSlots, "make_jobs", made)
    make = patch.replace(Scheduler, "__init__", apart)


@bug(
    "two leaders who both fire",
    seen_in="Airflow: two schedulers moved the same task by its id alone, and it was queued twice "
    "(apache/airflow#57618)",
    run=runs.sleeping_leaders,
    caught_by=("a slot is decided once", "every slot is accounted for", "cursors only grow"),
)
def decided_by_two(patch: Patch) -> None:
    """Neither epoch nor version is compared, and a job is made whether or not its slot was free."""
    patch.sql("leads", "and holder = :node and epoch = :epoch", "")
    patch.sql("current_steps", "and s.version = step.value ->> 1", "")
    patch.sql("move", "and oncue_schedules.version = step.version", "")
    patch.sql("make_jobs", "join oncue_slots t on", "left join oncue_slots t on")
    patch.sql("make_jobs", "t.job_id, s.args", "d.value ->> 4, s.args")
    patch.sql("make_jobs", "s.id, t.scheduled_for", "s.id, d.value ->> 1")
    patch.sql("make_jobs", "on s.id = t.schedule_id", "on s.id = d.value ->> 0")


@bug(
    "a leader that starts from now",
    seen_in="django-celery-beat: the last run was set to the present at every start, so that what was due while "
    "nobody looked never ran (celery/django-celery-beat#311)",
    run=runs.schedules,
    caught_by="every slot is accounted for",
)
def from_now(patch: Patch) -> None:
    def forgetful(due: Due, now: datetime, punctual: timedelta) -> slots.Plan:
        planned: slots.Plan = plan(due._replace(cursor=max(due.cursor, now - SECOND)), now, punctual)
        return planned

    plan = patch.replace(slots, "plan", forgetful)


@bug(
    "a slot that fires early",
    seen_in="Quartz.NET: what was less than two milliseconds away was fired at once (quartznet/quartznet#83)",
    run=runs.schedules,
    caught_by="no slot is decided early",
)
def rounded_up(patch: Patch) -> None:
    async def hasty(self: Scheduler, now: datetime) -> datetime:
        again_at: datetime = await tick(self, now + timedelta(seconds=1 - (now.microsecond or 1_000_000) / 1e6))
        return again_at

    tick = patch.replace(Scheduler, "tick", hasty)


@bug(
    "runs that nobody counts",
    seen_in="Airflow: the list of active runs was never filled, so that max_active_runs meant nothing "
    "(apache/airflow#13802)",
    run=runs.long_slots,
    caught_by="no more runs than max_instances",
)
def runs_uncounted(patch: Patch) -> None:
    patch.sql("due", "and j.visible_at < :parked", "and j.visible_at < :parked and false")


@bug(
    "runs that are counted per process",
    seen_in="APScheduler: max_instances holds in one process, and each of several runs the job "
    "(agronholm/apscheduler#160)",
    run=runs.long_slots,
    caught_by="no more runs than max_instances",
)
def runs_counted_here(patch: Patch) -> None:
    here = "j.node_id = (select holder from oncue_leases where name = 'leader')"
    patch.sql("due", "and j.visible_at < :parked", f"and j.visible_at < :parked and {here}")


@bug(
    "an edit that goes back in time",
    seen_in="Celery: a schedule that was enabled again after two weeks ran at once, at no time of its own "
    "(celery/celery#370)",
    run=runs.schedules,
    caught_by=("cursors only grow", "every slot is accounted for", "a slot is decided once"),
)
def edited_into_the_past(patch: Patch) -> None:
    def back(schedule: Schedule, now: datetime) -> Schedule:
        begun: Schedule = begin(schedule, now)
        return dataclasses.replace(begun, cursor=now - 3 * SECOND) if schedule.revision > 1 else begun

    begin = patch.replace(schedules, "_begun", back)


@bug(
    "a backfill without a limit",
    seen_in="Airflow: two schedulers started more runs of a backfill than max_active_runs allowed "
    "(apache/airflow#58752)",
    run=runs.schedules,
    caught_by="no more runs than max_instances",
)
def backfilled_at_once(patch: Patch) -> None:
    patch.sql("with_room", "where s.max_instances > (", "where 1000 > (")
    patch.sql("release_parked", "(select max_instances from oncue_schedules where id = :schedule_id)", "1000")


@bug(
    "a run that is started over beside another",
    seen_in="Airflow: runs that were cleared to run again did not count as active ones (apache/airflow#1442)",
    run=runs.schedules,
    caught_by="no more runs than max_instances",
)
def started_over_beside(patch: Patch) -> None:
    async def none(self: SqliteSlots, schedule_id: int, limit: int) -> list[int]:
        return []

    patch.replace(SqliteSlots, "unfinished", none)


@bug(
    "a schedule that outlives its deletion",
    seen_in="Dkron: jobs that had been deleted went on being run (dkron-io/dkron#85)",
    run=runs.schedules,
    caught_by="what is deleted fires no more",
)
def fired_though_deleted(patch: Patch) -> None:
    def goes_on(schedule: Schedule, now: datetime) -> Schedule:
        begun: Schedule = begin(schedule, now)
        deleted = schedule.deleted_at is not None
        return dataclasses.replace(begun, next_run_at=trigger_of(begun).after(now)) if deleted else begun

    begin = patch.replace(schedules, "_begun", goes_on)
