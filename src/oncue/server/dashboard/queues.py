"""Queues with their limits and groups, and the workers that serve them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from oncue.engine.counting import latest_sample
from oncue.engine.survey import Survey, survey
from oncue.errors import InvalidJob
from oncue.model import GoneNode, Group, Queue
from oncue.policy.checks import checked_queue
from oncue.server.api.problems import NOT_FOUND, Problem
from oncue.server.dashboard import queue_actions
from oncue.server.dashboard.group_states import GroupRow, group_row
from oncue.server.dashboard.limit_rows import of_group, of_queue, said
from oncue.server.dashboard.workers import WorkerRow, worker_rows

if TYPE_CHECKING:
    from oncue.server.dashboard.pages import Dashboard
    from oncue.server.dashboard.view import View

MOST_QUEUES, MOST_PAUSES, MOST_GONE = 200, 20, 20
GROUPS = 50
GROUPS_SECONDS = 4.0
"""How often a queue is read again: of each of its groups up to 1,000 jobs are counted."""
GONE_WITHIN = "1h"
LATEST_CHANGES = 20


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue as the list shows it."""

    queue: Queue
    state: str
    """`open`, `paused` or `unserved`."""
    limits: str
    serving: int
    """How many workers take its jobs."""
    waits: float | None
    """For how many seconds its oldest job has waited."""
    held_back: int
    """How many of its groups are paused, or have an open circuit breaker."""
    paused_by: str | None = None

    @property
    def trouble(self) -> tuple[bool, str]:
        """What needs attention comes first."""
        return self.state == "open", self.queue.name


def add(dashboard: Dashboard) -> None:
    queue_actions.add(dashboard)

    @dashboard.page("/queues", "queues.html", title="Queues and workers", room="queues")
    async def queues(view: View) -> dict[str, Any]:
        if view.name:
            return await _one(view)
        connected = await view.app.internals.connected()
        now = connected.now()
        found = await survey(connected.store, await latest_sample(connected.store, now), now)
        part = view.text("part")
        known = found.queues
        wanted = [queue for queue in known if part is None or part.lower() in queue.name.lower()]
        rows = sorted((_row(queue, found) for queue in wanted), key=lambda row: row.trouble)
        shown = [await _with_author(view, row, number) for number, row in enumerate(rows[:MOST_QUEUES])]
        gone = await view.app.nodes.gone(GONE_WITHIN, limit=MOST_GONE)
        workers = await worker_rows(view.app)
        return {
            "queue": None, "rows": shown, "known": len(known), "left_out": len(rows) - len(shown), "part": part or "",
            "counted_at": _counted_at(wanted), "workers": workers, "gone": gone, "figures": _figures(known, workers),
        }  # fmt: skip

    @dashboard.page("/queues/{name:path}", "queues.html", title="Queue", room="queues", every=GROUPS_SECONDS)
    async def queue(view: View) -> dict[str, Any]:
        return await _one(view)


# --- the list -------------------------------------------------------------------------------------------------------


def _row(queue: Queue, found: Survey) -> QueueRow:
    serving = found.serving.get(queue.name, 0)
    waiting = [age.since for age in found.ages if (age.kind, age.queue) == ("queued", queue.name)]
    waits = (found.at - min(waiting)).total_seconds() if waiting and queue.queued else None
    is_unserved = not serving and bool(queue.queued + queue.later)
    state = "paused" if queue.paused_at is not None else "unserved" if is_unserved else "open"
    held_back = sum(group.queue == queue.name for group in found.held_back)
    return QueueRow(queue, state, said(queue), serving, waits, held_back)


async def _with_author(view: View, row: QueueRow, number: int) -> QueueRow:
    if row.queue.paused_at is None or number >= MOST_PAUSES:
        return row
    return QueueRow(row.queue, row.state, row.limits, row.serving, row.waits, row.held_back,
                    await _author(view, row.queue.name, "queue.pause"))  # fmt: skip


async def _author(view: View, queue: str, action: str, group: str | None = None) -> str | None:
    """Who did this lately to the queue, or to a group of it; None if that is not among the latest changes of it."""
    for entry in await view.app.audit_log.list(subject=f"queue:{queue}", limit=LATEST_CHANGES):
        of = entry.after.get("group") if isinstance(entry.after, Mapping) else None
        if entry.action == action and of == group:
            return entry.actor
    return None


def _counted_at(queues: Sequence[Queue]) -> datetime | None:
    return min((queue.counted_at for queue in queues if queue.counted_at is not None), default=None)


def _figures(queues: Sequence[Queue], workers: Sequence[WorkerRow]) -> dict[str, int]:
    alive = [row for row in workers if row.is_alive]
    return {
        "waiting": sum(queue.queued for queue in queues), "later": sum(queue.later for queue in queues),
        "paused": sum(queue.paused_at is not None for queue in queues), "workers": len(alive),
        "seats": sum(row.node.concurrency for row in alive), "used": sum(row.seats_used for row in alive),
    }  # fmt: skip


# --- one queue ------------------------------------------------------------------------------------------------------


async def _one(view: View) -> dict[str, Any]:
    try:
        name = checked_queue(view.name)
    except InvalidJob as error:
        raise Problem(NOT_FOUND, f"There is no such queue: {error}") from None
    known = {queue.name: queue for queue in await view.app.queues.list()}
    workers = [row for row in await worker_rows(view.app) if name in row.node.queues]
    groups, older = await _groups(view, name)
    of_one = view.text("group")
    if name not in known and not workers and not groups and of_one is None:
        raise Problem(NOT_FOUND, f"There is no queue {name!r:.200}: a queue begins with its first job.")
    queue = known.get(name) or Queue(name, None, 0, 0, 0, 0, 0, 0, 0)
    explanation = await view.app.queues.explain(name)
    return {
        "title": f"Queue {name}", "queue": queue, "explanation": explanation, "limits": of_queue(queue),
        "workers": workers, "groups": groups, "older": older, "gone": list[GoneNode](),
        "paused_by": await _author(view, name, "queue.pause") if queue.paused_at is not None else None,
        "group": None if of_one is None else await _group(view, name, of_one),
    }  # fmt: skip


async def _groups(view: View, queue: str) -> tuple[list[GroupRow], str | None]:
    """The groups of a page, and the name that the next page goes on from."""
    found, now = await view.app.queues.groups(queue, after=view.text("after"), limit=GROUPS + 1), await view.app.now()
    shown = found[:GROUPS]
    return [group_row(group, now) for group in shown], shown[-1].name if len(found) > GROUPS else None


async def _group(view: View, queue: str, name: str) -> dict[str, Any]:
    group: Group = await view.app.queues.group(queue, name)
    row = group_row(group, await view.app.now())
    is_held = group.paused_until is not None
    by = await _author(view, queue, "group.pause", name) if is_held else None
    return {"row": row, "limits": of_group(group), "paused_by": by}
