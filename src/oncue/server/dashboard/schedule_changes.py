"""What an operator does to one schedule: pause it, run it, run a slot or a span of slots by hand, delete it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from oncue.policy.explain.findings import counted, instant
from oncue.policy.triggers import TICK, trigger_of
from oncue.server.api.moments import moment
from oncue.server.api.naming import naming
from oncue.server.dashboard.deeds import Deed, Done
from oncue.server.dashboard.rendering import shell
from oncue.server.dashboard.schedule_parts import complaint, part_view

if TYPE_CHECKING:
    from oncue.server.dashboard.pages import Dashboard

MOST_COUNTED = 10_000
"""Of a span with more slots it is not looked up which of them are decided: that would read the ledger for long."""


def add(dashboard: Dashboard) -> None:
    _add_switches(dashboard)
    _add_by_hand(dashboard)

    @dashboard.action("/schedules/delete", needs="operate")
    async def delete(deed: Deed) -> Done:
        await deed.app.schedules.delete(deed.text("name"), changed_by=deed.by)
        return Done("The schedule is deleted.", go="/schedules")


def _add_switches(dashboard: Dashboard) -> None:
    @dashboard.action("/schedules/disable", needs="operate")
    async def disable(deed: Deed) -> Done:
        one = await deed.app.schedules.toggle(deed.text("name"), False, changed_by=deed.by)
        return Done(f"{one.name} is paused: it does not fire, and what comes due meanwhile is not made up for.")

    @dashboard.action("/schedules/enable", needs="operate")
    async def enable(deed: Deed) -> Done:
        one = await deed.app.schedules.toggle(deed.text("name"), True, changed_by=deed.by)
        first = "" if one.next_run_at is None else f" Its next slot is {instant(one.next_run_at)}."
        return Done(f"{one.name} is enabled.{first}")


def _add_by_hand(dashboard: Dashboard) -> None:
    @dashboard.action("/schedules/run", needs="operate")
    async def run(deed: Deed) -> Done:
        slot = await deed.app.schedules.run_now(deed.text("name"), by=deed.by)
        return Done(f"Job {slot.job_id} runs its task now, in an extra slot: no regular slot is used up.")

    @dashboard.action("/schedules/trigger", needs="operate")
    async def trigger(deed: Deed) -> Done:
        now = await deed.app.now()
        with naming():
            slot = await deed.app.schedules.trigger(deed.text("name"), _moment(deed, "at", now), by=deed.by)
        early = " It is still to come, and used up now: it does not run again at its time."
        return Done(
            f"Job {slot.job_id} runs the slot {instant(slot.scheduled_for)}.{early if slot.scheduled_for > now else ''}"
        )

    @dashboard.action("/schedules/backfill", needs="operate", is_long=True)
    async def backfill(deed: Deed) -> Done:
        now = await deed.app.now()
        with naming():
            done = await deed.app.schedules.backfill(
                deed.text("name"), _moment(deed, "from", now), _moment(deed, "to", now), by=deed.by
            )
        skipped = f" {counted(done.skipped, 'slot')} skipped: one job has the key of them all." if done.skipped else ""
        made = f"{counted(len(done.jobs), 'job')} made, oldest slot first; {done.present:,} decided before."
        return Done(f"{made}{skipped}")

    @dashboard.action("/schedules/backfill-preview", needs="read")
    async def backfill_preview(deed: Deed) -> Done:
        try:
            told = await _would_backfill(deed)
        except Exception as error:
            told = {"problem": complaint(error)}
        told |= {"view": part_view(deed), "name": deed.maybe("name") or ""}
        return Done("", html=dashboard.renderer.part("schedule_backfill.html", told), is_change=False)


async def _would_backfill(deed: Deed) -> dict[str, Any]:
    """How many jobs a backfill of this span would make. It writes nothing."""
    name, now = deed.text("name"), await deed.app.now()
    start, end = _moment(deed, "from", now), _moment(deed, "to", now)
    one = await deed.app.schedules.get(name)
    total = trigger_of(one).count(start - TICK, end)
    absent: Sequence[datetime] | None = None
    if total <= MOST_COUNTED:
        with naming():
            absent = await deed.app.schedules.undecided(name, start, end)
    return {
        "problem": None, "schedule": one, "total": total, "absent": absent, "start": instant(start),
        "end": instant(end), "command": shell("oncue backfill", name, from_=instant(start), to=instant(end)),
    }  # fmt: skip


def _moment(deed: Deed, field: str, now: datetime) -> datetime:
    return moment(deed.text(field), field, now)
