"""What a change to a schedule means. Every edit is a new revision, and starts from now.

A slot belongs to the revision that stood when it was due. If the schedule changes after a slot was due and before it
was decided, the slot never fires under the new rule: the edit itself writes it down as missed. Declaring the same again
changes nothing. A schedule that is deleted leaves a tombstone, with its name, its revisions and its slots.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from datetime import datetime

from oncue.errors import InvalidSchedule
from oncue.model import Decided, Declaration, Revised, Revision, Schedule
from oncue.policy import options, slots
from oncue.policy.triggers import TICK, Trigger, trigger_of
from oncue.policy.windows import is_window

TERMS = (
    "task",
    "args",
    "queue",
    "priority",
    "expression",
    "tz",
    "dst",
    "missed",
    "grace",
    "max_instances",
    "enabled",
    "reason",
)
"""What a revision is made of. A description, and what the task's own options say of its jobs, is not part of it."""

CARRIED = (
    "name",
    "description",
    "options",
    "max_retries",
    "max_runtime",
    "deadline",
    "declared_by",
    "key",
    "group",
    "address",
)
"""What may change without a new revision."""

UNDECLARED = "its application no longer declares it"
BY_HAND = "disabled by hand"
DELETED = "deleted"
EDITED = "the schedule was changed before this slot was decided"


def declaration_of(schedule: Schedule | None) -> Declaration | None:
    """What a stored schedule says, if code declared it."""
    if schedule is None or schedule.declared_by is None or schedule.deleted_at is not None:
        return None
    return Declaration(schedule.reason, schedule.options)


def keeps_to_slots(declaration: Declaration | None) -> bool:
    """Whether code declares this schedule for a task that runs at most once: then the task runs in slots alone."""
    if declaration is None or declaration.reason == UNDECLARED:
        return False
    return options.read(declaration.options).delivery == "at_most_once"


def keeps_to_windows(declaration: Declaration | None) -> bool:
    """Whether code declares this schedule as a daily window: then its task runs in that alone."""
    if declaration is None or declaration.reason == UNDECLARED:
        return False
    return options.read(declaration.options).window is not None


def created(wanted: Schedule, now: datetime, by: str) -> Revised:
    """A schedule that has not been there before."""
    schedule = _begun(dataclasses.replace(wanted, id=0, revision=1, version=1, created_by=by, created_at=now), now)
    return Revised(schedule, 0, _revision(schedule, by))


def changed(
    current: Schedule, wanted: Schedule, now: datetime, by: str, taken: Sequence[datetime] = ()
) -> Revised | None:
    """The write that makes a schedule what is wanted, or None if it is that already.

    `taken` are the slots beyond its cursor that were decided by hand.
    """
    now = max(now, current.cursor)  # the leader that decided the last slot may have read a later time
    came_back = current.deleted_at is not None and wanted.deleted_at is None
    new_terms = came_back or any(getattr(current, name) != getattr(wanted, name) for name in TERMS)
    if not new_terms:
        if all(getattr(current, name) == getattr(wanted, name) for name in CARRIED):
            return None
        carried = {name: getattr(wanted, name) for name in CARRIED}
        author = _author(current, wanted, by)
        kept = dataclasses.replace(current, **carried, created_by=author, version=current.version + 1, updated_at=now)
        return Revised(kept, current.version, None)
    schedule = _begun(_carried_over(current, wanted, by), now)
    revision = _revision(schedule, by)
    if _stays_open(current, schedule):
        schedule = dataclasses.replace(schedule, started_at=current.started_at)
    return Revised(schedule, current.version, revision, _overtaken(current, now, taken))


def _stays_open(current: Schedule, changed: Schedule) -> bool:
    """Whether a daily window was enabled and stays so. Its days belong to its subjects, not to its revisions: those
    whose cutoff passed before the change, while nothing ran, still get their outcome."""
    was_open = is_window(current.expression) and current.enabled and current.deleted_at is None
    return was_open and is_window(changed.expression) and changed.enabled and changed.deleted_at is None


def _carried_over(current: Schedule, wanted: Schedule, by: str) -> Schedule:
    """What an edit does not choose."""
    return dataclasses.replace(
        wanted,
        id=current.id,
        revision=current.revision + 1,
        version=current.version + 1,
        last_run_at=current.last_run_at,
        horizon=current.horizon,
        created_by=_author(current, wanted, by),
        created_at=current.created_at,
    )


def _author(current: Schedule, wanted: Schedule, by: str) -> str:
    """Who made it. A schedule from code is of the operator who renames it: the code declares only the old name."""
    renamed = wanted.name != current.name
    return by if renamed and current.created_by.startswith("code:") else current.created_by


def _begun(schedule: Schedule, now: datetime) -> Schedule:
    """The schedule at the start of a revision: nothing before now is its business."""
    begun = dataclasses.replace(schedule, started_at=now, cursor=now, updated_at=now, next_run_at=None)
    if not begun.enabled or begun.deleted_at is not None:
        return begun
    return dataclasses.replace(begun, next_run_at=trigger_of(begun).after(now))


def _overtaken(current: Schedule, now: datetime, taken: Sequence[datetime]) -> list[Decided]:
    """Not judged by `next_run_at`: a schedule whose slots could not be worked out was put off, and has some due."""
    if not current.enabled or current.deleted_at is not None:
        return []
    try:
        trigger = trigger_of(current)
    except InvalidSchedule:
        return []  # this host cannot work out the slots; an audit on another host finds them unaccounted for
    return slots.given_up(trigger, current.cursor, now, taken, EDITED)


def _revision(schedule: Schedule, by: str) -> Revision:
    terms = {name: getattr(schedule, name) for name in TERMS}
    return Revision(
        schedule_id=schedule.id,
        revision=schedule.revision,
        started_at=schedule.started_at,
        changed_by=by,
        **terms,
    )


def deleted(current: Schedule, now: datetime) -> Schedule:
    """What is left of a schedule that is deleted."""
    return dataclasses.replace(current, enabled=False, reason=DELETED, deleted_at=now)


def extra_slot(trigger: Trigger, now: datetime, taken: Collection[datetime] = ()) -> datetime:
    """An instant for a run by hand that takes nothing away from a regular slot, nor from another run by hand."""
    while now in taken or trigger.has(now):
        now += TICK
    return now
