"""What has happened lately: nodes that came, left or were lost, a new leader, alerts, and changes by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from oncue.engine.survey import Survey
from oncue.model import AuditEntry, GoneNode, Node
from oncue.server.dashboard.telling import Telling
from oncue.verbs.cluster import Leader

if TYPE_CHECKING:
    from oncue.server.dashboard.view import View

SPAN = timedelta(minutes=15)
MOST_SHOWN, MOST_CHANGES, MOST_NODES, MOST_WITH_TELLING = 8, 8, 20, 16


class Happening(NamedTuple):
    """One thing that has happened."""

    at: datetime
    kind: str
    text: str
    link: str


async def lately(
    view: View, found: Survey, nodes: Sequence[Node], leader: Leader | None, telling: Telling | None = None
) -> list[Happening]:
    """The latest first."""
    gone = await view.app.nodes.gone(SPAN.total_seconds(), limit=MOST_NODES)
    changes = await view.app.audit_log.list(limit=MOST_CHANGES)
    told = [
        *_of_nodes(view, nodes, gone),
        *_of_leader(view, leader),
        *_of_alerts(view, found),
        *_by_hand(view, changes),
        *_told(view, telling),
    ]
    most = MOST_SHOWN if telling is None else MOST_WITH_TELLING
    return sorted((one for one in told if one.at >= found.at - SPAN), reverse=True)[:most]


def _of_nodes(view: View, nodes: Sequence[Node], gone: Sequence[GoneNode]) -> Iterator[Happening]:
    for node in nodes:
        yield Happening(node.started_at, "ok", f"The worker {node.name} started.", view.link("/queues"))
    for one in gone:
        if one.left:
            yield Happening(one.at, "idle", f"The worker {one.name} stopped in good order.", view.link("/queues"))
        else:
            text = f"The worker {one.name} was lost: it did not renew its lease. What it held goes to others."
            yield Happening(one.at, "lost", text, view.link("/queues"))


def _of_leader(view: View, leader: Leader | None) -> Iterator[Happening]:
    if leader is not None:
        yield Happening(leader.since, "leader", f"{leader.name} leads, epoch {leader.epoch}.", view.link("/cluster"))


def _of_alerts(view: View, found: Survey) -> Iterator[Happening]:
    for alert in found.alerts:
        if alert.warned_at is not None:
            yield Happening(alert.warned_at, "warn", f"Alert: {alert.alert} of {alert.of}.", view.link("/alerts"))


def _by_hand(view: View, changes: Sequence[AuditEntry]) -> Iterator[Happening]:
    for entry in changes:
        text = f"{entry.actor}: {entry.action} {entry.subject}"
        yield Happening(entry.at, "manual", text, view.link("/audit-log", subject=entry.subject))


def _told(view: View, telling: Telling | None) -> Iterator[Happening]:
    if telling is not None:
        for event in telling.events:
            yield Happening(event.at, event.kind, event.text, view.link("/queues"))
