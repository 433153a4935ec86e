"""How a record becomes a JSON document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime
from functools import cache
from typing import Any, TypeAlias
from uuid import UUID

Document: TypeAlias = dict[str, Any]

ALIAS = "alias"
"""In a field's metadata: its name in documents, where that is not the name that it has in the Python API."""


def rules(*examples: Mapping[str, Any], partial: bool = False) -> dict[str, Any]:
    """How FastAPI reads a record: its fields and no others.

    Unless it is `partial`, an answer has them all, and a default is only what the client assumes of an older server.
    """

    def describe(schema: dict[str, Any], kind: type) -> None:
        from oncue.records.descriptions import of_fields

        for name, description in of_fields(kind).items():
            schema["properties"][name]["description"] = description
        for known in () if partial else schema["properties"].values():
            known.pop("default", None)
        if examples:
            schema["examples"] = [*examples]

    return {
        "extra": "forbid",
        "json_schema_serialization_defaults_required": not partial,
        "json_schema_extra": describe,
    }


RULES = rules()


def instant(moment: datetime | None) -> str | None:
    """In UTC, written with a Z."""
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def milliseconds(start: datetime | None, end: datetime | None) -> float | None:
    """How long something took, once it ended."""
    return None if start is None or end is None else round((end - start).total_seconds() * 1000, 3)


def document(record: Any) -> Document:
    """A record as JSON has it."""
    return {told_as: _value(getattr(record, name)) for name, told_as in _names(record.__class__)}


@cache
def _names(kind: Any) -> tuple[tuple[str, str], ...]:
    return tuple((known.name, known.metadata.get(ALIAS, known.name)) for known in fields(kind))


def _value(value: Any) -> Any:
    write = _writer(value.__class__)
    return value if write is None else write(value)


@cache
def _writer(kind: Any) -> Callable[[Any], Any] | None:
    """What writes values of this class. Those of a driver may be of a subclass: asyncpg has UUIDs of its own."""
    for known, write in ((datetime, instant), (date, date.isoformat), (UUID, str), (tuple, _several)):
        if issubclass(kind, known):
            return write
    return document if is_dataclass(kind) else None


def _several(values: Sequence[Any]) -> list[Any]:
    return [_value(value) for value in values]
