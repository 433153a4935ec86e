"""Complaints of the verbs, in the words of the API: the same field has one name in everything that a caller sees."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from oncue.errors import InvalidJob, InvalidSchedule

NAMES = {"expression": "cron_expression", "rule": "cron_expression", "start": "from", "end": "to"}
TERMS = (
    "name", "description", "task", "cron_expression", "tz", "dst", "missed", "grace", "max_instances", "max_retries",
    "queue", "priority", "enabled", "args", "from", "to", "at", "count", "by", "created_by", "changed_by",
)  # fmt: skip


@contextmanager
def naming() -> Iterator[None]:
    """A complaint about a term of a schedule is told by its name over HTTP; about an argument, by its place."""
    try:
        yield
    except InvalidSchedule as error:
        field = NAMES.get(error.field, error.field)
        raise InvalidSchedule(field, str(error).removeprefix(f"{error.field}: "), error.position) from None
    except InvalidJob as error:
        raise InvalidJob(_place(error), str(error).removeprefix(f"{error.field}: ")) from None


def _place(error: InvalidJob) -> str:
    """Arguments are complained about by their own names: in the body, they are inside of `args`."""
    if error.field == "arguments":
        return "args" if error.argument is None else f"args.{error.argument}"
    return error.field if error.field in TERMS else f"args.{error.field}"
