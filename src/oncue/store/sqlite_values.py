"""From SQLite's values to ours and back: instants are microseconds since 1970, UUIDs and lists are text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from oncue.model import Change, Claim, Job, Node
from oncue.store import statements

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


def change_row(change: Change) -> list[Any]:
    row: list[Any] = list(change)
    row[6] = micros(change.visible_at)
    row[10] = micros_or_none(change.started_at)
    row[11] = micros_or_none(change.ended_at)
    return row


class _Instants(dict[int | None, Any]):
    """Microseconds to instants. The rows of a batch share most of theirs, and making one costs more than finding it."""

    def __missing__(self, micros: int | None) -> datetime | None:
        made = self[micros] = instant_or_none(micros)
        return made


def claims(rows: list[Any]) -> list[Claim]:
    instants = _Instants()
    for row in rows:
        row[6:11] = [instants[micros] for micros in row[6:11]]
        row[16] = bool(row[16])
    return [Claim(*row) for row in rows]


_JOB_FIELDS = tuple(name.strip() for name in statements.JOB_COLUMNS.split(","))
_JOB_INSTANTS = tuple(name for name in _JOB_FIELDS if name.endswith("_at") or name == "run_until")


def job(row: Sequence[Any]) -> Job:
    values = dict(zip(_JOB_FIELDS, row, strict=True))
    for name in _JOB_INSTANTS:
        values[name] = instant_or_none(values[name])
    values["node_id"] = uuid(values["node_id"])
    values["args"] = json.loads(values["args"])
    values["result"] = None if values["result"] is None else json.loads(values["result"])
    values["max_runtime"] = None if values["max_runtime"] is None else values["max_runtime"] / 1e6
    return Job(**values)


_NODE_FIELDS = tuple(name.strip() for name in statements.NODE_COLUMNS.split(","))


def node(row: Sequence[Any]) -> Node:
    values = dict(zip(_NODE_FIELDS, row, strict=True))
    for name in ("started_at", "beat_at", "expires_at"):
        values[name] = instant(values[name])
    for name in ("queues", "tasks"):
        values[name] = tuple(json.loads(values[name]))
    return Node(**{**values, "id": UUID(values["id"])})
