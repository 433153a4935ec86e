"""The verbs on jobs.

reading   jobs, their attempts, and how many there are
changing  cancel a job, retry it, set its status or its priority
many      the same to many jobs, each for itself
matching  the same to all jobs that match a filter, and how many those are
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from oncue.model import Note
from oncue.policy.checks import checked_name
from oncue.policy.durations import Duration, seconds
from oncue.verbs.jobs.many import MOST_AT_ONCE, Handled
from oncue.verbs.jobs.matching import MOST_COUNTED, Counted, Matched, Matching, SearchResult
from oncue.verbs.jobs.reading import LARGEST_OFFSET

if TYPE_CHECKING:
    from oncue.policy.explain import Explanation

__all__ = ["LARGEST_OFFSET", "MOST_AT_ONCE", "MOST_COUNTED", "Counted", "Handled", "Jobs", "Matched", "SearchResult"]

PRUNE_BATCH = 1000


class Jobs(Matching):
    """The verbs on jobs. In plain code: `app.wait(app.jobs.cancel(7))`."""

    async def prune(
        self, older_than: Duration, told: Callable[[int], None] | None = None, *, by: str = "system"
    ) -> int:
        """Delete finished jobs older than this, in batches; how many. `told` hears the count after each batch."""
        by, connected = checked_name(by, "by"), await self._connected()
        before = connected.now() - timedelta(seconds=seconds(older_than, "older_than"))
        note = Note(by, "prune", "jobs", {"finished_before": before.isoformat()})
        total = 0
        while gone := await connected.store.jobs.prune(before, PRUNE_BATCH, noted=(note, connected.now())):
            total += gone
            if told is not None:
                told(total)
        return total

    async def explain(self, ref: int | UUID) -> Explanation:
        """Why a job waits, runs or ended as it did. Raises JobNotFound."""
        from oncue.policy import explain
        from oncue.verbs import explaining

        connected, job = await self._connected(), await self.get(ref)
        return explain.explain_job(await explaining.job_facts(connected, job, self._app.aging))
