"""Tasks: named code with options, and calls of them that become jobs."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, ParamSpec, TypeAlias, TypeVar

from oncue.errors import InvalidJob
from oncue.model import DEFAULT_QUEUE, WINDOWS_QUEUE, Delivery, Failed, FollowUp, Missed, Receipt
from oncue.policy.checks import (
    DEFAULT_GRACE,
    checked_crashes,
    checked_delivery,
    checked_duration,
    checked_grace,
    checked_instant,
    checked_key,
    checked_max_instances,
    checked_missed,
    checked_name,
    checked_priority,
    checked_queue,
    checked_retries,
    checked_schedule_name,
)
from oncue.policy.durations import Duration, seconds
from oncue.policy.error_classes import ErrorClasses, checked_error_classes
from oncue.policy.names import checked_address
from oncue.policy.options import CutoffHook, Options, WindowOptions
from oncue.policy.retry import DEFAULT_MAX_RETRIES, DEFAULT_POLICY, Exponential, Ladder, Policy
from oncue.process_tasks import code_places
from oncue.tasks.arguments import Arguments
from oncue.tasks.own_key import checked_own_key

if TYPE_CHECKING:
    from oncue.app import Oncue
    from oncue.policy.triggers import Rule

P = ParamSpec("P")
R = TypeVar("R")

RetryRule: TypeAlias = Callable[[int, Exception], Duration | None]
"""A custom policy: (retries so far, error) to a delay, or None to give up."""


class _Unset:
    def __repr__(self) -> str:
        return "the default"


UNSET = _Unset()
DEFAULT_CONCURRENCY = 100
"""How many jobs of a window run at once, unless its task says otherwise."""


class Declared(NamedTuple):
    """The schedule that a task declares in code. Its name is the task's."""

    rule: Rule
    missed: Missed
    grace: float
    max_instances: int
    description: str


class DeclaredWindow(NamedTuple):
    """What a task declares for its daily window."""

    retry: float
    """Seconds between two attempts."""
    max_concurrency: int
    """How many of its jobs run at once, on all nodes together, unless an operator has set a limit."""
    on_cutoff: Task[Any, Any] | None


