"""A job's arguments: checked against the function's type hints, and stored as JSON by name."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_type_hints

from oncue.errors import InvalidJob

if TYPE_CHECKING:
    from oncue.tasks.shapes import Shape

SLOT, DAY = "slot", "day"
PLAIN_TYPES = (str, int, bool)
ANY_SLOT = datetime(2000, 1, 1, 12, 34, 56, tzinfo=UTC)
NO_DATETIME = "expected a parameter that takes a datetime, which is what a schedule gives it"

_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class Arguments:
    """The parameters of one task's function."""

    def __init__(
        self, function: Callable[..., Any], name: str, given: Collection[str] = (), optional: Collection[str] = ()
    ) -> None:
        """`given`: the parameters that oncue gives when it calls the function; no job stores them. `optional`: those
        that a job may leave out, though the function has no default for them: the caller has one."""
        self.signature = _without(_checked_signature(function), given)
        self._function = function
        self._name = name
        parameters = self.signature.parameters.values()
        plain = all(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)
        self._optional = optional
        self._names = tuple(self.signature.parameters)
        needed = sum(parameter.default is parameter.empty for parameter in parameters)
        self._required = needed if plain else len(self._names) + 1  # keyword-only ones are left to `bind`

    def dump(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], limit: int) -> str:
        """Arguments as stored. Raises InvalidJob, naming the argument, if they do not fit the type hints."""
        if not self._names and not args and not kwargs:
            return "{}"
        named = self._named(args, kwargs)
        if not named:
            return "{}"
        text = (None if "pydantic" in sys.modules else plain_json(named, self._plain_hints)) or self._shape.dump(named)
        if len(text) > limit:
            raise InvalidJob("arguments", f"expected at most {limit} bytes of JSON, not {len(text)}")
        return text.decode()

    def _named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        if not kwargs and self._required <= len(args) <= len(self._names):
            return dict(zip(self._names, args, strict=False))  # as `bind` would, in a quarter of the time
        try:
            return self.signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise InvalidJob("arguments", f"{self._name}{self.signature} {error}", self._misfit(args, kwargs)) from None

    def _misfit(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
        """The first argument that nobody takes, or else the first that is missing."""
        parameters = self.signature.parameters
        unknown = [name for name in kwargs if name not in parameters]
        left = [one for one in list(parameters.values())[len(args) :] if one.name not in kwargs]
        missing = [one.name for one in left if one.default is one.empty]
        return next(iter(unknown + missing), None)

    def bind(self, args: str, slot: datetime | None = None) -> dict[str, Any]:
        """Stored arguments as Python values, checked against the type hints of today.

        A function with a parameter `slot` is told the slot that its job was made for.
        """
        if slot is not None and SLOT in self._names:
            args = json.dumps({SLOT: slot.isoformat(), **json.loads(args)})
        if args == "{}":
            return {}
        return self._shape.load(args)

    def bind_known(self, args: str, slot: datetime | None = None) -> dict[str, Any]:
        """The same of arguments of which the function may take only some."""
        known = {name: value for name, value in json.loads(args).items() if name in self._names}
        return self.bind(json.dumps(known), slot)

    def dump_for_slots(self, kwargs: Mapping[str, Any], limit: int) -> str:
        """The arguments of a schedule's jobs, as stored: all but the slot, which each job has of its own."""
        if SLOT not in self._names or SLOT in kwargs:
            return self.dump((), kwargs, limit)
        try:
            stored = json.loads(self.dump((), {**kwargs, SLOT: ANY_SLOT}, limit))
        except InvalidJob as error:
            if error.field.partition(".")[0] != SLOT:
                raise
            raise InvalidJob(SLOT, f"{self._name}(slot): {NO_DATETIME}") from None
        del stored[SLOT]
        return json.dumps(stored, separators=(",", ":"))

    @property
    def of_windows(self) -> tuple[str, str | None]:
        """The parameters that get a subject and its day: the first one, and `day` if there is one."""
        return self._names[0], DAY if DAY in self._names[1:] else None

    def check_for_windows(self, field: str) -> None:
        """Refuse a function that cannot be told for whom it runs. Raises ValueError."""
        if not self._names:
            raise ValueError(f"{field}: {self._name}() has no parameters; the first one gets the subject")

    def dump_for_subject(self, subject: str, own: Mapping[str, Any], limit: int) -> str:
        """The arguments of a subject's own, as stored: all but its name and the day. Raises InvalidJob."""
        whose, when = self.of_windows
        given = {whose: subject} if when is None else {whose: subject, when: ANY_SLOT.date()}
        taken = sorted(given.keys() & own.keys())
        if taken:
            raise InvalidJob(taken[0], "expected none: the window gives it")
        stored = json.loads(self.dump((), {**own, **given}, limit))
        return json.dumps({name: value for name, value in stored.items() if name not in given}, ensure_ascii=False)

    def check_for_slots(self) -> None:
        """Refuse a function that a schedule could not call without being told more. Raises ValueError."""
        parameters = self.signature.parameters.values()
        needed = [p.name for p in parameters if p.default is p.empty and p.name != SLOT]
        if needed:
            raise ValueError(
                f"schedule: {self._name} has parameters without a default ({', '.join(needed)}); a schedule gives only "
                f"`slot: datetime`. Give them defaults, or make schedules with arguments by `app.schedules.create(...)`"
            )
        if SLOT in self._names and not self._may_take_a_slot():
            raise ValueError(f"schedule: {self._name}(slot): {NO_DATETIME}")

    def _may_take_a_slot(self) -> bool:
        """Whether the hint of `slot` takes a datetime. One that cannot be worked out yet is looked at when it is used.

        Only this hint is looked at, and nothing of it is kept: others may become complete after the declaration.
        """
        try:
            hint = get_type_hints(self._function, include_extras=True).get(SLOT, datetime)
        except Exception:
            return True
        if hint is datetime:  # as nearly all are: then there is nothing to ask
            return True
        from oncue.tasks.shapes import takes

        return takes(hint, ANY_SLOT)

    @cached_property
    def _plain_hints(self) -> Mapping[str, Any]:
        """The hints of all parameters, if all of them are plain types."""
        try:
            hints = get_type_hints(self._function, include_extras=True)
        except Exception:
            return {}
        return hints if all(hints.get(name) in PLAIN_TYPES for name in self._names) else {}

    @cached_property
    def _shape(self) -> Shape:
        """Built on first use, when every name that the hints mention is defined."""
        from oncue.tasks.shapes import Shape

        parameters = self.signature.parameters.items()
        may_miss = {name: one.default is not one.empty or name in self._optional for name, one in parameters}
        return Shape(self._function, self._name, may_miss)


def plain_json(named: Mapping[str, Any], hints: Mapping[str, Any]) -> bytes | None:
    """Arguments as JSON that are exactly of the plain types that these hints name; None where pydantic is to decide.

    Pydantic would write the same, but a command that enqueues one job takes longer to import it than for all else.
    """
    if not all(type(value) is hints.get(name) for name, value in named.items()):
        return None
    try:
        return _COMPACT.encode(named).encode()
    except ValueError:  # half of a surrogate pair
        return None


def _without(signature: inspect.Signature, given: Collection[str]) -> inspect.Signature:
    own = [parameter for name, parameter in signature.parameters.items() if name not in given]
    return signature.replace(parameters=own) if given else signature


def _checked_signature(function: Callable[..., Any]) -> inspect.Signature:
    signature = inspect.signature(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ValueError(
            f"{function.__name__}: expected a function that returns, not one that yields: it would not run"
        )
    for parameter in signature.parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ValueError(
                f"{function.__name__}: expected named parameters only, not {parameter}; a job's arguments are "
                "stored by name"
            )
    return signature
