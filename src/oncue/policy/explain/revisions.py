"""What a schedule was at an instant, and who made it so: read off its revisions."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime

from oncue.errors import InvalidSchedule
from oncue.model import Revision, Schedule
from oncue.policy.explain.findings import Finding, when
from oncue.policy.schedules import DELETED, UNDECLARED
from oncue.policy.triggers import Trigger, trigger_of


def slots_of(terms: Schedule | Revision) -> Trigger | Finding:
    """The slots of a rule; or that this host cannot work them out, since it does not know the time zone, say."""
    try:
        return trigger_of(terms)
    except InvalidSchedule as error:
        rule = f"`{terms.expression}` in {terms.tz}"
        return Finding("unworkable", f"The slots of its rule ({rule}) cannot be worked out on this host: {error}.")


def in_force(revisions: Sequence[Revision], at: datetime) -> Revision | None:
    """The revision that a slot at this instant belongs to; None before the first one began."""
    begun = [revision for revision in revisions if revision.started_at < at]
    return begun[-1] if begun else None


def successor(revisions: Sequence[Revision], number: int) -> Revision | None:
    """The revision after this one."""
    return next((revision for revision in revisions if revision.revision == number + 1), None)


def switched_off(name: str, revisions: Sequence[Revision], at: Revision, now: datetime) -> Finding:
    """That the schedule is or was disabled, since when, by whom and why."""
    first = _first_of_the_same(revisions, at)
    since = f"since {when(first.started_at, now)}, by {first.changed_by}"
    quoted = shlex.quote(name)
    if at.reason == DELETED:
        return Finding("deleted", f"The schedule is deleted, {since}.")
    if at.reason == UNDECLARED:
        text = f"The schedule is disabled, {since}: {UNDECLARED}."
        remedy = f"declare it again and start a worker, or `oncue schedules remove {quoted}`"
        return Finding("undeclared", text, remedy)
    why = f": {at.reason}" if at.reason else ""
    return Finding("disabled", f"The schedule is disabled, {since}{why}.", f"`oncue schedules enable {quoted}`")


def _first_of_the_same(revisions: Sequence[Revision], at: Revision) -> Revision:
    """Where the run of disabled revisions began that this one is part of: later edits did not disable it again."""
    first = at
    for revision in reversed([revision for revision in revisions if revision.revision < at.revision]):
        if revision.enabled or revision.reason != at.reason:
            break
        first = revision
    return first
