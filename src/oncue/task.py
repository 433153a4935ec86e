"""Tasks: named code with options. Arguments are checked against the function's type hints and stored as JSON."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cached_property, update_wrapper
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NotRequired,
    ParamSpec,
    TypeAlias,
    TypeVar,
    cast,
    get_type_hints,
)

from pydantic import ConfigDict, PydanticSchemaGenerationError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python
from typing_extensions import TypedDict

from oncue.errors import InvalidJob
from oncue.model import DEFAULT_QUEUE, MAX_PRIORITY, Delivery, Failed, Receipt
from oncue.policy.durations import Duration, seconds
from oncue.policy.options import Options
from oncue.policy.retry import DEFAULT_MAX_RETRIES, DEFAULT_POLICY, Exponential, Ladder, Policy

if TYPE_CHECKING:
    from oncue.app import Oncue

P = ParamSpec("P")
R = TypeVar("R")

RetryRule: TypeAlias = Callable[[int, Exception], Duration | None]
"""A custom policy: (retries so far, error) to a delay, or None to give up."""

LONGEST_NAME = 128
LONGEST_KEY = 512


class _Unset:
    def __repr__(self) -> str:
        return "the default"


UNSET = _Unset()


class Task(Generic[P, R]):
    """A function that can be enqueued. Calling it runs it here and now, as if it were not a task."""

    def __init__(
        self,
        app: Oncue,
        function: Callable[P, R],
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: int = 0,
        timeout: Duration | None = None,
        max_runtime: Duration | _Unset | None = UNSET,
        deadline: Duration | None = None,
        retry: Policy | RetryRule | None = None,
        max_retries: int | None = None,
        delivery: Delivery = "at_least_once",
    ) -> None:
        self.app = app
        self.function = function
        self.name = checked_name(name or str(getattr(function, "__name__", "")), "name")
        self.queue = checked_name(queue, "queue")
        self.priority = checked_priority(priority)
        self.deadline = None if deadline is None else seconds(deadline, "deadline")
        self.is_async = inspect.iscoroutinefunction(function)
        self._rule = retry if callable(retry) else None
        self._timeout = None if timeout is None else seconds(timeout, "timeout")
        self._max_runtime = _seconds_or_unset(max_runtime)
        self._policy = _checked_policy(retry)
        self.delivery = _checked_delivery(delivery)
        self.max_retries = self._resolved_retries(max_retries, declared=retry is not None)
        self._signature = _checked_signature(function)
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    # --- enqueueing ---------------------------------------------------------------------------------------------

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Receipt:
        """Write a job and return its receipt. In async code use `aenqueue`."""
        return Call(self).enqueue(*args, **kwargs)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Receipt:
        return await Call(self).aenqueue(*args, **kwargs)

    def enqueue_many(self, rows: Iterable[Any]) -> list[Receipt]:
        """Write many jobs in one transaction. A row is a tuple of arguments, a mapping of them, or the only one."""
        return Call(self).enqueue_many(rows)

    async def aenqueue_many(self, rows: Iterable[Any]) -> list[Receipt]:
        return await Call(self).aenqueue_many(rows)

    def using(
        self,
        *,
        queue: str | None = None,
        priority: int | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        key: str | Callable[P, str] | None = None,
        deadline: Duration | None = None,
        max_retries: int | None = None,
        enqueued_by: str = "system",
    ) -> Call[P]:
        """The same task with other options for the jobs enqueued through it."""
        if delay is not None and at is not None:
            raise InvalidJob("at", "give either `delay` or `at`, not both")
        call = Call(
            self,
            queue=None if queue is None else checked_name(queue, "queue"),
            priority=None if priority is None else checked_priority(priority),
            delay=None if delay is None else _checked(seconds, delay, "delay"),
            at=None if at is None else _checked_instant(at),
            key=key,
            deadline=None if deadline is None else _checked(seconds, deadline, "deadline"),
            max_retries=None if max_retries is None else _checked_retries(max_retries),
            enqueued_by=checked_name(enqueued_by, "enqueued_by"),
        )
        options = {"queue": queue, "priority": priority, "delay": delay, "at": at, "key": key}
        call.chosen = frozenset(name for name, value in options.items() if value is not None)
        return call

    # --- arguments ----------------------------------------------------------------------------------------------

    def dump(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], limit: int) -> str:
        """Arguments as stored. Raises InvalidJob, naming the argument, if they do not fit the type hints."""
        try:
            named = self._signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise InvalidJob("arguments", f"{self.name}{self._signature} {error}") from None
        adapter = self._adapter
        try:
            checked = adapter.validate_python(named)
        except ValidationError as error:
            raise _refused(error) from None
        try:
            text = _json(adapter, checked)
        except (PydanticSerializationError, ValueError) as error:
            raise InvalidJob(_culprit(adapter, checked), f"cannot be written as JSON: {error}") from None
        if len(text) > limit:
            raise InvalidJob("arguments", f"expected at most {limit} bytes of JSON, not {len(text)}")
        return text.decode()

    def bind(self, args: str) -> dict[str, Any]:
        """Stored arguments as Python values, checked against the type hints of today."""
        if args == "{}":
            return {}
        return cast(dict[str, Any], self._adapter.validate_json(args))

    def on_error(self, error: Exception, retry_count: int) -> Failed | None:
        if self._rule is None:
            return None
        delay = self._rule(retry_count, error)
        return Failed("", final=True) if delay is None else Failed("", delay=seconds(delay, "retry"))

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        """Built on first use, when every name that the hints mention is defined."""
        try:
            hints = get_type_hints(self.function, include_extras=True)
        except NameError as error:
            raise InvalidJob("arguments", f"a type hint of {self.name} cannot be resolved: {error}") from error
        fields = {
            name: _field(hints.get(name, Any), parameter) for name, parameter in self._signature.parameters.items()
        }
        make_shape: Any = TypedDict
        shape = make_shape(self.name, fields)
        shape.__pydantic_config__ = ConfigDict(allow_inf_nan=False, extra="forbid", arbitrary_types_allowed=False)
        try:
            return TypeAdapter(shape)
        except PydanticSchemaGenerationError as error:
            raise InvalidJob("arguments", f"a type hint of {self.name} has no JSON form: {error}") from error

    # --- options ------------------------------------------------------------------------------------------------

    def options(self, default_max_runtime: float | None) -> Options:
        """What every job of this task carries, resolved once."""
        max_runtime = default_max_runtime if isinstance(self._max_runtime, _Unset) else self._max_runtime
        return Options(self.delivery, self._timeout, max_runtime, self._policy)

    def _resolved_retries(self, max_retries: int | None, *, declared: bool) -> int:
        if max_retries is not None:
            return _checked_retries(max_retries)
        if self.delivery == "at_most_once" and not declared:
            return 0
        return self._policy.default_max_retries() if self._rule is None else max(DEFAULT_MAX_RETRIES, 1000)


class Call(Generic[P]):
    """A task together with the options of one enqueue."""

    chosen: frozenset[str] = frozenset()
    """The options that `using` named; the rest are the task's own. The test kit compares these."""

    def __init__(
        self,
        task: Task[P, Any],
        *,
        queue: str | None = None,
        priority: int | None = None,
        delay: float | None = None,
        at: datetime | None = None,
        key: str | Callable[P, str] | None = None,
        deadline: float | None = None,
        max_retries: int | None = None,
        enqueued_by: str = "system",
    ) -> None:
        self.task = task
        self.queue = task.queue if queue is None else queue
        self.priority = task.priority if priority is None else priority
        self.delay = delay
        self.at = at
        self.key = key
        self.deadline = task.deadline if deadline is None else deadline
        self.max_retries = task.max_retries if max_retries is None else max_retries
        self.enqueued_by = enqueued_by

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Receipt:
        return self.task.app.wait(self.aenqueue(*args, **kwargs))

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Receipt:
        return (await self.task.app.write(self, [(args, kwargs)]))[0]

    def enqueue_many(self, rows: Iterable[Any]) -> list[Receipt]:
        return self.task.app.wait(self.aenqueue_many(rows))

    async def aenqueue_many(self, rows: Iterable[Any]) -> list[Receipt]:
        return await self.task.app.write(self, [_row(row) for row in rows])

    def key_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
        key = self.key(*args, **kwargs) if callable(self.key) else self.key
        return None if key is None else _checked_key(key)


