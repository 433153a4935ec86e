"""A strip of slots: a small square for each row of the ledger, with words that say what became of it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from oncue.model import UNFINISHED, Schedule, Slot
from oncue.policy.explain.findings import instant

if TYPE_CHECKING:
    from oncue.server.dashboard.view import View

MEANINGS = {
    "fired": "fired, and its job succeeded",
    "failed": "fired, and its job failed",
    "unfinished": "fired, and its job waits or runs",
    "stopped": "fired, and its job was cancelled or began too late",
    "manual": "run by hand",
    "missed": "missed: decided too late to fire",
    "coalesced": "coalesced: a later slot ran for it",
    "skipped": "skipped: a job was in the way",
    "lost": "its job is not there",
    "pending": "due, and not decided yet",
}
"""What each kind of square means, as the legend says it."""


class SlotSquare(NamedTuple):
    """One square of a strip."""

    kind: str
    label: str
    href: str
    at: datetime


def square(view: View, schedule: Schedule, slot: Slot) -> SlotSquare:
    at = slot.scheduled_for
    return SlotSquare(kind_of(slot), label_of(slot), slot_link(view, schedule.name, at), at)


def squares(view: View, schedule: Schedule, slots: Iterable[Slot]) -> list[SlotSquare]:
    return [square(view, schedule, slot) for slot in slots]


def slot_link(view: View, name: str, at: datetime, **query: object) -> str:
    """The page of a schedule, with one of its slots open."""
    return view.link("/schedules", name, **query, slot=instant(at)) + "#slot"


def kind_of(slot: Slot) -> str:
    """The verdict and what came of it: whichever an operator has to know first."""
    if slot.job_id is None:
        return slot.verdict
    if slot.state is None:
        return "lost"
    if slot.state == "failed":
        return "failed"
    if slot.state in UNFINISHED:
        return "unfinished"
    return slot.verdict if slot.state == "succeeded" else "stopped"


def label_of(slot: Slot) -> str:
    """One slot, or a run of them, in a line."""
    at = slot.scheduled_for.astimezone(UTC)
    when = f"{at:%Y-%m-%d %H:%M:%S} UTC"
    if slot.until is not None:
        when = f"{slot.slots:,} slots from {when} to {slot.until.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    job = "" if slot.job_id is None else f", job {slot.job_id} {slot.state or 'is not there'}"
    reason = "" if slot.reason is None else f" ({slot.reason})"
    blocked = "" if slot.blocked_by is None else f", job {slot.blocked_by} was in the way"
    return f"{when}: {slot.verdict}{reason}{job}{blocked}"


def legend(shown: Iterable[SlotSquare]) -> list[tuple[str, str]]:
    """The kinds that are shown, with what they mean."""
    kinds = {one.kind for one in shown}
    return [(kind, meaning) for kind, meaning in MEANINGS.items() if kind in kinds]
