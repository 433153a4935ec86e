"""The calendar: a lane for each schedule, with its runs over the next day or week.

A schedule with few runs has a mark for each. One with many has bands: it is only asked, piece by piece, whether it runs
in it. So a lane costs the same however often its schedule fires.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from oncue.errors import InvalidSchedule
from oncue.model import DuePosition, Schedule
from oncue.policy import triggers
from oncue.policy.clock_changes import next_change
from oncue.policy.triggers import Trigger, trigger_of
from oncue.server.api.problems import invalid
from oncue.server.dashboard.schedule_terms import words_of

if TYPE_CHECKING:
    from oncue.server.dashboard.pages import Dashboard
    from oncue.server.dashboard.view import View

LANES = 60
MOST_MARKS, PIECES = 180, 96
WIDTH = 1000
"""A lane is drawn so wide, and shown as wide as there is room."""
SPANS = {"day": (timedelta(hours=24), 8), "week": (timedelta(days=8), 8)}
"""How long each span is, and how many parts its axis has. A week is drawn with the whole of today."""


class CalendarLane(NamedTuple):
    """The runs of one schedule within the span."""

    schedule: Schedule
    words: str
    total: int
    marks: Sequence[tuple[int, datetime]]
    """Where each run is."""
    bands: Sequence[tuple[int, int]]
    """Where runs are many: from, and how wide."""
    clock_change: datetime | None
    """When the clocks of its zone change within the span."""


def add(dashboard: Dashboard) -> None:
    @dashboard.page("/calendar", "calendar.html", title="Calendar", room="schedules", every=20.0)
    async def calendar(view: View) -> dict[str, Any]:
        name = view.query.get("span") or "day"
        if name not in SPANS:
            raise invalid("span", f"expected `day` or `week`, not {name!r:.60}")
        length, parts = SPANS[name]
        now = await view.app.now()
        start = now.replace(minute=0, second=0, microsecond=0)
        start = start.replace(hour=0) if name == "week" else start
        end = start + length
        found = await view.app.schedules.coming(limit=LANES + 1, after=_position(view))
        within = [one for one in found if one.next_run_at is not None and one.next_run_at < end]
        lanes = [lane for one in within[:LANES] if (lane := _lane(one, now, start, end)) is not None]
        later = next((one for one in found if one not in within), None)
        return {
            "span": name, "lanes": lanes, "now": now, "end": end, "now_at": _place(now, start, end),
            "axis": [start + length / parts * number for number in range(parts)], "later": later,
            "next_page": _next_page(view, within), "is_first_page": not view.query.get("after"),
        }  # fmt: skip


def _position(view: View) -> DuePosition | None:
    """Where the page before has ended: the next slot and the id of its last schedule."""
    text = view.query.get("after", "")
    if not text:
        return None
    at, _, number = text.partition("~")
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or not number.isdecimal() or len(number) > 18:
        raise invalid("after", f"expected what the link to the next page says, not {text!r:.60}")
    return moment.astimezone(UTC), int(number)


def _next_page(view: View, within: Sequence[Schedule]) -> str | None:
    if len(within) <= LANES:
        return None
    last = within[LANES - 1]
    assert last.next_run_at is not None
    return view.with_query(after=f"{last.next_run_at.isoformat()}~{last.id}")


def _lane(one: Schedule, now: datetime, start: datetime, end: datetime) -> CalendarLane | None:
    """None: this host cannot work out its slots."""
    try:
        trigger, change = trigger_of(one), next_change(one.tz, now)
    except InvalidSchedule:
        return None
    total = trigger.count(now, end)
    marks: list[tuple[int, datetime]] = []
    bands: list[tuple[int, int]] = []
    if total <= MOST_MARKS:
        runs = islice(triggers.between(trigger, now, end), MOST_MARKS)
        marks = [(_place(run, start, end), run) for run in runs]
    else:
        bands = list(_bands(trigger, now, start, end))
    changes_at = change.at if change is not None and change.at < end else None
    return CalendarLane(one, words_of(one.expression), total, marks, bands, changes_at)


def _bands(trigger: Trigger, now: datetime, start: datetime, end: datetime) -> Iterator[tuple[int, int]]:
    """The pieces of the span in which it runs, those side by side as one."""
    piece = (end - start) / PIECES
    began: datetime | None = None
    for number in range(PIECES):
        first, last = max(start + number * piece, now), start + (number + 1) * piece
        if first < last and trigger.count(first, last):
            began = first if began is None else began
        elif began is not None:
            yield _band(began, first, start, end)
            began = None
    if began is not None:
        yield _band(began, end, start, end)


def _band(first: datetime, last: datetime, start: datetime, end: datetime) -> tuple[int, int]:
    left = _place(first, start, end)
    return left, max(_place(last, start, end) - left, 1)


def _place(at: datetime, start: datetime, end: datetime) -> int:
    return round((at - start) / (end - start) * WIDTH)
