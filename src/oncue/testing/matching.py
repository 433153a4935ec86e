"""What a test expects to have been enqueued, compared with what was."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from oncue.application.webhooks import DeclaredWebhook
from oncue.errors import InvalidJob
from oncue.model import Job
from oncue.policy.durations import describe
from oncue.task import Call, Task

SHOWN = 20


class Expected:
    """A task, some of its arguments, and the options that `using` named. What is not said may be anything."""

    def __init__(
        self, what: Task[Any, Any] | Call[Any] | DeclaredWebhook, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        if isinstance(what, DeclaredWebhook):
            task, args, kwargs = _delivery(what, args, kwargs)
            self.call: Call[Any] = Call(task)
        else:
            self.call = what if isinstance(what, Call) else Call(what)
        self.task = self.call.task
        self._parameters = inspect.signature(self.task.function).parameters
        self.arguments = {name: self._stored(name, value) for name, value in self._given(args, kwargs).items()}
        self.options = {name: getattr(self.call, name) for name in sorted(self.call.chosen)}
        if callable(self.options.get("key")):
            self.options["key"] = self.call.key_of(args, kwargs, "{}")

    def matches(self, job: Job) -> bool:
        return (
            job.task == self.task.name
            and all(self._argument(job, name) == value for name, value in self.arguments.items())
            and all(_option(job, name, value) for name, value in self.options.items())
        )

    def __str__(self) -> str:
        options = "".join(f" {name}={_written(name, value)}" for name, value in self.options.items())
        return f"{called(self.task.name, self.arguments)}{options}"

    def _given(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        signature = inspect.signature(self.task.function)
        try:
            return signature.bind_partial(*args, **kwargs).arguments
        except TypeError as error:
            raise InvalidJob("arguments", f"{self.task.name}{signature} {error}") from None

    def _stored(self, name: str, value: Any) -> Any:
        """An argument as the database would have it."""
        hint = get_type_hints(self.task.function, include_extras=True).get(name, Any)
        adapter: TypeAdapter[Any] = TypeAdapter(hint)
        try:
            return json.loads(adapter.dump_json(adapter.validate_python(value)))
        except ValidationError as error:
            raise InvalidJob(name, f"no job can have it: {error.errors()[0]['msg']}, not {value!r:.100}") from None

    def _argument(self, job: Job, name: str) -> Any:
        """What a job's handler will get; a default is not stored."""
        return job.args[name] if name in job.args else self._stored(name, self._parameters[name].default)


def _delivery(
    webhook: DeclaredWebhook, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Task[Any, Any], tuple[Any, ...], Mapping[str, Any]]:
    """The task of a delivery, and what is known of its arguments: the webhook, and the payload if it is said."""
    try:
        payload = inspect.signature(webhook.deliver).bind_partial(*args, **kwargs).arguments
    except TypeError as error:
        raise InvalidJob("payload", f"{webhook!r} {error}") from None
    if "options" in payload:
        raise InvalidJob(min(payload["options"]), "expected the payload alone: compare the job that is returned")
    return webhook.task, (), {"webhook": webhook.name, **payload}


def _option(job: Job, name: str, value: Any) -> bool:
    if name == "delay":
        return job.visible_at - job.created_at == timedelta(seconds=value)
    if name == "at":
        return bool(job.visible_at == value)
    return bool(getattr(job, name) == value)


def _written(name: str, value: Any) -> str:
    if name == "delay":
        return describe(value)
    return value.isoformat() if isinstance(value, datetime) else str(value)


def called(task: str, arguments: Mapping[str, Any]) -> str:
    return f"{task}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"


def listing(jobs: Sequence[Job], task: str) -> str:
    """What was enqueued instead: the jobs of the same task first."""
    if not jobs:
        return "nothing was enqueued at all"
    ranked = sorted(jobs, key=lambda job: job.task != task)
    lines = [f"  {_line(job)}" for job in ranked[:SHOWN]]
    more = [f"  and {len(jobs) - SHOWN} more"] if len(jobs) > SHOWN else []
    return "\n".join(["enqueued were:", *lines, *more])


def _line(job: Job) -> str:
    delay = (job.visible_at - job.created_at).total_seconds()
    key = f" key={job.key}" if job.key is not None else ""
    later = f" delay={describe(delay)}" if delay > 0 and not job.retry_count else ""
    group = f" group={job.group}" if job.group is not None else ""
    address = f" address={job.address}" if job.address is not None else ""
    options = f"queue={job.queue} priority={job.priority}{key}{group}{address}{later}"
    return f"{called(job.task, job.args)} {options}, now {job.state}"
