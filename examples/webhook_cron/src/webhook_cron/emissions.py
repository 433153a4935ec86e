"""What the scheduler emits, as the origin's log lines tell it, and what does not fit into the buffer.

The buffer is a worker's: executions that wait here for a seat. One that is emitted while the buffer and all seats are
taken stays in the durable queue until there is room. The origin waits for room for 5 seconds, loses the execution and
says so in two lines, which its operators look for: they come after the same time here, and nothing is lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from oncue import Oncue
from oncue.identity import job_uid
from oncue.model import DELIVER, WEBHOOKS_QUEUE
from oncue.server.health import Readiness

EMIT_SECONDS = 5.0
CAUSE = "emit failed: event buffer full"

_scheduler = logging.getLogger("webhook_cron.scheduler")
_bus = logging.getLogger("webhook_cron.eventbus")


class Emissions:
    """Listens to the scheduler of this process, and counts what finds no room."""

    def __init__(self, app: Oncue, readiness: Readiness) -> None:
        self._readiness = readiness
        self.capacity = app.settings.buffer
        self.errors = 0
        self._share = app.settings.webhooks_per_endpoint
        self._waiting: dict[int, tuple[str, datetime]] = {}
        """Emitted here and not begun, by id, the oldest first: the job's name, and when."""
        self._by_job: Counter[str] = Counter()
        self._in_share = 0
        """Of these, the ones that do not wait for their own endpoint: they take no room from others."""
        telemetry = app.internals.telemetry
        telemetry.subscribe(self._slot, "slot")
        telemetry.subscribe(self._begun, "job.start")
        telemetry.subscribe(self._surveyed, "survey")

    @property
    def size(self) -> int:
        """How many executions wait for a seat here."""
        node = self._readiness.node
        return 0 if node is None else node.executor.waiting

    # --- what telemetry tells -----------------------------------------------------------------------------------

    def _slot(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        decided, name = metadata["decided"], metadata["schedule"]
        if decided.verdict != "fired":
            return
        emitted_at = decided.scheduled_for + timedelta(seconds=measurements["late"])
        execution, scheduled_at = job_uid(decided.job_id, emitted_at), _text(decided.scheduled_for)
        _scheduler.info("scheduler: emitted job=%s execution=%s scheduled_at=%s", name, execution, scheduled_at)
        if not self._has_room(name):
            loop = asyncio.get_running_loop()
            loop.call_later(EMIT_SECONDS, self._tell_unless_begun, decided.job_id, name, execution, scheduled_at)
        self._waiting[decided.job_id] = name, emitted_at
        self._in_share += self._by_job[name] < self._share
        self._by_job[name] += 1

    def _tell_unless_begun(self, job_id: int, name: str, execution: UUID, scheduled_at: str) -> None:
        if job_id not in self._waiting:
            return
        self.errors += 1
        _bus.warning("eventbus: buffer full, execution=%s job=%s (left in the durable queue)", execution, name)
        _scheduler.warning(
            "scheduler: ORPHAN execution=%s job=%s scheduled_at=%s %s", execution, name, scheduled_at, CAUSE
        )

    def _begun(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        if metadata["claim"].task == DELIVER:
            self._forget(metadata["claim"].id)

    def _surveyed(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        """Other processes begin what was emitted here, too: forget what is not counted any more, oldest first."""
        survey = metadata["survey"]
        counted_at = survey.sampled_at or survey.at
        counted = self.size + sum(queue.queued for queue in survey.queues if queue.name == WEBHOOKS_QUEUE)
        older = [job_id for job_id, (_, emitted_at) in self._waiting.items() if emitted_at < counted_at]
        for job_id in older[: max(len(older) - counted, 0)]:
            self._forget(job_id)

    # --- room ---------------------------------------------------------------------------------------------------

    def _has_room(self, name: str) -> bool:
        """Whether the buffer and the free seats have room for one more."""
        node = self._readiness.node
        if node is None or self._by_job[name] >= self._share:
            return True
        seated = node.executor.running - node.executor.aside
        return self._in_share < self.capacity + max(node.executor.concurrency - seated, 0)

    def _forget(self, job_id: int) -> None:
        if job_id in self._waiting:
            name, _ = self._waiting.pop(job_id)
            self._by_job[name] -= 1
            self._in_share -= self._by_job[name] < self._share
            if not self._by_job[name]:
                del self._by_job[name]


def _text(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
