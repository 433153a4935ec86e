"""From rows of PostgreSQL to our values, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any

import asyncpg

from oncue.model import STATES, Attempt, Claim, Job, Node, Revision, Schedule
from oncue.store import statements
from oncue.store.shared import loaded, sizes

_DURATIONS = ("grace", "max_runtime", "deadline")
_CLAIMED_AT = Claim._fields.index("claimed_at")
_TOLD = Claim._fields.index("leader") - 2
_PLACE = itemgetter(_TOLD, Claim._fields.index("id"))
_PRIORITY = itemgetter(Claim._fields.index("priority"))
"""How many columns a claim is made of. A statement may tell more."""


def job(row: asyncpg.Record | Mapping[str, Any]) -> Job:
    values: dict[str, Any] = dict(row)
    assert values["state"] in STATES
    for name in ("args", "result", "details"):
        values[name] = loaded(values[name])
    if values["max_runtime"] is not None:
        values["max_runtime"] = values["max_runtime"].total_seconds()
    if "args_bytes" in values:
        values["shortened"] = sizes(*(values.pop(f"{name}_bytes") for name in statements.SHORTENED))
    return Job(**values)


def in_order(rows: list[asyncpg.Record]) -> list[asyncpg.Record]:
    """What a claim took, the most urgent first. The last column says where a job stands in its priority."""
    rows.sort(key=_PLACE)
    rows.sort(key=_PRIORITY, reverse=True)
    return rows


def claims(rows: Sequence[asyncpg.Record], now: datetime) -> list[Claim]:
    """What was claimed now. The rows have no `claimed_at` and no `started_at`: instants take long to read."""
    return [Claim(*(*row[:_CLAIMED_AT], now, None, *row[_CLAIMED_AT:_TOLD])) for row in rows]


def attempt(row: asyncpg.Record) -> Attempt:
    values = dict(row)
    return Attempt(**{**values, "details": loaded(values["details"])})


def node(row: asyncpg.Record) -> Node:
    values = dict(row)
    for name in ("queues", "tasks", "schedules"):
        values[name] = tuple(values[name])
    return Node(**values)


def schedule(row: asyncpg.Record | Mapping[str, Any]) -> Schedule:
    values: dict[str, Any] = dict(row)
    for name in _DURATIONS:
        values[name] = None if values[name] is None else values[name].total_seconds()
    return Schedule(**values)


def schedule_row(schedule: Schedule) -> list[Any]:
    return _row_of(schedule, statements.SCHEDULE_FIELDS)


def revision_row(revision: Revision) -> list[Any]:
    return _row_of(revision, statements.REVISION_COLUMNS)


def _row_of(value: Schedule | Revision, columns: str) -> list[Any]:
    names = columns.split(", ")
    values = [getattr(value, name) for name in names]
    return [
        timedelta(seconds=found) if name in _DURATIONS and found is not None else found
        for name, found in zip(names, values, strict=True)
    ]
