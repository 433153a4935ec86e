"""What happens, told to whoever listens: metrics, logs, the simulator's history.

`emit` costs one dictionary look-up when nobody listens. A subscriber that raises is logged and never disturbs the
engine.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from oncue.errors import StoreFull

Subscriber: TypeAlias = Callable[[str, Mapping[str, float], Mapping[str, Any]], None]

EVENTS: dict[str, str] = {
    "enqueue": "jobs were written: jobs, duplicates; task, queue",
    "claim": "a node took jobs: jobs; node",
    "job.start": "an attempt began: wait (s); claim",
    "job.stop": "an attempt ended: duration (s), rows; claim, change, outcome",
    "job.retry": "an attempt will be repeated: delay (s); claim, change",
    "settle": "outcomes were written: jobs, rejected; node",
    "settle.rejected": "a late write changed nothing: change",
    "release": "jobs were given back uncharged: jobs; node, cause",
    "rescue": "a lost node's job was taken away: claim, change",
    "overrun": "an attempt over its maximum runtime was fenced: claim, change",
    "expire": "a job that had waited past its time was ended: job, change, task, queue",
    "slot": "slots were decided: slots, late (s); schedule, schedule_id, decided, node",
    "schedule.error": "a schedule's slots could not be worked out: schedule, error",
    "leader.elected": "this node leads: epoch; node, lease",
    "leader.lost": "this node leads no more: epoch; node, why",
    "outage": "nobody led, for longer than a lease, until this node did: duration (s); node",
    "exclusive.taken": "this node is the exclusive worker: epoch; node, lease",
    "exclusive.lost": "this node is the exclusive worker no more: node, why",
    "recovery": "a dead predecessor's runs were ended: jobs; node, predecessor",
    "node.lost": "a node's lease ended: node",
    "node.beat": "a lease was renewed: duration (s); node",
    "queue.depth": "a sample of what waits: depth (of all queues); depths (by queue, then by priority)",
    "survey": "what a look at the whole database found: survey",
    "in_flight": "attempts running in this process: in_flight, buffered, concurrency, aside; node",
    "delivery": "a request of a delivery was answered, or was not sent: seconds; claim, webhook, outcome",
    "breaker": "the circuit breaker of an endpoint opened, or closed: trips (0: it closed); group",
    "orphans": "deliveries were found that no node would look at: found, re_emitted, failed",
    "age": "waiting jobs gained priority: jobs",
    "prune": "finished jobs were deleted: jobs",
    "sched.tick.stop": "a tick of the planner is over: duration_ms; users_scanned, eligible_in_window, enqueued, "
    "cutoff_finalized",
    "sched.queue.depth": "what waits in a window's queue, in the whole cluster: depth; today, queue, in_flight, "
    "max_concurrency",
    "sched.executor.in_flight": "what runs here of a window's queue has changed: in_flight; max_concurrency, queue",
    "sched.job.stop": "an attempt of a window's job ended: duration_ms; result, error_class (of a failure), window",
    "sched.finalize": "a user's day has its outcome: status, due_bucket, today, window, reason",
    "cluster.spread": "the parts of a cluster job were written: parts; task, job_id",
    "cluster.decided": "the leader has stopped waiting for the parts of a cluster job: duration (s), lost; task, "
    "job_id, what (decided, or the state in which it ended), quorum",
    "slo.breach": "a warning begins: value, threshold; alert, of, window_minutes, due_bucket, since, text",
    "slo.over": "a warning is over: value, threshold; alert, of, window_minutes, due_bucket, since, text",
    "tick.error": "a service's step failed and will be repeated: service, error",
}

PUBLIC_EVENTS = tuple(event for event in EVENTS if event.startswith(("sched.", "slo.")))
"""Those that an application may subscribe to, and that stay what they are."""

REPEAT_SECONDS = 300.0

_log = logging.getLogger("oncue.telemetry")
_database_log = logging.getLogger("oncue.database")


class DatabaseOutages:
    """What the log tells of a database that is away or full: a line at the beginning, one at the end, few in between.

    Every service notices it by itself, in two threads. The outage is over when all that failed work again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failing: dict[str, Exception] = {}
        self._since = self._told_at = 0.0

    def failed(self, service: str, error: Exception, now: float) -> None:
        """A service did not reach the database, or found no room in it, at this reading of the monotonic clock."""
        with self._lock:
            is_new = not self._failing
            self._failing[service] = error
            if not is_new and now - self._told_at < REPEAT_SECONDS:
                return
            self._since, self._told_at = (now if is_new else self._since), now
        if is_new:
            until = "there is room" if isinstance(error, StoreFull) else "it answers"
            _database_log.warning("%s (everything is tried again until %s)", error, until)
        else:
            _database_log.warning("%s (for %.0f s now)", error, now - self._since)

    def works(self, service: str, now: float) -> None:
        error = self._failing.get(service)
        if error is not None and self.forget(service):
            works = "has room" if isinstance(error, StoreFull) else "answers"
            _database_log.warning("the database %s again, after %.1f s", works, now - self._since)

    def forget(self, service: str) -> bool:
        """A service works again, or asks no more: whether it was the last that failed."""
        with self._lock:
            was_failing = self._failing.pop(service, None) is not None
            return was_failing and not self._failing

    @property
    def is_known(self) -> bool:
        return bool(self._failing)

    @property
    def full(self) -> str | None:
        """What the database says of having no room left, if some service cannot write because of that."""
        with self._lock:
            return next((str(error) for error in self._failing.values() if isinstance(error, StoreFull)), None)


class Telemetry:
    """The subscribers of one process."""

    def __init__(self) -> None:
        self.outages = DatabaseOutages()
        self._subscribers: dict[str, tuple[Subscriber, ...]] = {}

    def subscribe(self, subscriber: Subscriber, *events: str) -> None:
        """Call `subscriber` for these events, or for all of them."""
        for event in events or EVENTS:
            if event not in EVENTS:
                raise ValueError(f"event: expected one of {', '.join(EVENTS)}, not {event!r}")
            self._subscribers[event] = (*self._subscribers.get(event, ()), subscriber)

    def wants(self, event: str) -> bool:
        """Whether anybody listens, for events that would be costly to describe."""
        return event in self._subscribers

    def emit(self, event: str, measurements: Mapping[str, float], **metadata: Any) -> None:
        for subscriber in self._subscribers.get(event, ()):
            try:
                subscriber(event, measurements, metadata)
            except Exception:
                _log.exception("a subscriber of %s failed", event)
