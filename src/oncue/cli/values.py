"""Values as people type them: durations, instants, references to jobs, statuses. A complaint names the option."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import typer

from oncue.errors import InvalidJob, InvalidSchedule
from oncue.model import State
from oncue.policy import durations
from oncue.policy.checks import checked_limit
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
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise typer.BadParameter(
            f"expected an instant with a time zone, such as 2030-01-31T09:00:00Z, not {text!r}", param_hint=option
        )
    return moment


INSTANT = "ISO 8601, a date, now, or -2h; UTC unless it has an offset"
"""How a help text tells what `moment` takes."""


class Moment(NamedTuple):
    """An instant, or one so many seconds before now: the database's now, which is not known yet."""

    instant: datetime | None
    before: float = 0.0

    def at(self, now: datetime) -> datetime:
        return now - timedelta(seconds=self.before) if self.instant is None else self.instant


def moment(text: str, option: str) -> Moment:
    word = text.strip()
    if word == "now":
        return Moment(None)
    try:
        if word.startswith("-"):
            return Moment(None, durations.seconds(word[1:]))
        instant = datetime.fromisoformat(word)
        return Moment((instant if instant.tzinfo else instant.replace(tzinfo=UTC)).astimezone(UTC))
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            "expected an instant such as 2030-01-31T09:00:00Z or 2030-01-31 (UTC unless it has an offset), `now`, "
            f"or a duration before now such as -2h or -7d, not {text!r}",
            param_hint=option,
        ) from None


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


def reference(text: str) -> int | UUID:
    """A job's id or uid."""
    if text.isdecimal() and len(text) <= 18:
        return int(text)
    try:
        return UUID(text)
    except ValueError:
        raise typer.BadParameter(
            f"expected the id of a job (a number) or its uid (a UUID), not {text!r}", param_hint="ID"
        ) from None


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