def _row(row: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    if isinstance(row, tuple):
        return row, {}
    if isinstance(row, Mapping):
        return (), row
    return (row,), {}


def _field(hint: Any, parameter: inspect.Parameter) -> Any:
    return hint if parameter.default is inspect.Parameter.empty else NotRequired[hint]


def _json(adapter: TypeAdapter[Any], checked: dict[str, Any]) -> bytes:
    text = adapter.dump_json(checked, by_alias=False)
    if b"null" in text:  # that is how pydantic writes a NaN inside of `Any` or of a model: the handler would get None
        try:
            json.dumps(to_jsonable_python(checked, inf_nan_mode="constants", serialize_unknown=True), allow_nan=False)
        except ValueError:
            raise ValueError("JSON has no NaN and no infinity") from None
    return text


def _culprit(adapter: TypeAdapter[Any], checked: dict[str, Any]) -> str:
    """The argument that cannot be written."""
    for name, value in checked.items():
        try:
            _json(adapter, {name: value})
        except (PydanticSerializationError, ValueError):
            return name
    return "arguments"


def _refused(error: ValidationError) -> InvalidJob:
    first = error.errors(include_url=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "arguments"
    return InvalidJob(place, f"{first['msg']}, not {first['input']!r:.100}")


def _seconds_or_unset(value: Duration | _Unset | None) -> float | _Unset | None:
    return value if value is None or isinstance(value, _Unset) else seconds(value, "max_runtime")


def _checked_policy(retry: Policy | RetryRule | None) -> Policy:
    if isinstance(retry, Exponential | Ladder):
        return retry
    if retry is not None and not callable(retry):
        raise ValueError(f"retry: expected Exponential(…), Ladder(…) or a function, not {retry!r}")
    return DEFAULT_POLICY


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


def checked_name(name: str, field: str) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or name != name.strip():
        raise InvalidJob(field, f"expected a printable name of 1 to {LONGEST_NAME} characters, not {name!r}")
    return name


def checked_priority(priority: int) -> int:
    if isinstance(priority, bool) or not isinstance(priority, int) or not 0 <= priority <= MAX_PRIORITY:
        raise InvalidJob("priority", f"expected a whole number from 0 to {MAX_PRIORITY}, not {priority!r}")
    return priority


def _checked_key(key: str) -> str:
    if not isinstance(key, str) or not 0 < len(key) <= LONGEST_KEY or "\x00" in key or not _encodable(key):
        raise InvalidJob("key", f"expected a text of 1 to {LONGEST_KEY} characters, not {key!r:.100}")
    return key


def _encodable(text: str) -> bool:
    """Half a surrogate pair is a text that no database takes, or gives back."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _checked_retries(max_retries: int) -> int:
    if isinstance(max_retries, bool) or not isinstance(max_retries, int) or not 0 <= max_retries <= 1_000_000:
        raise InvalidJob("max_retries", f"expected a whole number from 0 to 1,000,000, not {max_retries!r}")
    return max_retries


def _checked_delivery(delivery: Delivery) -> Delivery:
    if delivery not in ("at_least_once", "at_most_once"):
        raise ValueError(f"delivery: expected 'at_least_once' or 'at_most_once', not {delivery!r}")
    return delivery


def _checked_instant(at: datetime) -> datetime:
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise InvalidJob("at", f"expected a datetime with a time zone, not {at!r}")
    return at


def _checked(parse: Callable[[Duration, str], float], value: Duration, field: str) -> float:
    try:
        return parse(value, field)
    except ValueError as error:
        raise InvalidJob(field, str(error).removeprefix(f"{field}: ")) from None