class Task(Generic[P, R]):
    """A function that can be enqueued. Calling it runs it here and now, as if it were not a task."""

    given: frozenset[str] = frozenset()
    """The parameters that no job stores, since the worker that runs it gives them."""
    address: str | None = None
    """Where alone its jobs may run, unless an enqueue says otherwise."""

    def __init__(
        self,
        app: Oncue,
        function: Callable[P, R],
        *,
        name: str | None = None,
        queue: str | None = None,
        priority: int = 0,
        timeout: Duration | None = None,
        max_runtime: Duration | _Unset | None = UNSET,
        deadline: Duration | None = None,
        retry: Policy | RetryRule | None = None,
        max_retries: int | None = None,
        max_crashes: int | Literal["never"] = 5,
        delivery: Delivery = "at_least_once",
        schedule: Rule | None = None,
        missed: Missed | _Unset = UNSET,
        grace: Duration | _Unset = UNSET,
        max_instances: int | _Unset = UNSET,
        process: bool = False,
        key: Callable[..., str] | None = None,
        max_concurrency: int | _Unset = UNSET,
        on_cutoff: Task[Any, Any] | None = None,
        error_classes: ErrorClasses | None = None,
        declared_in: str | None = None,
    ) -> None:
        self.app = app
        self.function = function
        self.name = checked_name(name or str(getattr(function, "__name__", "")), "name")
        default_queue = WINDOWS_QUEUE if _is_window(schedule) else DEFAULT_QUEUE
        self.queue = checked_queue(default_queue if queue is None else queue)
        self.priority = checked_priority(priority)
        self.deadline = None if deadline is None else seconds(deadline, "deadline")
        self.is_async = inspect.iscoroutinefunction(function)
        self.process = _checked_process(process)
        self.place = code_places.declare(self, declared_in) if process else None
        self._rule = retry if callable(retry) else None
        self._timeout = None if timeout is None else seconds(timeout, "timeout")
        self._max_runtime = _seconds_or_unset(max_runtime)
        self._policy = _checked_policy(retry)
        self._max_crashes = checked_crashes(max_crashes)
        self.delivery = checked_delivery(delivery)
        self.max_retries = self._resolved_retries(max_retries, declared=retry is not None)
        self.arguments = Arguments(function, self.name, self.given)
        self.bind = self.arguments.bind
        self.own_key = checked_own_key(key, self.arguments, self.name)
        self.window = self._declared_window(
            schedule, max_concurrency, on_cutoff,
            {"retry": retry, "max_retries": max_retries, "deadline": deadline, "key": key},
        )  # fmt: skip
        self.error_classes = checked_error_classes(error_classes)
        self.schedule = self._declared(schedule, missed, grace, max_instances)
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    def _declared(
        self, rule: Rule | None, missed: Missed | _Unset, grace: Duration | _Unset, max_instances: int | _Unset
    ) -> Declared | None:
        if rule is None:
            for name, value in {"missed": missed, "grace": grace, "max_instances": max_instances}.items():
                if not isinstance(value, _Unset):
                    raise ValueError(f"{name}: only tasks with a schedule= have one")
            return None
        from oncue.policy.triggers import Rule

        if not isinstance(rule, Rule):
            raise ValueError(f'schedule: expected cron("0 3 * * *"), not {rule!r}')
        checked_schedule_name(self.name)
        if self.window is not None:
            for name, value in {"missed": missed, "grace": grace, "max_instances": max_instances}.items():
                if not isinstance(value, _Unset):
                    raise ValueError(
                        f"{name}: a daily window has none: each subject has one job a day, until its cutoff"
                    )
        else:
            self.arguments.check_for_slots()
        description = (inspect.getdoc(self.function) or "").partition("\n")[0]
        return Declared(
            rule,
            checked_missed("latest" if isinstance(missed, _Unset) else missed),
            checked_grace(DEFAULT_GRACE if isinstance(grace, _Unset) else grace),
            checked_max_instances(1 if isinstance(max_instances, _Unset) else max_instances),
            description,
        )

    def _declared_window(
        self,
        rule: Rule | None,
        max_concurrency: int | _Unset,
        on_cutoff: Task[Any, Any] | None,
        others: Mapping[str, Any],
    ) -> DeclaredWindow | None:
        if not _is_window(rule):
            given = {"max_concurrency": not isinstance(max_concurrency, _Unset), "on_cutoff": on_cutoff is not None}
            for name in (name for name, is_given in given.items() if is_given):
                raise ValueError(f"{name}: only tasks with schedule=daily(…) have one")
            return None
        from oncue.policy.windows import rule_of

        assert rule is not None
        for name in (name for name, value in others.items() if value is not None):
            instead = (
                "daily(retry=…) says how far apart the attempts are" if "retr" in name else "its cutoff ends a job"
            )
            raise ValueError(f"{name}: a daily window has none: {instead}")
        if self.delivery != "at_least_once":
            raise ValueError("delivery: expected 'at_least_once': within its window an attempt is repeated")
        self.arguments.check_for_windows("schedule")
        if on_cutoff is not None:
            if not isinstance(on_cutoff, Task):
                raise ValueError(f"on_cutoff: expected a task of the application, not {on_cutoff!r}")
            on_cutoff.arguments.check_for_windows("on_cutoff")
        most = DEFAULT_CONCURRENCY if isinstance(max_concurrency, _Unset) else max_concurrency
        if not isinstance(most, int) or isinstance(most, bool) or most < 1:
            raise ValueError(f"max_concurrency: expected a whole number from 1, not {most!r}")
        return DeclaredWindow(rule_of(rule.expression).retry, most, on_cutoff)

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
        group: str | None = None,
        address: str | None = None,
        deadline: Duration | None = None,
        max_retries: int | None = None,
        enqueued_by: str = "system",
        on: object | None = None,
    ) -> Call[P]:
        """The same task with other options for the jobs enqueued through it.

        `on` is a connection or session of the caller's: the jobs become part of its transaction. They are there when
        it commits, and never were if it rolls back. A task that declares a key of its own takes no other. `group` is
        whom the jobs are for (a tenant, an endpoint): the groups of a queue take turns, and each may have a limit, a
        rate and a pause. `address` is where alone they may run: `node:NAME`, the worker of that name, or `role:leader`.
        """
        if key is not None and self.own_key is not None:
            raise InvalidJob("key", f"expected none: the task {self.name} declares a key of its own")
        if delay is not None and at is not None:
            raise InvalidJob("at", "give either `delay` or `at`, not both")
        if group is not None and address is not None:
            raise InvalidJob("address", "give either `group` or `address`, not both: all nodes share a group")
        call = Call(
            self,
            queue=None if queue is None else checked_queue(queue),
            priority=None if priority is None else checked_priority(priority),
            delay=None if delay is None else checked_duration(delay, "delay"),
            at=None if at is None else checked_instant(at),
            key=key,
            group=None if group is None else checked_name(group, "group"),
            address=None if address is None else checked_address(address),
            deadline=None if deadline is None else checked_duration(deadline, "deadline"),
            max_retries=None if max_retries is None else checked_retries(max_retries),
            enqueued_by=checked_name(enqueued_by, "enqueued_by"),
            on=on,
        )
        options = {
            "queue": queue, "priority": priority, "delay": delay, "at": at, "key": key, "group": group,
            "address": address,
        }  # fmt: skip
        call.chosen = frozenset(name for name, value in options.items() if value is not None)
        return call

    def prepared(self, *args: P.args, **kwargs: P.kwargs) -> FollowUp:
        """The job that `current_job().then(…)` lets follow."""
        return Call(self).prepared(*args, **kwargs)

    # --- running ------------------------------------------------------------------------------------------------

    @property
    def has_rule(self) -> bool:
        """Whether a function of the application's says when a failed attempt is tried again."""
        return self._rule is not None

    def on_error(self, error: Exception, retry_count: int) -> Failed | None:
        if self._rule is None:
            return None
        delay = self._rule(retry_count, error)
        return Failed("", final=True) if delay is None else Failed("", delay=seconds(delay, "retry"))

    # --- options ------------------------------------------------------------------------------------------------

    def options(self, default_max_runtime: float | None) -> Options:
        """What every job of this task carries, resolved once."""
        max_runtime = default_max_runtime if isinstance(self._max_runtime, _Unset) else self._max_runtime
        window = None if self.window is None else self._window_options(self.window, default_max_runtime)
        return Options(self.delivery, self._timeout, max_runtime, self._policy, self._max_crashes, window)

    def _window_options(self, window: DeclaredWindow, default_max_runtime: float | None) -> WindowOptions:
        return WindowOptions(
            window.retry, *self.arguments.of_windows,
            hook=None if window.on_cutoff is None else window.on_cutoff.as_hook(default_max_runtime),
            max_concurrency=window.max_concurrency,
        )  # fmt: skip

    def as_hook(self, default_max_runtime: float | None) -> CutoffHook:
        """The job of this task that the cutoff of a window leads to."""
        own = dataclasses.replace(self.options(default_max_runtime), of_cutoff=True)
        return CutoffHook(
            self.name, self.queue, self.priority, own.stored(), self.max_retries, own.max_runtime,
            *self.arguments.of_windows,
        )  # fmt: skip

    def _resolved_retries(self, max_retries: int | None, *, declared: bool) -> int:
        if max_retries is not None:
            return checked_retries(max_retries)
        if self.delivery == "at_most_once" and not declared:
            return 0
        return self._policy.default_max_retries() if self._rule is None else max(DEFAULT_MAX_RETRIES, 1000)


