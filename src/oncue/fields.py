"""Values from outside (the environment, a file, a flag) as the type that a field of the settings declares.

Every command reads the settings first, and most commands need pydantic for nothing else: to import it takes longer than
most of them run. So these few kinds of values are read here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin

Reader: TypeAlias = Callable[[Any], Any]

_BOOLEANS = {
    **dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True),
    **dict.fromkeys(("0", "off", "f", "false", "n", "no"), False),
}


class Before(NamedTuple):
    """In an `Annotated` hint: what is done to a value before it is read as its type."""

    prepare: Reader


def field(
    default: Any = dataclasses.MISSING,
    *,
    default_factory: Any = dataclasses.MISSING,
    ge: float | None = None,
    le: float | None = None,
    max_length: int | None = None,
    unit: str = "",
) -> Any:
    """A field of a dataclass with the least and the most that it may be, in which unit, or how long."""
    bounds = {"ge": ge, "le": le, "max_length": max_length, "unit": unit}
    if default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=default_factory, metadata=bounds)
    return dataclasses.field(default=default, metadata=bounds)


def default_of(declared: dataclasses.Field[Any]) -> Any:
    if declared.default_factory is not dataclasses.MISSING:
        return declared.default_factory()
    return declared.default


def read(declared: dataclasses.Field[Any], hint: Any, value: Any) -> Any:
    """The value as its field's type. Raises ValueError, saying what was expected."""
    return _within(reader(hint)(value), **declared.metadata)


def _within(
    value: Any, ge: float | None = None, le: float | None = None, max_length: int | None = None, unit: str = ""
) -> Any:
    """The same value, if its bounds allow it."""
    if value is None:
        return None
    if ge is not None and value < ge:
        raise ValueError(f"expected at least {ge:,}{unit}")
    if le is not None and value > le:
        raise ValueError(f"expected at most {le:,}{unit}")
    if max_length is not None and len(value) > max_length:
        raise ValueError(f"expected at most {max_length} characters")
    return value


def reader(hint: Any) -> Reader:
    """What reads values of this type."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind is Annotated:
        return _annotated(reader(parts[0]), parts[1:])
    if kind is Literal:
        return lambda value: _one_of(value, parts)
    if kind in (Union, UnionType):
        (inner,) = (part for part in parts if part is not type(None))
        return lambda value: None if value is None else reader(inner)(value)
    if kind is tuple:
        return lambda value: tuple(map(reader(parts[0]), _sequence(value)))
    return _PLAIN[hint]


def _annotated(inner: Reader, notes: tuple[Any, ...]) -> Reader:
    """What the notes of an `Annotated` hint ask for: `Before`, or a `field` with bounds."""
    for note in notes:
        inner = _noted(inner, note)
    return inner


def _noted(inner: Reader, note: Any) -> Reader:
    if isinstance(note, Before):
        return lambda value: inner(note.prepare(value))
    if isinstance(note, dataclasses.Field):
        return lambda value: _within(inner(value), **note.metadata)
    raise TypeError(f"expected Before or field in an Annotated hint, not {note!r}")


def _one_of(value: Any, known: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in known:
        *others, last = (repr(word) for word in known)
        raise ValueError(f"expected {', '.join(others)} or {last}")
    return value


def _sequence(value: Any) -> list[Any] | tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError("expected a list of names")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("expected a text")
    return value


def _whole(value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("expected a whole number") from None
    if isinstance(value, bool) or (isinstance(value, float) and number != value):
        raise ValueError("expected a whole number")
    return number


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError("expected a number") from None


def _boolean(value: Any) -> bool:
    found = _BOOLEANS.get(str(value).lower()) if isinstance(value, str | bool | int) else None
    if found is None:
        raise ValueError("expected true or false")
    return found


_PLAIN: dict[Any, Reader] = {str: _text, int: _whole, float: _number, bool: _boolean}
