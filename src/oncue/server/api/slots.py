"""The slots of a schedule: those to come, those that were, and running some by hand."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query
from starlette.requests import Request

from oncue.model import Revision, Schedule
from oncue.policy.checks import EARLIEST
from oncue.policy.triggers import TICK, trigger_of
from oncue.records.documents import instant
from oncue.records.schedules import AuditRecord, audit_record, fire_record, revision_record, slot_record
from oncue.server.api import pages
from oncue.server.api.documents import changing, looking
from oncue.server.api.idempotency import REPEATABLE
from oncue.server.api.identity import Caller
from oncue.server.api.models.base import LARGEST_ID
from oncue.server.api.models.schedules import (
    Backfill,
    Preview,
    Revisions,
    SlotPage,
    Span,
    Trigger,
    TriggeredSlot,
)
from oncue.server.api.moments import moment
from oncue.server.api.naming import naming
from oncue.server.api.pages import Limit
from oncue.server.api.problems import Answer, invalid, made
from oncue.server.api.references import ScheduleRef, schedule_named
from oncue.server.api.routing import LONG_SECONDS, Routes
from oncue.server.api.schedules import PREFIX, TAG
from oncue.verbs.schedules.reading import AUDITED

if TYPE_CHECKING:
    from oncue.app import Oncue

MOST_PREVIEWED = 1000
MOST_AUDITED = 50_000

WHEN = "ISO 8601 (UTC unless it has an offset), a date, `now`, or a duration ago such as `-2h`."
From = Annotated[str | None, Query(alias="from", description=f"The first slot: {WHEN}", examples=["-24h"])]
To = Annotated[str | None, Query(alias="to", description="The last slot.", examples=["now"])]
After = Annotated[str | None, Query(description="Only rows that begin after this: where the last page ended.")]

BeforeRevision = Annotated[
    int | None, Query(ge=1, le=LARGEST_ID, description="Only revisions with a smaller number: the page before.")
]


def add(routes: Routes, app: Oncue) -> None:
    _add_looking(routes, app)
    _add_by_hand(routes, app)


def _add_looking(routes: Routes, app: Oncue) -> None:
    @routes.get(f"{PREFIX}/{{id:path}}/preview", **looking(TAG, "Show the next slots", Preview, 404))
    async def preview_schedule(
        id: ScheduleRef,
        count: Annotated[int, Query(ge=1, le=MOST_PREVIEWED)] = 10,
        start: Annotated[str | None, Query(alias="from", description=f"Instead of now: {WHEN}")] = None,
    ) -> Answer:
        """The slots to come, whether the schedule is enabled or not, with what a change of the clocks does to them."""
        schedule = await schedule_named(app, id)
        with naming():
            fires = await app.schedules.preview(schedule.name, count, await _moment(app, start, "from"))
        return Answer({"schedule": schedule.name, "fires": [fire_record(fire, schedule.tz) for fire in fires]})

    @routes.get(f"{PREFIX}/{{id:path}}/revisions", **looking(TAG, "Show what a schedule has been", Revisions, 404))
    async def list_revisions(
        request: Request, id: ScheduleRef, before: BeforeRevision = None, limit: Limit = 100
    ) -> Answer:
        """What it has been, newest first; of a deleted one too."""
        schedule = await schedule_named(app, id, deleted=True)

        async def read(last: Revision | None, most: int) -> list[Revision]:
            reached = before if last is None else last.revision
            return await app.schedules.revisions(schedule.name, before=reached, limit=most)

        return await pages.in_parts(
            request, "revisions", read, limit, revision_record, before=lambda revision: revision.revision
        )

    @routes.get(f"{PREFIX}/{{id:path}}/slots", **looking(TAG, "Show the ledger", SlotPage, 404))
    async def list_slots(
        request: Request, id: ScheduleRef, start: From = None, end: To = None, after: After = None, limit: Limit = 100
    ) -> Answer:
        """The ledger's rows, oldest first: the last ones, or those of a span of time."""
        schedule = await schedule_named(app, id, deleted=True)
        if start is None and end is None and after is None:
            latest = await app.schedules.latest_slots(schedule.name, limit)
            return await pages.answer(request, "slots", latest, limit, slot_record)
        now = await app.now()
        first, last = moment(start or "-24h", "from", now), moment(end or "now", "to", now)
        seen = EARLIEST if after is None else moment(after, "after", now)
        with naming():
            found = await app.schedules.slots(schedule.name, max(first, seen + TICK), last, limit + 2)
        # A run of slots that began on the page before may reach into this one: it was shown there.
        rows = [row for row in found if row.scheduled_for > seen]
        return await pages.answer(
            request, "slots", rows, limit, slot_record, after=lambda row: instant(row.scheduled_for)
        )

    @routes.get(f"{PREFIX}/{{id:path}}/audit", **looking(TAG, "Audit a schedule", AuditRecord, 404))
    async def audit_schedule(
        id: ScheduleRef,
        start: From = None,
        end: To = None,
        problems: Annotated[bool, Query(description="Only what should not be.")] = False,
    ) -> Answer:
        """What became of every slot that it should have had, by default in the last 24 hours. `holds` is false if one
        is doubled, unaccounted for, lost or unexpected. A deleted schedule can be audited too."""
        schedule, now = await schedule_named(app, id, deleted=True), await app.now()
        last = moment(end or "now", "to", now)
        first = last - AUDITED if start is None else moment(start, "from", now)
        _refuse_many(schedule, first, min(last, now))
        with naming():
            evidence = await app.schedules.evidence(schedule.name, first, last)

        def document() -> Any:
            found = evidence()
            return audit_record(schedule.name, found, found.problems if problems else found.fates)

        return await made(document)