class Call(Generic[P]):
    """A task together with the options of one enqueue."""

    chosen: frozenset[str] = frozenset()
    """The options that `using` named; the rest are the task's own. The test kit compares these."""
    carried: tuple[str, float | None] | None = None
    """The options of its jobs as they are stored, and their maximum runtime, if these are not its task's."""

    def __init__(
        self,
        task: Task[P, Any],
        *,
        queue: str | None = None,
        priority: int | None = None,
        delay: float | None = None,
        at: datetime | None = None,
        key: str | Callable[P, str] | None = None,
        group: str | None = None,
        address: str | None = None,
        deadline: float | None = None,
        max_retries: int | None = None,
        enqueued_by: str = "system",
        on: object | None = None,
    ) -> None:
        self.task = task
        self.queue = task.queue if queue is None else queue
        self.priority = task.priority if priority is None else priority
        self.delay = delay
        self.at = at
        self.key = key
        self.group = group
        self.address = task.address if address is None else address
        self.deadline = task.deadline if deadline is None else deadline
        self.max_retries = task.max_retries if max_retries is None else max_retries
        self.enqueued_by = enqueued_by
        self.on = on

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Receipt:
        if self.on is not None:
            return self.task.app.internals.enqueueing.write_here(self, [(args, kwargs)])[0]
        return self.task.app.wait(self.aenqueue(*args, **kwargs))

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Receipt:
        return (await self.task.app.internals.enqueueing.write(self, [(args, kwargs)]))[0]

    def enqueue_many(self, rows: Iterable[Any]) -> list[Receipt]:
        if self.on is not None:
            return self.task.app.internals.enqueueing.write_here(self, [_row(row) for row in rows])
        return self.task.app.wait(self.aenqueue_many(rows))

    async def aenqueue_many(self, rows: Iterable[Any]) -> list[Receipt]:
        return await self.task.app.internals.enqueueing.write(self, [_row(row) for row in rows])

    def prepared(self, *args: P.args, **kwargs: P.kwargs) -> FollowUp:
        """The job that `current_job().then(…)` lets follow."""
        return self.task.app.internals.enqueueing.prepared(self, (args, kwargs))

    @property
    def has_key(self) -> bool:
        return self.key is not None or self.task.own_key is not None

    def key_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], stored: str) -> str | None:
        """The key of one job: the task's own, from its arguments as stored, or the one that `using` names."""
        if self.task.own_key is not None:
            return self.task.own_key.of(stored)
        key = self.key(*args, **kwargs) if callable(self.key) else self.key
        return None if key is None else checked_key(key)


def _row(row: Any) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    if isinstance(row, tuple):
        return row, {}
    if isinstance(row, Mapping):
        return (), row
    return (row,), {}


def _seconds_or_unset(value: Duration | _Unset | None) -> float | _Unset | None:
    return value if value is None or isinstance(value, _Unset) else seconds(value, "max_runtime")


def _is_window(rule: Rule | None) -> bool:
    return str(getattr(rule, "expression", "")).startswith("@window")


def _checked_process(process: bool) -> bool:
    if not isinstance(process, bool):
        raise ValueError(f"process: expected True or False, not {process!r}")
    return process


def _checked_policy(retry: Policy | RetryRule | None) -> Policy:
    if isinstance(retry, Exponential | Ladder):
        return retry
    if retry is not None and not callable(retry):
        raise ValueError(f"retry: expected Exponential(…), Ladder(…) or a function, not {retry!r}")
    return DEFAULT_POLICY
