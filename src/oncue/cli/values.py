"""Values as people type them: durations, instants, references to jobs, statuses. A complaint names the option."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from uuid import UUID

import typer

from oncue.errors import InvalidJob, InvalidSchedule
from oncue.model import State
from oncue.policy import durations, moments, rates
from oncue.policy.checks import checked_limit
from oncue.policy.moments import Moment
from oncue.policy.statuses import state_named
from oncue.task import UNSET, _Unset


def duration(text: str, option: str) -> str:
    """Checks a duration and leaves it as it is."""
    try:
        durations.seconds(text, "")
    except ValueError as error:
        said = str(error).removeprefix(": ").replace("or None", "or `none` for no limit")
        raise typer.BadParameter(said, param_hint=option) from None
    return text


def instant(text: str, option: str) -> datetime:
    try:
        return moments.instant(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


INSTANT = "ISO 8601, a date, now, or -2h; UTC unless it has an offset"
"""How a help text tells what `moment` takes."""


def moment(text: str, option: str) -> Moment:
    try:
        return moments.moment(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def maybe_moment(text: str | None, option: str) -> Moment | None:
    return None if text is None else moment(text, option)


def day(text: str, option: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        expected = f"expected a date such as 2026-11-18, not {text!r:.40}"
        raise typer.BadParameter(expected, param_hint=option) from None


@contextmanager
def naming(**options: str) -> Iterator[None]:
    """A complaint about one of these fields becomes one about the option that it was typed as."""
    try:
        yield
    except InvalidSchedule as error:
        if error.field not in options:
            raise
        message = str(error).removeprefix(f"{error.field}: ")
        raise typer.BadParameter(message, param_hint=options[error.field]) from None


def reference(text: str, expected: str = "the id of a job (a number)", hint: str = "ID") -> int | UUID:
    """A number or a uid: those of a job, or of an execution, which has the same."""
    if text.isdecimal() and len(text) <= 18:
        return int(text)
    try:
        return UUID(text)
    except ValueError:
        raise typer.BadParameter(f"expected {expected} or its uid (a UUID), not {text!r}", param_hint=hint) from None


def states(texts: list[str]) -> tuple[State, ...]:
    """Statuses, repeated or separated by commas."""
    found = [state(word, "--status") for text in texts for word in text.split(",")]
    return tuple(dict.fromkeys(found))


def state(word: str, option: str) -> State:
    try:
        return state_named(word)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def limit(text: str | None, option: str) -> int | _Unset | None:
    """A limit: a number, `none` to lift it, or nothing to leave it."""
    if text is None:
        return UNSET
    if text.strip().lower() == "none":
        return None
    if not text.strip().isdecimal():
        raise typer.BadParameter(f"expected a whole number, or `none` for no limit, not {text!r}", param_hint=option)
    try:
        return checked_limit(int(text), "")
    except InvalidJob as error:
        said = str(error).removeprefix(": ").replace("or None", "or `none` for no limit")
        raise typer.BadParameter(said, param_hint=option) from None


def rate(text: str | None, option: str) -> str | _Unset | None:
    """A rate: `10/s`, `none` to lift it, or nothing to leave it."""
    if text is None:
        return UNSET
    if text.strip().lower() == "none":
        return None
    try:
        rates.parsed(text, "")
    except InvalidJob as error:
        said = str(error).removeprefix(": ").replace(", not ", ", or `none` for no limit, not ", 1)
        raise typer.BadParameter(said, param_hint=option) from None
    return text
