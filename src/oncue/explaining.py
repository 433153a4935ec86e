"""Why is that so? Facts are gathered, and `policy/explain` puts them into words.

Both are loaded by the first question: most processes are never asked one, and every command would wait for them.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from oncue.checks import checked_moment
from oncue.operations import Operations
from oncue.policy.aging import Rules
from oncue.scheduling.looking import Looking

if TYPE_CHECKING:
    from oncue.policy.explain import Explanation


class Explaining(Operations, Looking):
    """In plain code: `app.wait(app.explain_job(7))`."""

    @property
    def aging(self) -> Rules:
        """How what waits gains priority."""
        raise NotImplementedError

    async def explain_job(self, ref: int | UUID) -> Explanation:
        """Why a job waits, runs or ended as it did. Raises JobNotFound."""
        from oncue import gathering
        from oncue.policy import explain

        connected, job = await self.connected(), await self.job(ref)
        return explain.explain_job(await gathering.job_facts(connected, job, self.aging))

    async def explain_schedule(self, name: str) -> Explanation:
        """Why a schedule does not fire, or when it will. Raises ScheduleNotFound."""
        from oncue import gathering
        from oncue.policy import explain

        connected, schedule = await self.connected(), await self._any(name)
        return explain.explain_schedule(await gathering.schedule_facts(connected, schedule))

    async def explain_slot(self, name: str, at: datetime) -> Explanation:
        """What became of one slot of a schedule, and why. Raises ScheduleNotFound."""
        from oncue import gathering
        from oncue.policy import explain

        at = checked_moment(at, "at")
        connected, schedule = await self.connected(), await self._any(name)
        return explain.explain_slot(await gathering.slot_facts(connected, schedule, at, self.aging))
