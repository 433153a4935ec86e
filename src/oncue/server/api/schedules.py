"""Schedules: what there are, making and changing them, and their slots."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query
from starlette.requests import Request

from oncue.errors import WebhookNotFound
from oncue.model import Schedule
from oncue.policy.triggers import Rule
from oncue.records.schedules import ComparisonRecord, ScheduleRecord, comparison_record, schedule_record
from oncue.server.api import pages
from oncue.server.api.documents import changing, looking
from oncue.server.api.idempotency import REPEATABLE
from oncue.server.api.identity import Caller
from oncue.server.api.models.schedules import (
    NewSchedule,
    ScheduleChange,
    SchedulePage,
    Terms,
    Toggle,
)
from oncue.server.api.naming import naming
from oncue.server.api.pages import Limit
from oncue.server.api.problems import Answer, invalid
from oncue.server.api.references import ScheduleRef, schedule_named
from oncue.server.api.routing import Routes

if TYPE_CHECKING:
    from oncue.app import Oncue

PREFIX = "/api/admin/scheduled-jobs"
TAG = "schedules"
LARGEST_OFFSET = 10_000
MOST_COMPARED = 100


async def _left_out(app: Oncue, after: str, count: int) -> str:
    """The name of the last of so many schedules. They are read in parts: in between, the event loop serves others."""
    while count > 0:
        part = await app.schedules.list(after=after, limit=min(count, 4 * pages.RECORDS_A_TURN))
        count -= len(part) or count
        after = part[-1].name if part else after
    return after


def add(routes: Routes, app: Oncue) -> None:
    _add_looking(routes, app)
    _add_changing(routes, app)


def _add_looking(routes: Routes, app: Oncue) -> None:
    @routes.get(PREFIX, **looking(TAG, "List schedules", SchedulePage))
    async def list_schedules(
        request: Request,
        limit: Limit = 100,
        offset: Annotated[int, Query(ge=0, le=LARGEST_OFFSET, description="Leave out so many.")] = 0,
        after: Annotated[str, Query(description="Only names that come after this one.")] = "",
    ) -> Answer:
        """By name. Go on with `next`, which stays fast however far you go."""
        first = await _left_out(app, after, offset)

        async def read(last: Schedule | None, most: int) -> list[Schedule]:
            return await app.schedules.list(after=first if last is None else last.name, limit=most)

        return await pages.in_parts(
            request, "scheduled_jobs", read, limit, schedule_record, after=lambda schedule: schedule.name
        )

    @routes.get(f"{PREFIX}/{{id:path}}", **looking(TAG, "Show a schedule", ScheduleRecord, 404))
    async def show_schedule(id: ScheduleRef) -> Answer:
        return Answer(schedule_record(await schedule_named(app, id)))


def _add_changing(routes: Routes, app: Oncue) -> None:
    @routes.post(PREFIX, needs="operate", **changing(TAG, "Make a schedule", ScheduleRecord, 409, status=201))
    async def create_schedule(request: Request, body: NewSchedule, by: Caller) -> Answer:
        """Its first slot is the first one after now."""
        task = _task(body)
        if task is None and body.webhook is None:
            raise invalid("task", "expected, or a webhook, and not there")
        with naming(), _naming_webhook():
            made = await app.schedules.create(
                body.name,
                Rule(body.cron_expression, body.tz or "UTC", body.dst or "debian"),
                task,
                body.args or {},
                webhook=body.webhook,
                description=body.description or "",
                queue=body.queue,
                priority=body.priority,
                missed=body.missed or "latest",
                grace=body.grace,
                max_instances=body.max_instances,
                max_retries=body.max_retries,
                enabled=body.enabled is not False,
                created_by=by,
            )
        place = f"{request.scope['path']}/{made.id}"
        return Answer(schedule_record(made), 201, headers={"Location": place})

    @routes.put(
        f"{PREFIX}/{{id:path}}", needs="operate", **changing(TAG, "Change a schedule", ScheduleRecord, 404, 409)
    )
    async def change_schedule(id: ScheduleRef, body: ScheduleChange, by: Caller) -> Answer:
        """Fields that are absent keep their value. The change starts from now: earlier slots are not fired again. A
        schedule that code declares can only be enabled and disabled here."""
        schedule = await schedule_named(app, id)
        terms = _edit_of(body, schedule)
        with naming(), _naming_webhook():
            if terms:
                schedule = await app.schedules.change(schedule.name, **terms, enabled=body.enabled, changed_by=by)
            elif body.enabled is not None:  # of a schedule that code declares this much may be changed
                schedule = await app.schedules.toggle(schedule.name, body.enabled, changed_by=by)
        return Answer(schedule_record(schedule))

    @routes.post(
        f"{PREFIX}/{{id:path}}/preview", needs="operate", keeping=REPEATABLE,
        **changing(TAG, "Show what a change would do", ComparisonRecord, 404, 409),
    )  # fmt: skip
    async def preview_change(
        id: ScheduleRef, body: ScheduleChange, count: Annotated[int, Query(ge=1, le=MOST_COMPARED)] = 10
    ) -> Answer:
        """Which of the next slots would go, stay and come. Nothing is written. It is told of a schedule that code
        declares too, which cannot be changed here."""
        schedule = await schedule_named(app, id)
        terms = _edit_of(body, schedule)
        with naming(), _naming_webhook():
            found = await app.schedules.preview_change(schedule.name, count=count, **terms, enabled=body.enabled)
        return Answer(comparison_record(found))

    @routes.delete(
        f"{PREFIX}/{{id:path}}", needs="operate", **changing(TAG, "Delete a schedule", ScheduleRecord, 404, 409)
    )
    async def delete_schedule(id: ScheduleRef, by: Caller) -> Answer:
        """Its slots stay in the ledger, so that no later schedule of its name runs them again; jobs that it has made
        stay too. The answer is the schedule as it was."""
        schedule = await schedule_named(app, id)
        await app.schedules.delete(schedule.name, changed_by=by)
        return Answer(schedule_record(schedule))

    @routes.post(
        f"{PREFIX}/{{id:path}}/toggle", needs="operate", keeping=REPEATABLE,
        **changing(TAG, "Enable or disable a schedule", ScheduleRecord, 404, 409),
    )  # fmt: skip
    async def toggle_schedule(id: ScheduleRef, body: Toggle, by: Caller) -> Answer:
        """What comes due while it is disabled is not made up for."""
        schedule = await schedule_named(app, id)
        return Answer(schedule_record(await app.schedules.toggle(schedule.name, body.enabled, changed_by=by)))


@contextmanager
def _naming_webhook() -> Iterator[None]:
    """A webhook that is not there is a wrong field: the schedule is what the path names."""
    try:
        yield
    except WebhookNotFound as error:
        raise invalid("webhook", str(error)) from None


def _task(body: Terms) -> str | None:
    if body.task is not None and body.target not in (None, body.task):
        raise invalid("target", "task and target are two names for the same thing: give one of them")
    return body.target if body.task is None else body.task


def _edit_of(body: ScheduleChange, schedule: Schedule) -> dict[str, Any]:
    terms = _terms(body)
    return terms if body.name in (None, schedule.name) else {**terms, "new_name": body.name}


def _terms(body: ScheduleChange) -> dict[str, Any]:
    """What a change asks for, by the names of `change_schedule`; without what stays."""
    terms = {
        "rule": body.cron_expression, "tz": body.tz, "dst": body.dst, "task": _task(body), "args": body.args,
        "webhook": body.webhook,
        "description": body.description, "queue": body.queue, "priority": body.priority, "missed": body.missed,
        "grace": body.grace, "max_instances": body.max_instances, "max_retries": body.max_retries,
    }  # fmt: skip
    return {name: value for name, value in terms.items() if value is not None}
