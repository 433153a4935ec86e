"""What needs attention: the same findings in the overview and wherever else they are shown."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from oncue.engine.survey import Survey
from oncue.model import Queue
from oncue.server.dashboard.rendering import shell

if TYPE_CHECKING:
    from oncue.server.dashboard.view import View

MOST_NAMED = 5
LATE_SECONDS = 60.0


class Matter(NamedTuple):
    """One thing that an operator should look at."""

    kind: str
    """`fail` or `warn`."""
    text: str
    advice: str
    link: str


async def matters(view: View, found: Survey, now: datetime) -> list[Matter]:
    """The worst first."""
    told = [*_of_nodes(view, found), *_of_alerts(view, found), *_of_queues(view, found, now), *_of_groups(view, found)]
    return sorted(told, key=lambda matter: matter.kind != "fail")


def _of_nodes(view: View, found: Survey) -> Iterator[Matter]:
    if not found.serving:
        yield Matter("fail", "No worker is alive: nothing is run.", "Start one with `oncue worker` or `oncue run`.",
                     view.link("/queues"))  # fmt: skip
    elif not found.led:
        yield Matter("fail", "No node leads: schedules do not fire.", "A node takes the lead within one lease.",
                     view.link("/cluster"))  # fmt: skip


def _of_alerts(view: View, found: Survey) -> Iterator[Matter]:
    warned = [alert for alert in found.alerts if alert.warned_at is not None]
    for alert in warned[:MOST_NAMED]:
        text = alert.text or f"{alert.alert} of {alert.of}: {alert.value:g}, over {alert.threshold:g}"
        yield Matter("fail", text, "", view.link("/alerts"))
    if len(warned) > MOST_NAMED:
        yield Matter("fail", f"{len(warned) - MOST_NAMED} more alerts.", "", view.link("/alerts"))


def _of_queues(view: View, found: Survey, now: datetime) -> Iterator[Matter]:
    for queue in found.queues:
        if queue.paused_at is not None:
            waits = f"{queue.queued:,} jobs wait." if queue.queued else "Nothing waits in it."
            yield Matter("warn", f"The queue {queue.name} is paused. {waits}", shell("oncue queues resume", queue.name),
                         view.link("/queues", queue.name))  # fmt: skip
    unserved = [queue for queue in found.queues if _is_unserved(queue, found)]
    if found.serving:
        for queue in unserved[:MOST_NAMED]:
            advice = f"Start one with `{shell('oncue worker', queues=queue.name)}`."
            yield Matter("fail", f"{queue.queued:,} jobs wait in the queue {queue.name}, and no worker serves it.",
                         advice, view.link("/queues", queue.name))  # fmt: skip
    if found.next_run is not None and found.led and (now - found.next_run).total_seconds() > LATE_SECONDS:
        yield Matter("fail", "Schedules are late: a slot is due for more than a minute and not decided.",
                     "oncue doctor", view.link("/schedules"))  # fmt: skip


def _is_unserved(queue: Queue, found: Survey) -> bool:
    return queue.queued > 0 and queue.paused_at is None and not found.serving.get(queue.name)


def _of_groups(view: View, found: Survey) -> Iterator[Matter]:
    opened = [group for group in found.held_back if not group.by_hand]
    if opened:
        names = ", ".join(group.name for group in opened[:MOST_NAMED])
        more = f" and {len(opened) - MOST_NAMED:,} more" if len(opened) > MOST_NAMED else ""
        yield Matter("warn", f"The circuit breaker is open of: {names}{more}.",
                     "Deliveries wait; a probe is sent by itself.", view.link("/webhooks"))  # fmt: skip
