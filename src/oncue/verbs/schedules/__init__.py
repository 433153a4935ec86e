"""The verbs on schedules and slots.

reading    what schedules there are, what they have done, and what they will do
editing    make, change, switch and delete them
comparing  what an edit would do to the slots to come
by_hand    run slots that no leader decides: one, an extra one, or a whole span
declaring  make the stored schedules what the code declares: a worker does that when it starts
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from oncue.policy.checks import checked_moment
from oncue.policy.windows import is_window
from oncue.verbs.schedules.by_hand import Backfilled, ByHand
from oncue.verbs.schedules.comparing import ComparedFire, Comparing, Comparison
from oncue.verbs.schedules.reading import MOST_PREVIEWED, Fire, FoundSchedules, fires

if TYPE_CHECKING:
    from oncue.policy.explain import Explanation

__all__ = ["MOST_PREVIEWED", "Backfilled", "ComparedFire", "Comparison", "Fire", "FoundSchedules", "Schedules", "fires"]


class Schedules(Comparing, ByHand):
    """In plain code: `app.wait(app.schedules.trigger("nightly", at))`."""

    async def explain(self, name: str) -> Explanation:
        """Why a schedule does not fire, or when it will. Raises ScheduleNotFound."""
        from oncue.policy import explain
        from oncue.verbs import explaining

        connected, schedule = await self._connected(), await self._any(name)
        if is_window(schedule.expression):
            return explain.explain_window(await explaining.window_facts(connected, schedule))
        return explain.explain_schedule(await explaining.schedule_facts(connected, schedule))

    async def explain_slot(self, name: str, at: datetime) -> Explanation:
        """What became of one slot of a schedule, and why. Raises ScheduleNotFound."""
        from oncue.policy import explain
        from oncue.verbs import explaining

        at = checked_moment(at, "at")
        connected, schedule = await self._connected(), await self._any(name)
        return explain.explain_slot(await explaining.slot_facts(connected, schedule, at, self._app.aging))
