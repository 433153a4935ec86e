"""The schedules: their rules, when they run next, how their latest slots went, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from oncue.model import Schedule, Slot
from oncue.policy.windows import is_window
from oncue.server.api.problems import invalid
from oncue.server.dashboard import schedule, schedule_calendar, schedule_changes, schedule_edit
from oncue.server.dashboard.schedule_terms import ScheduleTarget, target_of, words_of
from oncue.server.dashboard.slot_strip import SlotSquare, kind_of, legend, squares

if TYPE_CHECKING:
    from oncue.server.dashboard.pages import Dashboard
    from oncue.server.dashboard.view import View

PAGE, STRIP = 50, 16
STATES = {"": None, "enabled": True, "paused": False}
LATE = timedelta(minutes=1)
MOST_UNMADE = 20


class ScheduleRow(NamedTuple):
    """A line of the listing."""

    schedule: Schedule
    link: str
    words: str
    target: ScheduleTarget
    squares: Sequence[SlotSquare]
    last: Slot | None
    """Its latest run that is known."""
    troubles: Sequence[str]


def add(dashboard: Dashboard) -> None:
    schedule.add(dashboard)
    schedule_changes.add(dashboard)
    schedule_edit.add(dashboard)
    schedule_calendar.add(dashboard)

    @dashboard.page("/schedules", "schedules.html", title="Schedules", room="schedules")
    async def schedules(view: View) -> dict[str, Any]:
        if view.query.get("name"):  # a name that a path could not say
            return await schedule.read(view)
        app, state = view.app, view.query.get("state", "")
        if state not in STATES:
            raise invalid("state", f"expected `enabled` or `paused`, not {state!r:.60}")
        prefix, after = view.query.get("prefix", "").strip(), view.query.get("after", "")
        found = await app.schedules.find(prefix=prefix, enabled=STATES[state], after=after, limit=PAGE)
        slots = await app.schedules.latest_slots_of(
            [one for one in found.schedules if not is_window(one.expression)], STRIP
        )
        now = await app.now()
        rows = [_row(view, one, slots.get(one.id, []), now) for one in found.schedules]
        is_whole = found.go_on is None and not (prefix or state or after)
        return {
            "rows": rows, "prefix": prefix, "state": state, "now": now,
            "next_page": None if found.go_on is None else view.with_query(after=found.go_on),
            "is_filtered": bool(prefix or state), "is_later_page": bool(after),
            "troubled": [row for row in rows if row.troubles],
            "unmade": _unmade(view, rows) if is_whole else [],
            "legend": legend(one for row in rows for one in row.squares),
        }  # fmt: skip


def _row(view: View, one: Schedule, slots: Sequence[Slot], now: datetime) -> ScheduleRow:
    room = "/windows" if is_window(one.expression) else "/schedules"
    last = next((slot for slot in reversed(slots) if slot.job_id is not None), None)
    return ScheduleRow(
        one, view.link(room, one.name), words_of(one.expression), target_of(view, one), squares(view, one, slots), last,
        _troubles(one, slots, last, now),
    )  # fmt: skip


def _troubles(one: Schedule, slots: Sequence[Slot], last: Slot | None, now: datetime) -> list[str]:
    """What an operator should look at."""
    found = []
    if one.next_run_at is not None and now - one.next_run_at > LATE:
        found.append("late")
    if last is not None and last.state == "failed":
        found.append("last run failed")
    if slots and kind_of(slots[-1]) == "missed":
        found.append("last slot missed")
    if slots and kind_of(slots[-1]) == "skipped":
        found.append("last slot skipped")
    return found


def _unmade(view: View, rows: Sequence[ScheduleRow]) -> list[str]:
    """What the code declares and no worker has told the database about."""
    there = {row.schedule.name for row in rows}
    return sorted(set(view.app.internals.scheduled) - there)[:MOST_UNMADE]
