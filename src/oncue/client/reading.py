"""Turns JSON documents into records. Fields that nobody here knows are left out: the server may be newer.

A field that is not there gets its default, or None where it may be None: the server may be older.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints
from uuid import UUID

from oncue.identity import job_created_at
from oncue.model import Receipt
from oncue.records.documents import ALIAS

T = TypeVar("T")
Reader: TypeAlias = Callable[[Any], Any]


class Unreadable(ValueError):
    """A document is not what it should be."""


class _Field(NamedTuple):
    name: str
    told_as: str
    read: Reader
    may_be_absent: bool
    default: Any


def record(kind: type[T]) -> Callable[[Any], T]:
    """Reads documents as records of this kind."""
    return partial(_read, kind)


def receipt(document: Any) -> Receipt:
    """A job's uid tells when the job was made, so that a receipt over HTTP is as good as any other."""
    return Receipt(document["id"], job_created_at(UUID(document["uid"])), document["created"])


def _read(kind: type[T], document: Any) -> T:
    if not isinstance(document, dict):
        raise Unreadable(f"{kind.__name__}: expected an object, not {document!r:.60}")
    return kind(**{known.name: _value(kind, known, document) for known in _fields(cast(Any, kind))})


def _value(kind: type, known: _Field, document: dict[str, Any]) -> Any:
    try:
        value = document[known.told_as]
    except KeyError:
        if known.may_be_absent:
            return known.default
        raise Unreadable(f"{kind.__name__}: {known.told_as}: expected, and not there") from None
    try:
        return known.read(value)
    except (TypeError, ValueError) as error:
        raise Unreadable(f"{kind.__name__}: {known.told_as}: {error}") from None


@cache
def _fields(kind: Any) -> tuple[_Field, ...]:
    hints = get_type_hints(kind)
    return tuple(_field(known, hints[known.name]) for known in fields(kind))


def _field(known: Any, hint: Any) -> _Field:
    has_default = known.default is not MISSING or known.default_factory is not MISSING
    default = known.default if known.default is not MISSING else known.default_factory() if has_default else None
    may_be_absent = has_default or hint is Any or NoneType in get_args(hint)
    return _Field(known.name, known.metadata.get(ALIAS, known.name), _reader(hint), may_be_absent, default)


def _reader(hint: Any) -> Reader:
    """What makes a value of this type of what JSON has. Texts stay texts: a newer server may know more states."""
    if hint is datetime:
        return datetime.fromisoformat
    if hint is date:
        return date.fromisoformat
    if hint is UUID:
        return UUID
    if hint is float:
        return float
    if is_dataclass(hint) and isinstance(hint, type):
        return record(hint)
    if get_origin(hint) in (Union, UnionType):
        return _choice([_reader(part) for part in get_args(hint) if part is not NoneType])
    if get_origin(hint) is tuple:
        return _several(_reader(get_args(hint)[0]))
    return _as_it_is


def _several(read: Reader) -> Reader:
    return lambda values: tuple(read(value) for value in values)


def _choice(readers: list[Reader]) -> Reader:
    """The last one reads texts; None, and numbers where there is a choice, are what they are."""

    def read(value: Any) -> Any:
        return value if value is None or (len(readers) > 1 and isinstance(value, int)) else readers[-1](value)

    return read


def _as_it_is(value: Any) -> Any:
    return value
