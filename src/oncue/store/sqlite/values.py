"""From SQLite's values to ours and back: instants are microseconds since 1970, UUIDs and lists are text."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from oncue.model import Batch, Change, Claim, Decided, Due, Job, Lease, Node, OpenJob, Receipt, Revision, Schedule, Slot
from oncue.store import statements
from oncue.store.shared import ROW, Endings, duplicate_record, loaded

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def micros(instant: datetime) -> int:
    return (instant - _EPOCH) // _MICROSECOND


def micros_or_none(instant: datetime | None) -> int | None:
    return None if instant is None else (instant - _EPOCH) // _MICROSECOND


def instant(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def instant_or_none(micros: int | None) -> datetime | None:
    return None if micros is None else _EPOCH + timedelta(microseconds=micros)


def uuid(text: str | None) -> UUID | None:
    return None if text is None else UUID(text)


def batch(batch: Batch, skip: Container[int] = ()) -> dict[str, Any]:
    """The parameters that write a batch of jobs, without those that are there already."""
    keys: Sequence[str | None] = batch.keys or [None] * len(batch.ids)
    jobs = zip(batch.ids, batch.args, keys, strict=True)
    return {
        "jobs": json.dumps([job for job in jobs if job[0] not in skip]),
        "task": batch.task,
        "queue": batch.queue,
        "priority": batch.priority,
        "state": batch.state,
        "options": batch.options,
        "max_retries": batch.max_retries,
        "max_runtime": None if batch.max_runtime is None else round(batch.max_runtime * 1e6),
        "created_at": micros(batch.created_at),
        "visible_at": micros(batch.visible_at),
        "deadline_at": micros_or_none(batch.deadline_at),
        "enqueued_by": batch.enqueued_by,
        "retry_of": batch.retry_of,
        "order_at": micros(batch.order_at or batch.created_at),
        "group_name": batch.group,
        "address": batch.address,
    }


def wakes_group(batch: Batch) -> bool:
    return batch.group is not None and batch.state == "queued"


def identity(batch: Batch) -> dict[str, Any]:
    return {"ids": json.dumps(batch.ids), "task": batch.task, "created_at": micros(batch.created_at)}


def keys(batch: Batch) -> dict[str, Any]:
    return {"task": batch.task, "keys": json.dumps(batch.keys)}


def receipts(
    batch: Batch, written: Mapping[int, Receipt | None], standing: Sequence[tuple[str, int, int]]
) -> list[Receipt]:
    """What became of each job of a batch with keys: it was written, or another one stands in its way, or did."""
    others = {key: Receipt(job_id, instant(created_at), False) for key, job_id, created_at in standing}
    return [
        (written[job_id] or Receipt(job_id, batch.created_at, True)) if job_id in written else others[key]
        for job_id, key in zip(batch.ids, batch.keys or (), strict=True)
    ]


def unrecorded_duplicates(batch_: Batch, receipts: Sequence[Receipt], known: Container[int]) -> dict[str, Any] | None:
    """The parameters that take the ids of jobs for which others stand, if there are any that are not taken yet."""
    rows = [
        (job_id, args, key, duplicate_record(receipt))
        for job_id, args, key, receipt in zip(batch_.ids, batch_.args, batch_.keys or (), receipts, strict=True)
        if not receipt.created and job_id not in known
    ]
    return {**batch(batch_), "state": "skipped", "jobs": json.dumps(rows)} if rows else None


def change_rows(made: Endings) -> list[tuple[Any, ...]]:
    """The rows of some changes, as `load_changes` takes them, with their numbers."""
    rows = zip(made.rows, made.guards, made.next_days, strict=True)
    return [
        (number, *_change_row(row), *_guard_row(guard), *_next_row(day))
        for number, (row, guard, day) in enumerate(rows)
    ]


def alike_changes(made: Endings) -> dict[str, Any]:
    """The parameters of `load_alike_changes`."""
    first, days = made.rows[0], made.next_days
    own = [(row.id, row.claim_no, day[0]) for row, day in zip(made.rows, days, strict=True)]
    names = ("next_version", "next_day", "next_opens_at", "next_cutoff_at", "bucket")
    told = zip(Change._fields, _change_row(first), strict=False)
    return {"own": json.dumps(own), **dict(told), **dict(zip(names, _next_row(days[0]), strict=True))}


def _guard_row(guard: Sequence[Any]) -> tuple[Any, ...]:
    leader, epoch, leads = guard
    return (None, None, None) if leads is None else (str(leader), epoch, leads)


def _next_row(told: Sequence[Any]) -> tuple[Any, ...]:
    version, day, opens_at, cutoff_at, bucket = told
    if version is None:
        return (None,) * 5
    return version, day.isoformat(), micros(opens_at), micros(cutoff_at), bucket


def _change_row(change: Change) -> list[Any]:
    row: list[Any] = list(change[:ROW])
    row[6] = micros(change.visible_at)
    row[10] = micros_or_none(change.started_at)
    row[11] = micros_or_none(change.ended_at)
    return row


def plain_changes(columns: Sequence[tuple[Any, ...]], now: datetime) -> dict[str, Any]:
    """What is written of plain successes, from their ids, fences, begins and ends."""
    ids, fences, begins, ends = columns
    rows = zip(ids, fences, map(micros_or_none, begins), map(micros_or_none, ends), strict=True)
    return {"changes": json.dumps(list(rows)), "now": micros(now)}


class Instants(dict[int | None, Any]):
    """Microseconds to instants. The rows of a batch share most of theirs, and making one costs more than finding it."""

    def __missing__(self, micros: int | None) -> datetime | None:
        made = self[micros] = instant_or_none(micros)
        return made


def claims(rows: list[Any]) -> list[Claim]:
    instants = Instants()
    for row in rows:
        row[6:11] = [instants[micros] for micros in row[6:11]]
        row[16] = bool(row[16])
        row[17:19] = [instants[micros] for micros in row[17:19]]
    return [Claim(*row) for row in rows]


_OPEN_JOB_INSTANTS = tuple(
    OpenJob._fields.index(name) for name in ("visible_at", "claimed_at", "started_at", "cancel_requested_at")
)


def open_jobs(rows: Sequence[Sequence[Any]]) -> list[OpenJob]:
    columns: list[Iterable[Any]] = list(zip(*rows, strict=True))
    instants = Instants()
    for place in _OPEN_JOB_INSTANTS if columns else ():
        columns[place] = map(instants.__getitem__, columns[place])
    return list(map(OpenJob, *columns)) if columns else []


_JOB_FIELDS = tuple(name.strip() for name in statements.JOB_COLUMNS.split(","))
_JOB_INSTANTS = tuple(
    name for name in _JOB_FIELDS if name.endswith("_at") or name in ("run_until", "scheduled_for", "start_by")
)


def job(row: Sequence[Any]) -> Job:
    values = dict(zip(_JOB_FIELDS, row, strict=True))
    for name in _JOB_INSTANTS:
        values[name] = instant_or_none(values[name])
    values["node_id"] = uuid(values["node_id"])
    for name in ("args", "result", "details"):
        values[name] = loaded(values[name])
    values["max_runtime"] = None if values["max_runtime"] is None else values["max_runtime"] / 1e6
    return Job(**values)


_NODE_FIELDS = tuple(name.strip() for name in statements.NODE_COLUMNS.split(","))


def registration(node: Node) -> dict[str, Any]:
    return {
        "id": str(node.id),
        "name": node.name,
        "host": node.host,
        "pid": node.pid,
        "boot_id": node.boot_id,
        "version": node.version,
        "queues": json.dumps(node.queues),
        "tasks": json.dumps(node.tasks),
        "concurrency": node.concurrency,
        "address": node.address,
        "started_at": micros(node.started_at),
        "beat_at": micros(node.beat_at),
        "expires_at": micros(node.expires_at),
        "process_start": node.process_start,
        "exclusive": node.exclusive,
        "schedules": json.dumps(node.schedules),
        "beat_no": node.beat_no,
    }


def node(row: Sequence[Any]) -> Node:
    values = dict(zip(_NODE_FIELDS, row, strict=True))
    for name in ("started_at", "beat_at", "expires_at"):
        values[name] = instant(values[name])
    for name in ("queues", "tasks", "schedules"):
        values[name] = tuple(json.loads(values[name]))
    for name in ("exclusive", "named"):
        values[name] = bool(values[name])
    return Node(**{**values, "id": UUID(values["id"])})


_SCHEDULE_FIELDS = tuple(statements.SCHEDULE_COLUMNS.split(", "))
_REVISION_FIELDS = tuple(statements.REVISION_COLUMNS.split(", "))
_SCHEDULE_INSTANTS = frozenset({"cursor", "horizon"})
_DURATIONS = frozenset({"grace", "max_runtime", "deadline"})


def schedule(row: Sequence[Any]) -> Schedule:
    return Schedule(**_read_fields(_SCHEDULE_FIELDS, row))


def revision(row: Sequence[Any]) -> Revision:
    return Revision(**_read_fields(_REVISION_FIELDS, row))


def _read_fields(names: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    return {name: _read_field(name, value) for name, value in zip(names, row, strict=True)}


def _read_field(name: str, value: Any) -> Any:
    if name == "enabled":
        return bool(value)
    if value is not None and _is_instant(name):
        return instant(value)
    return value / 1e6 if value is not None and name in _DURATIONS else value


def fields(record: Schedule | Revision) -> dict[str, Any]:
    """The parameters that a row of this record needs."""
    names = _SCHEDULE_FIELDS if isinstance(record, Schedule) else _REVISION_FIELDS
    return {name: _written_field(name, getattr(record, name)) for name in names}


def _written_field(name: str, value: Any) -> Any:
    if value is not None and _is_instant(name):
        return micros(value)
    return round(value * 1e6) if value is not None and name in _DURATIONS else value


def _is_instant(name: str) -> bool:
    return name.endswith("_at") or name in _SCHEDULE_INSTANTS


def due(row: Sequence[Any]) -> Due:
    values = list(row)
    values[3:6] = map(instant, row[3:6])
    values[10] = timedelta(microseconds=row[10])
    values[12] = json.loads(row[12])[: row[11]]
    values[13] = [instant(taken) for taken in json.loads(row[13])]
    return Due._make(values)


_SLOT_INSTANTS = (1, 2, 9, 14, 15)


def slot(row: Sequence[Any]) -> Slot:
    values = list(row)
    for place in _SLOT_INSTANTS:
        values[place] = instant_or_none(row[place])
    values[10] = uuid(row[10])
    return Slot(*values)


def lease(row: Sequence[Any]) -> Lease:
    return Lease(row[0], UUID(row[1]), row[2], row[3], *map(instant, row[4:7]))


def decided_row(decided: Decided) -> list[Any]:
    return [micros(decided.scheduled_for), *decided[1:5], micros_or_none(decided.until), decided.slots]


def tallies(counted: Mapping[tuple[Any, ...], int]) -> list[dict[str, Any]]:
    """How often days came to what: by the window, the day, the minute of the cutoff and the event."""
    names = ("schedule_id", "day", "bucket", "event", "subjects")
    return [dict(zip(names, (*day, count), strict=True)) for day, count in counted.items()]
