"""What both stores do in the same way."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from oncue.model import Change, Place, Queue, Step

NAMED_FOR = timedelta(days=1)
"""How much longer than finished jobs a node is kept that is gone: its last jobs may have been settled after its end."""

BEGINNING: Place = (datetime(1970, 1, 1, tzinfo=UTC), 0)


def queue_rows(
    known: Iterable[Iterable[Any]], live: Iterable[Iterable[Any]], totals: Iterable[Iterable[Any]]
) -> list[Queue]:
    """The queues that were ever used, from what is set for them, what waits in them and what finished."""
    paused: dict[str, datetime | None] = {name: paused_at for name, paused_at in known}  # noqa: C416
    counts: dict[str, dict[str, int]] = {name: {} for name in paused}
    for queue, state, jobs in (*live, *totals):
        counts.setdefault(queue, {})[state] = jobs
    fields = ("queued", "running", "later", "succeeded", "failed", "cancelled", "skipped")
    return [Queue(name, paused.get(name), *(counts[name].get(field, 0) for field in fields)) for name in sorted(counts)]


def is_plain(change: Change) -> bool:
    """Success at the first attempt, with no result to keep."""
    return (
        change.state == "succeeded"
        and change.from_state == "running"
        and change.attempt == 1
        and change.result is None
        and change.reason is None
        and change.started_at is not None
        and change.crashes == 0
        and change.retry_count == 0
    )


def is_plain_step(step: Step) -> bool:
    """One slot, the one that the cursor moves to, fires: nothing to say of any other."""
    if len(step.decided) != 1:
        return False
    (decided,) = step.decided
    return decided.job_id is not None and decided == (step.cursor, "fired", None, decided.job_id, None, None, 1)
