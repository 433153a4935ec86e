"""SLOs and alerts: how each of them stands, as the leader's watcher last saw it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from oncue.model import AlertState
from oncue.policy import slo
from oncue.policy.slo import Rolling
from oncue.policy.subjects import shown_due
from oncue.policy.urls import origin
from oncue.records.alerts import state_of
from oncue.server.dashboard.rendering import shell
from oncue.server.dashboard.slos import BADGES, KINDS, LASTING, AlertKind, Spark, by_urgency, kind_of, line_of
from oncue.server.dashboard.subjects import window_link

if TYPE_CHECKING:
    from oncue.server.dashboard.pages import Dashboard
    from oncue.server.dashboard.view import View

LATE = 3
"""After so many evaluations that did not come, what is shown is old."""


class AlertRow(NamedTuple):
    """One SLO or alert, of one thing."""

    kind: AlertKind
    state: AlertState
    word: str
    badge: str
    link: str
    line: Spark | None
    due_at: str | None
    command: str


class AlertGroup(NamedTuple):
    name: str
    rows: Sequence[AlertRow]
    silent: Sequence[AlertKind]
    """Those with nothing to measure."""


class AlertTarget(NamedTuple):
    """Where warnings are delivered to."""

    name: str
    link: str | None


def add(dashboard: Dashboard) -> None:
    @dashboard.page("/alerts", "alerts.html", title="SLOs and alerts", room="alerts", every=3.0)
    async def alerts(view: View) -> dict[str, Any]:
        app = view.app
        now, book, rules = await app.now(), await app.alerts.book(), app.settings.slo
        minutes = await app.alerts.minutes(LASTING) if book.alerts else []
        windows = {window.name for window in await app.windows.list()}
        rolling = Rolling(minutes)
        rows = [_row(view, one, windows, line_of(one, rolling, minutes, now)) for one in by_urgency(book.alerts)]
        return {
            "book": book, "now": now, "rules": rules, "groups": _groups(rows),
            "warned": sum(row.word == "warned" for row in rows),
            "breached": sum(row.word == "breached" for row in rows), "total": len(rows),
            "is_old": _is_old(book.evaluated_at, rules.every, now), "target": _target(view),
            "list_shell": shell("oncue alerts list"), "rules_shell": "oncue alerts > oncue.rules.yml",
        }  # fmt: skip


def _row(view: View, state: AlertState, windows: set[str], line: Spark | None) -> AlertRow:
    kind, word = kind_of(state.alert), state_of(state)
    due_at = None if state.due_bucket is None else shown_due(state.due_bucket)
    return AlertRow(kind, state, word, BADGES[word], _link(view, state, windows), line, due_at, kind.command(state.of))


def _link(view: View, state: AlertState, windows: set[str]) -> str:
    """Where what it is of can be looked at."""
    match state.alert:
        case slo.TICK:
            return view.link("/cluster")
        case slo.SATURATION | slo.WINDOW_DEPTH | slo.QUEUE_DEPTH:
            return view.link("/queues", state.of)
        case slo.FAILED_RATE:
            return view.link("/jobs", queue=state.of, status="failed")
        case slo.RUNNING_LONG:
            return view.link("/jobs", task=state.of, status="running")
    return window_link(view, state.of) if state.of in windows else view.link("/schedules", state.of)


def _groups(rows: Sequence[AlertRow]) -> list[AlertGroup]:
    names = dict.fromkeys(kind.group for kind in KINDS)
    told = {row.kind.alert for row in rows}
    return [
        AlertGroup(name, [row for row in rows if row.kind.group == name],
              [kind for kind in KINDS if kind.group == name and kind.alert not in told])
        for name in names
    ]  # fmt: skip


def _is_old(evaluated_at: datetime | None, every: float, now: datetime) -> bool:
    return evaluated_at is not None and now - evaluated_at > timedelta(seconds=LATE * every)


def _target(view: View) -> AlertTarget | None:
    """A webhook by its name. Of a URL the host alone is shown: its path may be a secret."""
    target = view.app.settings.alert_webhook
    if target is None:
        return None
    return (
        AlertTarget(f"{origin(target)}/…", None)
        if "://" in target
        else AlertTarget(target, view.link("/webhooks", target))
    )
