"""A task's own key: what its arguments say of which jobs are the same, evaluated where the code is, at enqueue."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from oncue.errors import InvalidJob
from oncue.policy.checks import checked_key
from oncue.tasks.arguments import SLOT, Arguments


class TaskKey:
    """A function of a task's arguments. It gets those that it names, as the handler would: checked, with defaults."""

    def __init__(self, function: Callable[..., str], arguments: Arguments, task: str) -> None:
        self._function = function
        self._arguments = arguments
        self._task = task
        self._defaults = {
            name: parameter.default
            for name, parameter in arguments.signature.parameters.items()
            if parameter.default is not parameter.empty
        }
        self._names = _checked_names(function, arguments)

    def of(self, args: str) -> str:
        """The key of a job with these stored arguments. Raises InvalidJob, naming `key`."""
        values = {**self._defaults, **self._arguments.bind(args)}
        return self._called({name: value for name, value in values.items() if name in self._names})

    def of_slots(self, args: str) -> str:
        """The key that all jobs of a schedule share: it is stored with the schedule, so it cannot name the slot."""
        if SLOT in self._names:
            raise InvalidJob("key", f"the key of {self._task} depends on the slot: a schedule's jobs share one key")
        return self.of(args)

    def _called(self, values: Mapping[str, Any]) -> str:
        try:
            key = self._function(**values)
        except Exception as error:
            raise InvalidJob("key", f"the key of {self._task} raised {type(error).__name__}: {error}") from error
        return checked_key(key)


def checked_own_key(key: Callable[..., str] | None, arguments: Arguments, task: str) -> TaskKey | None:
    if key is None:
        return None
    if not callable(key) or inspect.iscoroutinefunction(key):
        raise ValueError(f"key: expected a plain function of the task's arguments, not {key!r}")
    return TaskKey(key, arguments, task)


def _parameters(function: Callable[..., str]) -> list[inspect.Parameter]:
    """The parameters of a key's function. It is called with names, so each of them must be one that can be named."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:
        raise ValueError(f"key: expected a function whose parameters are known, not {function!r}") from None
    for parameter in parameters:
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise ValueError(f"key: expected parameters with the names of the task's own, not {parameter}")
    return parameters


def _checked_names(function: Callable[..., str], arguments: Arguments) -> frozenset[str]:
    known, parameters = arguments.signature.parameters, _parameters(function)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return frozenset(known)
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    strange = [p.name for p in parameters if p.name not in known and p.default is p.empty]
    if strange:
        raise ValueError(
            f"key: expected parameters that the task has too ({', '.join(known) or 'it has none'}), "
            f"not {', '.join(strange)}"
        )
    return frozenset(names)
