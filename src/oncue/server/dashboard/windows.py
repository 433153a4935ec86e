"""Daily windows: how each stands, and what became of a day by the minute of the cutoff."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from oncue.model import AlertState, Queue, Schedule
from oncue.policy.slo import PREDICTED
from oncue.policy.windows import ONE_DAY, rule_of
from oncue.records.alerts import state_of
from oncue.server.dashboard import subjects
from oncue.server.dashboard.deeds import Done
from oncue.server.dashboard.rendering import shell
from oncue.server.dashboard.slos import BADGES, about_window, by_urgency, kind_of
from oncue.server.dashboard.subjects import asked_day, subject_link, window_link
from oncue.server.dashboard.window_days import (
    DaySums,
    PastDays,
    by_bucket,
    chart,
    rows,
    stripe,
    together,
)

if TYPE_CHECKING:
    from oncue.server.dashboard.deeds import Deed
    from oncue.server.dashboard.pages import Dashboard
    from oncue.server.dashboard.view import View

DAYS_SHOWN = 14
SUBJECTS_SHOWN = 25


class WindowLine(NamedTuple):
    """A window in the list of all."""

    window: Schedule
    rule: Any
    queue: Queue | None
    today: DaySums
    parts: Sequence[Any]
    open: int
    """On the dates around today too: a date is another one in other zones."""
    alerts: Sequence[AlertState]
    link: str


class DayMark(NamedTuple):
    """A day of the row of days."""

    day: date
    sums: DaySums
    parts: Sequence[Any]
    link: str
    is_shown: bool


def add(dashboard: Dashboard) -> None:
    past = PastDays()
    subjects.add(dashboard)  # its paths are longer, and the name of a window may take what is left of one

    @dashboard.page("/windows", "windows.html", title="Windows", room="windows", every=3.0)
    async def list_windows(view: View) -> dict[str, Any]:
        if "name" in view.query:
            return {"template": "window.html", **await _window(view, past)}
        app, today = view.app, (await view.app.now()).date()
        windows, book, queues = await app.windows.list(), await app.alerts.book(), await _queues(view)
        lines = []
        for window in windows:
            around = [await past.sums(app, window, today + ONE_DAY * days, today) for days in (-1, 0, 1)]
            lines.append(
                WindowLine(window, rule_of(window.expression), queues.get(window.queue), around[1], stripe(around[1]),
                     together(around).open, [one for one in about_window(book, window) if one.breaches],
                     window_link(view, window.name))
            )  # fmt: skip
        lines.sort(key=lambda line: (not any(one.warned_at for one in line.alerts), not line.alerts))
        return {"lines": lines, "today": today}

    @dashboard.page("/window", "window.html", title="Window", room="windows", every=3.0)
    @dashboard.page("/windows/{window:path}", "window.html", title="Window", room="windows", every=3.0)
    async def show_window(view: View) -> dict[str, Any]:
        return await _window(view, past)

    @dashboard.action("/windows/pause", needs="operate")
    async def pause(deed: Deed) -> Done:
        window = await deed.app.windows.get(deed.text("window"))
        await deed.app.schedules.toggle(window.name, False, changed_by=deed.by)
        return Done(f"{window.name} is paused: no window opens, and no day is decided.")

    @dashboard.action("/windows/enable", needs="operate")
    async def enable(deed: Deed) -> Done:
        window = await deed.app.windows.get(deed.text("window"))
        await deed.app.schedules.toggle(window.name, True, changed_by=deed.by)
        return Done(f"{window.name} is enabled.")


async def _queues(view: View) -> dict[str, Queue]:
    return {queue.name: queue for queue in await view.app.queues.list()}


async def _window(view: View, past: PastDays) -> dict[str, Any]:
    app = view.app
    now = await app.now()
    window = await app.windows.get(view.parameters.get("window") or view.query.get("window") or view.name)
    day, hour = asked_day(view) or now.date(), view.number("hour", least=0, most=23)
    buckets = by_bucket(await app.windows.day(window.name, day))
    alerts = by_urgency(about_window(await app.alerts.book(), window))
    at_risk = _at_risk(alerts, day, now)
    sums = together([*buckets.values()])
    return {
        "title": window.name, "window": window, "rule": rule_of(window.expression), "now": now, "day": day,
        "today": now.date(), "hour": hour, "sums": sums, "chart": chart(buckets, at_risk, hour),
        "rows": rows(buckets, at_risk, hour), "at_risk": sum(at_risk.values()), "one_day": ONE_DAY,
        "alerts": [(one, kind_of(one.alert), state_of(one), BADGES[state_of(one)]) for one in alerts],
        "predicted": next((one for one in alerts if one.alert == PREDICTED), None),
        "marks": await _marks(view, window, past, (day, sums), now.date()),
        "queue": (await _queues(view)).get(window.queue),
        "why": await app.schedules.explain(window.name), "why_shell": shell("oncue explain", window.name),
        "day_shell": shell("oncue windows", window.name, day=None if day == now.date() else day),
        **await _subjects(view, window, now),
    }  # fmt: skip


def _at_risk(alerts: Sequence[AlertState], day: date, now: datetime) -> Mapping[int, int]:
    """How many subjects will miss which cutoff, of those that are open now."""
    if abs((day - now.date()).days) > 1:
        return {}
    return {
        one.due_bucket: round(one.value)
        for one in alerts
        if one.alert == PREDICTED and one.due_bucket is not None and one.value > 0
    }


async def _marks(
    view: View, window: Schedule, past: PastDays, shown: tuple[date, DaySums], today: date
) -> list[DayMark]:
    """The day that is shown among those before it, the latest first, from tomorrow on: that is today in the east."""
    day, its_sums = shown
    last = today + ONE_DAY if today - timedelta(days=DAYS_SHOWN - 2) <= day <= today + ONE_DAY else day
    found = []
    for one in (last - ONE_DAY * back for back in range(DAYS_SHOWN)):
        sums = its_sums if one == day else await past.sums(view.app, window, one, today)
        link = view.with_query(day=None if one == today else one, hour=None)
        found.append(DayMark(one, sums, stripe(sums), link, one == day))
    return found


async def _subjects(view: View, window: Schedule, now: datetime) -> dict[str, Any]:
    prefix, after = view.text("prefix") or "", view.query.get("after", "")
    found = await view.app.windows.subjects(window.name, after=after, prefix=prefix, limit=SUBJECTS_SHOWN + 1)
    shown = found[:SUBJECTS_SHOWN]
    further = view.with_query(after=shown[-1].name) + "#subjects" if len(found) > len(shown) else None
    return {
        "prefix": prefix, "after": after, "further": further, "is_first": not after,
        "first": view.with_query(after=None) + "#subjects",
        "subjects": [
            (one, subjects.standing(one, now), subjects.last_day(one), subject_link(view, window.name, one.name))
            for one in shown
        ],
    }  # fmt: skip
