"""Decides the days of one subject at once, in the planner's stead."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from oncue.model import Schedule, Subject
from oncue.policy import options, window_steps, windows
from oncue.policy.window_steps import DuePage
from oncue.store.contract import Store


async def decide_days(store: Store, window: Schedule, subject: Subject, now: datetime) -> bool:
    """Decide the days of one subject that are over, in the planner's stead: its terms are about to change, and the
    planner would go by the new ones. Whether there was something to decide; then there may be more of it."""
    job = None
    if subject.job_id is not None and window_steps.is_open(subject):
        job = next(iter(await store.windows.unfinished([subject.job_id])), None)
    page = DuePage(window, now)
    one = page.planned(subject, job)
    if not windows.is_behind(one.plan, now):
        return False
    if one.job is not None:
        hooks = await reserved_hooks(store, int(one.shared.is_cutoff), window)
        await store.jobs.apply([page.ended(one, iter(hooks))], now)
    else:
        ids = await store.jobs.reserve(1) if one.plan.opens else []
        hooks = await reserved_hooks(store, int(one.plan.closes is not None and one.plan.closes.has_hook), window)
        await store.windows.advance([page.step(one, iter(ids), iter(hooks))], now)
    return True


async def reserved_hooks(store: Store, hooks: int, window: Schedule) -> Sequence[int]:
    """Ids for the hooks' jobs of so many cutoffs; none if the window has no hook."""
    told = options.read(window.options).window
    return [] if told is None or told.hook is None or not hooks else await store.jobs.reserve(hooks)
