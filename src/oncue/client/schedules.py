"""The verbs on schedules and their slots. A schedule is named by its name, or by its number.

Instants are datetimes with a time zone, or what the API understands besides: `now`, a date, or so long ago (`-7d`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from oncue.client import reading, requests
from oncue.client.records import Backfilled
from oncue.client.requests import Page, Request, checked_key, given, moment, query, seconds, segment
from oncue.model import Missed
from oncue.policy.durations import Duration
from oncue.records.schedules import (
    AuditRecord,
    ComparisonRecord,
    FireRecord,
    RevisionRecord,
    ScheduleRecord,
    SlotRecord,
)

if TYPE_CHECKING:
    from oncue.policy.triggers import DstPolicy, Rule

PREFIX = "/api/admin/scheduled-jobs"

_schedule = reading.record(ScheduleRecord)
_slot = reading.record(SlotRecord)


def schedules(*, after: str = "", limit: int = 100) -> Request[list[ScheduleRecord]]:
    """Schedules by name, up to 1,000. `after` is the name to go on from."""
    wanted = query(after=after or None, limit=limit)
    return Request("GET", PREFIX, requests.rows(_schedule, "scheduled_jobs"), wanted, about="schedule")


def all_schedules(*, page: int = 500) -> Request[Page[ScheduleRecord]]:
    """Every schedule by name, fetched page by page as you go on."""
    return Request("GET", PREFIX, requests.page(_schedule, "scheduled_jobs"), query(limit=page), about="schedule")


def schedule(name: str | int) -> Request[ScheduleRecord]:
    """One schedule. Raises ScheduleNotFound."""
    return Request("GET", _path(name), _schedule, about="schedule")


# --- editing --------------------------------------------------------------------------------------------------------


def create_schedule(
    name: str,
    rule: Rule | str,
    task: str | None = None,
    args: Mapping[str, Any] | None = None,
    *,
    webhook: str | None = None,
    description: str | None = None,
    queue: str | None = None,
    priority: int | None = None,
    missed: Missed | None = None,
    grace: Duration | None = None,
    max_instances: int | None = None,
    max_retries: int | None = None,
    enabled: bool = True,
    idempotency_key: str | None = None,
) -> Request[ScheduleRecord]:
    """Make a schedule: `rule` is `cron("0 3 * * *", tz="Europe/Berlin")` or an expression, in UTC. Its target is a task
    or a webhook.

    Its first slot is the first one after now. Raises Conflict if the name is taken, InvalidSchedule with the field and
    the position in the expression, and UnknownTask.
    """
    terms = _terms(
        rule, None, None, task, args, description, queue, priority, missed, grace, max_instances, max_retries, webhook
    )
    body = requests.body({"name": name, **terms, "enabled": enabled})
    return Request("POST", PREFIX, _schedule, body=body, key=checked_key(idempotency_key), about="schedule")


def change_schedule(
    name: str | int,
    *,
    rule: Rule | str | None = None,
    tz: str | None = None,
    dst: DstPolicy | None = None,
    task: str | None = None,
    args: Mapping[str, Any] | None = None,
    webhook: str | None = None,
    description: str | None = None,
    queue: str | None = None,
    priority: int | None = None,
    missed: Missed | None = None,
    grace: Duration | None = None,
    max_instances: int | None = None,
    max_retries: int | None = None,
    enabled: bool | None = None,
    new_name: str | None = None,
) -> Request[ScheduleRecord]:
    """Change what is given; the rest stays. The edit is a new revision and starts from now.

    A rule that is only an expression keeps the time zone and the DST policy, unless they are given too. Under a new
    name it stays the same schedule, with its revisions and its slots. Raises Conflict if that is another's.
    """
    terms = _terms(
        rule, tz, dst, task, args, description, queue, priority, missed, grace, max_instances, max_retries, webhook
    )
    body = requests.body(given({**terms, "enabled": enabled, "name": new_name}))
    renamed = None if new_name is None else schedule(new_name)
    return Request("PUT", _path(name), _schedule, body=body, about="schedule", moved_to=renamed)


def toggle_schedule(name: str | int, enabled: bool) -> Request[ScheduleRecord]:
    """Enable or disable a schedule, one declared in code too. What was due meanwhile is not fired later."""
    body = requests.body({"enabled": enabled})
    return Request("POST", f"{_path(name)}/toggle", _schedule, body=body, about="schedule")


def delete_schedule(name: str | int) -> Request[None]:
    """Delete a schedule. Its slots stay in the ledger, so that no later one of its name fires them again."""
    return Request("DELETE", _path(name), lambda _: None, about="schedule", gone_is_done=True)


# --- looking --------------------------------------------------------------------------------------------------------


def preview(name: str | int, count: int = 10, start: datetime | str | None = None) -> Request[list[FireRecord]]:
    """The next slots of a schedule, or those from `start` on, whether it is enabled or not."""
    read = requests.rows(reading.record(FireRecord), "fires")
    return Request("GET", f"{_path(name)}/preview", read, query(count=count, from_=moment(start)), about="schedule")


def preview_change(
    name: str | int,
    *,
    count: int = 10,
    rule: Rule | str | None = None,
    tz: str | None = None,
    dst: DstPolicy | None = None,
    task: str | None = None,
    args: Mapping[str, Any] | None = None,
    webhook: str | None = None,
    description: str | None = None,
    queue: str | None = None,
    priority: int | None = None,
    missed: Missed | None = None,
    grace: Duration | None = None,
    max_instances: int | None = None,
    max_retries: int | None = None,
    enabled: bool | None = None,
    new_name: str | None = None,
) -> Request[ComparisonRecord]:
    """What `change` would do to the next slots, also of a schedule that code declares, which cannot be changed there.
    Raises what `change` would raise."""
    terms = _terms(
        rule, tz, dst, task, args, description, queue, priority, missed, grace, max_instances, max_retries, webhook
    )
    body = requests.body(given({**terms, "enabled": enabled, "name": new_name}))
    read = reading.record(ComparisonRecord)
    return Request("POST", f"{_path(name)}/preview", read, query(count=count), body=body, about="schedule")


def revisions(name: str | int, *, before: int | None = None, limit: int = 100) -> Request[list[RevisionRecord]]:
    """What a schedule has been, newest first; of a deleted one too. The last `limit` revisions, or the last ones before
    the revision with the number `before`."""
    read = requests.rows(reading.record(RevisionRecord), "revisions")
    return Request("GET", f"{_path(name)}/revisions", read, query(before=before, limit=limit), about="schedule")


def slots(name: str | int, start: datetime | str, end: datetime | str, limit: int = 1000) -> Request[list[SlotRecord]]:
    """The ledger's rows from `start` to `end`, oldest first, up to 1,000."""
    return _slots(name, query(from_=moment(start), to=moment(end), limit=limit))


