"""One schedule: what it is, when it runs next, what became of its slots, and why."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from oncue.errors import InvalidSchedule
from oncue.model import Revision, Schedule, Slot
from oncue.policy.clock_changes import ClockChange, next_change, told
from oncue.policy.durations import describe
from oncue.policy.explain import Explanation
from oncue.policy.explain.findings import instant
from oncue.policy.schedules import TERMS
from oncue.policy.triggers import Rule, trigger_of
from oncue.policy.windows import is_window
from oncue.server.api.moments import moment
from oncue.server.dashboard.schedule_terms import is_in_code, target_of, words_of
from oncue.server.dashboard.slot_strip import SlotSquare, legend, slot_link, squares

if TYPE_CHECKING:
    from oncue.server.dashboard.pages import Dashboard
    from oncue.server.dashboard.view import View
    from oncue.verbs.schedules import Fire

SLOTS, NEXT_RUNS, REVISIONS, AT_A_CHANGE = 60, 8, 10, 4


class NextRun(NamedTuple):
    """A slot to come, and what a clock change does to it."""

    at: datetime
    local: str
    change: str


class ToldRevision(NamedTuple):
    """A revision, and in which terms it differs from the one before."""

    revision: Revision
    changes: Sequence[tuple[str, str, str]]


def add(dashboard: Dashboard) -> None:
    dashboard.page("/schedules/{name:path}", "schedule.html", title="Schedule", room="schedules")(read)


async def read(view: View) -> dict[str, Any]:
    verbs, name = view.app.schedules, view.name
    one, now = await verbs.get(name, deleted=True), await view.app.now()
    about = {
        "template": "schedule.html", "title": one.name, "schedule": one, "now": now, "words": words_of(one.expression),
        "target": target_of(view, one), "is_window": is_window(one.expression), "is_in_code": is_in_code(one),
    }  # fmt: skip
    return {
        **about, **await _coming(view, one, now), **await _ledger(view, one, now), **await _slot(view, one),
        "revisions": await _revisions(view, name), "why": await verbs.explain(name),
    }  # fmt: skip


# --- what is to come ------------------------------------------------------------------------------------------------


async def _coming(view: View, one: Schedule, now: datetime) -> dict[str, Any]:
    asked = view.text("from")
    start = None if asked is None else moment(asked, "from", now)
    found: dict[str, Any] = {
        "start": start, "next_runs": [], "next_from": None, "clock_change": None, "changed_runs": [], "unworkable": ""
    }  # fmt: skip
    if one.deleted_at is not None or is_window(one.expression):
        return found
    try:
        runs = await view.app.schedules.preview(one.name, NEXT_RUNS + 1, start)
        change = next_change(one.tz, now)
        around = [] if change is None else await _around(view, one, change)
    except InvalidSchedule as error:  # this host does not know its zone
        return {**found, "unworkable": str(error)}
    more = instant(runs[-1].scheduled_for) if len(runs) > NEXT_RUNS else None
    return {
        **found, "next_runs": next_runs(one, runs[:NEXT_RUNS]), "clock_change": change, "changed_runs": around,
        "next_from": None if more is None else view.with_query(**{"from": more}) + "#next-runs",
    }  # fmt: skip


async def _around(view: View, one: Schedule, change: ClockChange) -> list[NextRun]:
    """The first slots that a clock change does something to."""
    runs = await view.app.schedules.preview(one.name, AT_A_CHANGE, change.at - abs(change.by))
    near = [fire for fire in runs if fire.mark is not None and abs(fire.scheduled_for - change.at) <= abs(change.by)]
    return next_runs(one, near)


def next_runs(one: Schedule | Rule, fires: Sequence[Fire]) -> list[NextRun]:
    rule = Rule(one.expression, one.tz, one.dst)  # type: ignore[arg-type]
    return [
        NextRun(
            fire.scheduled_for,
            f"{fire.local:%a %Y-%m-%d %H:%M:%S}" if fire.local.second else f"{fire.local:%a %Y-%m-%d %H:%M}",
            told(rule, fire.scheduled_for, fire.local, fire.mark),
        )
        for fire in fires
    ]  # fmt: skip


# --- what was -------------------------------------------------------------------------------------------------------


async def _ledger(view: View, one: Schedule, now: datetime) -> dict[str, Any]:
    """A page of the ledger, back in time with `?before=`."""
    asked = view.text("before")
    before = None if asked is None else moment(asked, "before", now)
    rows = await view.app.schedules.latest_slots(one.name, SLOTS + 1, before)
    shown = rows[-SLOTS:]
    strip = squares(view, one, shown)
    strip = [square._replace(href=slot_link(view, one.name, square.at, before=asked)) for square in strip]
    if before is None:
        strip += _pending(view, one, now)
    older = view.with_query(before=instant(shown[0].scheduled_for), slot=None) if len(rows) > SLOTS else None
    return {
        "slots": shown[::-1], "strip": strip, "legend": legend(strip), "older": older and older + "#ledger",
        "newest": None if before is None else view.with_query(before=None, slot=None) + "#ledger",
        "before": asked, "slot_links": {square.at: square.href for square in strip},
    }  # fmt: skip


def _pending(view: View, one: Schedule, now: datetime) -> list[SlotSquare]:
    """One square for all slots that are due and undecided, however many."""
    if not one.enabled or one.deleted_at is not None or one.cursor >= now:
        return []
    try:
        trigger = trigger_of(one)
    except InvalidSchedule:
        return []
    first, count = trigger.after(one.cursor), trigger.count(one.cursor, now)
    if first is None or not count:
        return []
    slots = "1 slot is" if count == 1 else f"{count:,} slots are"
    label = f"{slots} due since {instant(first)} and not decided"
    return [SlotSquare("pending", label, slot_link(view, one.name, first), first)]


# --- one slot -------------------------------------------------------------------------------------------------------


async def _slot(view: View, one: Schedule) -> dict[str, Any]:
    """The slot that `?slot=` asks for."""
    asked = view.text("slot")
    if asked is None or is_window(one.expression):
        return {"slot_at": None}
    at = moment(asked, "slot", await view.app.now())
    why: Explanation = await view.app.schedules.explain_slot(one.name, at)
    touching = await view.app.schedules.slots(one.name, at, at, 10)
    return {
        "slot_at": at, "slot_text": instant(at), "slot_why": why, "slot": _row_of(touching, at, why),
        "slot_can_run": one.deleted_at is None and why.status in ("pending", "not_due_yet", "before_first_revision"),
        "slot_close": view.with_query(slot=None) + "#ledger",
    }  # fmt: skip


def _row_of(rows: Sequence[Slot], at: datetime, why: Explanation) -> Slot | None:
    """The row that the explanation is about."""
    own = next((row for row in rows if row.scheduled_for == at), None)
    return own or next((row for row in rows if row.verdict == why.status), None)


# --- what it has been -----------------------------------------------------------------------------------------------


async def _revisions(view: View, name: str) -> list[ToldRevision]:
    """The latest revisions, each with what it changed."""
    found = await view.app.schedules.revisions(name, limit=REVISIONS + 1)
    told_of = [ToldRevision(later, _changes(earlier, later)) for later, earlier in pairwise(found)]
    if found and found[-1].revision == 1:
        told_of.append(ToldRevision(found[-1], []))
    return told_of[:REVISIONS]


def _changes(earlier: Revision, later: Revision) -> list[tuple[str, str, str]]:
    pairs = ((term, _shown(earlier, term), _shown(later, term)) for term in TERMS)
    return [(term, before, after) for term, before, after in pairs if before != after]


def _shown(revision: Revision, term: str) -> str:
    value = getattr(revision, term)
    if term == "grace":
        return describe(value)
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
