"""What an edit would do to the slots to come. Nothing here writes."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple, Unpack

from oncue.model import Schedule
from oncue.policy.triggers import trigger_of
from oncue.verbs.schedules.editing import Editing, ScheduleEdit, changed
from oncue.verbs.schedules.reading import Fire, fires


class ComparedFire(NamedTuple):
    """A slot to come, before or after an edit, and whether both have it."""

    fire: Fire
    stays: bool


class Comparison(NamedTuple):
    """A schedule before and after an edit that is not made yet, each with its next slots."""

    now: datetime
    before: Schedule
    after: Schedule
    going: list[ComparedFire]
    """Before the edit: those that do not stay go."""
    coming: list[ComparedFire]
    """After the edit: those that do not stay are new."""
    given_up: int
    """Slots that are due and undecided: the edit would tell them as missed."""

    @property
    def is_revision(self) -> bool:
        """Whether the edit is a new revision, which starts from now."""
        return self.after.revision != self.before.revision


class Comparing(Editing):
    async def preview_change(self, name: str, *, count: int = 10, **edit: Unpack[ScheduleEdit]) -> Comparison:
        """What `change` would do to the next slots, also of a schedule that code declares, which cannot be changed
        here. Raises what `change` would raise."""
        connected, current = await self._connected(), await self._with_slots(name)
        now = connected.now()
        change = await changed(connected, current, (await self._edit(edit))(current), now, "preview")
        after = current if change is None else change.schedule
        old, new = trigger_of(current), trigger_of(after)
        going = fires(old, current.tz, max(now, current.cursor), count)
        coming = fires(new, after.tz, max(now, after.cursor), count)
        return Comparison(
            now, current, after,
            [ComparedFire(fire, new.has(fire.scheduled_for)) for fire in going],
            [ComparedFire(fire, old.has(fire.scheduled_for)) for fire in coming],
            0 if change is None else sum(decided.slots for decided in change.decided),
        )  # fmt: skip