def latest_slots(name: str | int, count: int = 10) -> Request[list[SlotRecord]]:
    """The ledger's last rows, oldest first; of slots to come that were taken by hand too."""
    return _slots(name, query(limit=count))


def all_slots(
    name: str | int, start: datetime | str, end: datetime | str, *, page: int = 500
) -> Request[Page[SlotRecord]]:
    """Every row of the ledger from `start` to `end`, oldest first, fetched page by page as you go on."""
    wanted = query(from_=moment(start), to=moment(end), limit=page)
    return Request("GET", f"{_path(name)}/slots", requests.page(_slot, "slots"), wanted, about="schedule")


def audit(
    name: str | int, start: datetime | str | None = None, end: datetime | str | None = None
) -> Request[AuditRecord]:
    """What became of every slot that the schedule should have had, by default in the last day."""
    wanted = query(from_=moment(start), to=moment(end))
    return Request("GET", f"{_path(name)}/audit", reading.record(AuditRecord), wanted, about="schedule")


# --- by hand --------------------------------------------------------------------------------------------------------


def trigger(name: str | int, at: datetime | str) -> Request[SlotRecord]:
    """Claim the slot `at` and run it now. Raises Conflict if it was decided already, or if a run is on."""
    return Request("POST", f"{_path(name)}/trigger", _slot, body=requests.body({"at": moment(at)}), about="schedule")


def run_now(name: str | int) -> Request[SlotRecord]:
    """Run the schedule's task now, in an extra slot: no regular one is used up. Raises Conflict if a run is on."""
    return Request("POST", f"{_path(name)}/trigger", _slot, about="schedule")


def backfill(name: str | int, start: datetime | str, end: datetime | str = "now") -> Request[Backfilled]:
    """Run the slots from `start` to `end` that nobody has decided. Repeating it makes nothing."""
    return _backfill(name, start, end, dry_run=False)


def undecided(name: str | int, start: datetime | str, end: datetime | str = "now") -> Request[list[datetime]]:
    """The slots from `start` to `end` that nobody has decided: what `backfill` would run."""
    asked = _backfill(name, start, end, dry_run=True)
    return Request("POST", asked.path, _instants, body=asked.body, about="schedule", is_long=True)


def _backfill(name: str | int, start: datetime | str, end: datetime | str, *, dry_run: bool) -> Request[Backfilled]:
    body = requests.body({"from": moment(start), "to": moment(end), "dry_run": dry_run})
    read = reading.record(Backfilled)
    return Request("POST", f"{_path(name)}/backfill", read, body=body, about="schedule", is_long=True)


def _instants(document: Any) -> list[datetime]:
    return [datetime.fromisoformat(slot) for slot in document["slots"]]


# --- what these stand on --------------------------------------------------------------------------------------------


def _path(name: str | int) -> str:
    return f"{PREFIX}/{segment(name)}"


def _slots(name: str | int, wanted: requests.Query) -> Request[list[SlotRecord]]:
    return Request("GET", f"{_path(name)}/slots", requests.rows(_slot, "slots"), wanted, about="schedule")


def _terms(
    rule: Rule | str | None, tz: str | None, dst: DstPolicy | None, task: str | None, args: Mapping[str, Any] | None,
    description: str | None, queue: str | None, priority: int | None, missed: Missed | None, grace: Duration | None,
    max_instances: int | None, max_retries: int | None, webhook: str | None,
) -> dict[str, Any]:  # fmt: skip
    whole = {} if rule is None or isinstance(rule, str) else {"tz": rule.tz, "dst": rule.dst}
    return whole | given(
        {
            "cron_expression": rule if rule is None or isinstance(rule, str) else rule.expression,
            "tz": tz,
            "dst": dst,
            "task": task,
            "webhook": webhook,
            "args": None if args is None else dict(args),
            "description": description,
            "queue": queue,
            "priority": priority,
            "missed": missed,
            "grace": seconds(grace),
            "max_instances": max_instances,
            "max_retries": max_retries,
        }
    )