def _add_by_hand(routes: Routes, app: Oncue) -> None:
    @routes.post(
        f"{PREFIX}/{{id:path}}/trigger", needs="operate",
        **changing(TAG, "Run a schedule's task", TriggeredSlot, 404, 409, status=201),
    )  # fmt: skip
    async def trigger_schedule(request: Request, id: ScheduleRef, by: Caller, body: Trigger | None = None) -> Answer:
        """With `at` that slot is claimed, and refused if it was decided already. Without, the task runs now, in an
        extra slot. Either is refused while `max_instances` of its jobs are unfinished."""
        schedule = await schedule_named(app, id)
        at = await _moment(app, None if body is None else body.at, "at")
        with naming():
            slot = await (
                app.schedules.run_now(schedule.name, by=by)
                if at is None
                else app.schedules.trigger(schedule.name, at, by=by)
            )
        place = f"{request.scope.get('root_path', '')}/api/admin/jobs/{slot.job_id}"
        return Answer({"schedule": schedule.name, **slot_record(slot)}, 201, headers={"Location": place})

    @routes.post(
        f"{PREFIX}/{{id:path}}/backfill", needs="operate", keeping=REPEATABLE, patience=LONG_SECONDS,
        **changing(TAG, "Run slots of the past", Backfill, 404, 409),
    )  # fmt: skip
    async def backfill_schedule(id: ScheduleRef, body: Span, by: Caller) -> Answer:
        """Jobs for the slots of a span that are not decided: repeating it makes nothing. They run oldest first, as
        many at once as `max_instances`. Where the task declares a key, one job stands for all of them."""
        schedule, now = await schedule_named(app, id), await app.now()
        first, last = moment(body.start, "from", now), moment(body.end, "to", now)
        said: dict[str, Any] = {
            "schedule": schedule.name, "from": instant(first), "to": instant(last),
        }  # fmt: skip
        with naming():
            if body.dry_run:
                absent = await app.schedules.undecided(schedule.name, first, last)
                present = trigger_of(schedule).count(first - TICK, last) - len(absent)
                would = {"made": 0, "present": present, "jobs": [], "would_make": len(absent)}
                return await made(lambda: {**said, **would, "slots": [instant(slot) for slot in absent]})
            done = await app.schedules.backfill(schedule.name, first, last, by=by)
        written = {"made": len(done.jobs), "present": done.present, "skipped": done.skipped, "jobs": list(done.jobs)}
        return Answer({**said, **written})


def _refuse_many(schedule: Schedule, start: datetime, end: datetime) -> None:
    """An audit works out every slot."""
    since = max(start, schedule.created_at)
    slots = trigger_of(schedule).count(since, end) if since < end else 0
    if slots > MOST_AUDITED:
        raise invalid("from", f"expected a span with at most {MOST_AUDITED:,} slots, not {slots:,}: take it in parts")


async def _moment(app: Oncue, text: str | None, field: str) -> datetime | None:
    return None if text is None else moment(text, field, await app.now())
