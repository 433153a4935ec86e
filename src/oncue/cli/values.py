"""Values as people type them: durations, instants, references to jobs, statuses. A complaint names the option."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import typer

from oncue.model import State
from oncue.policy import durations
from oncue.server.records import state_named


def duration(text: str, option: str) -> str:
    """Checks a duration and leaves it as it is."""
    try:
        durations.seconds(text, "")
    except ValueError as error:
        raise typer.BadParameter(str(error).removeprefix(": "), param_hint=option) from None
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
    try:
        found = [state_named(word) for text in texts for word in text.split(",")]
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--status") from None
    return tuple(dict.fromkeys(found))
