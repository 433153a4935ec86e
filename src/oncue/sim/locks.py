"""Rows that a session outside holds for a while: a verb passes over them, or is refused, as PostgreSQL has it.

The simulator's store is SQLite, which has no locks on rows. So this layer stands before it and answers for those rows.
It holds running jobs and schedules only: of what waits, a claim would have to be told which rows to leave out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from oncue.errors import RowLocked
from oncue.model import Change, Revised, Schedule, Started, Step, ToldDetails
from oncue.sim.recorded import Layer, Verb
from oncue.store.contract import Store


@dataclass
class Locks:
    """What is held, by number."""

    jobs: set[int] = field(default_factory=set)
    schedules: set[int] = field(default_factory=set)

    def clear(self) -> None:
        self.jobs.clear()
        self.schedules.clear()


class Locking(Layer):
    def __init__(self, store: Store, locks: Locks) -> None:
        super().__init__(store)
        self._locks = locks

    async def pass_on(self, verb: str, method: Verb, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        handled = getattr(self, f"_{verb.replace('.', '_')}_past", None)
        if handled is None or not (self._locks.jobs or self._locks.schedules):
            return await method(*args, **kwargs)
        return await handled(method, *args, **kwargs)

    async def _jobs_apply_past(self, method: Verb, changes: Sequence[Change], *rest: Any, **options: Any) -> Any:
        locked = [change.id in self._locks.jobs for change in changes]
        self._refuse(any(locked) and bool(rest[1:]))
        return await _written(method, changes, locked, *rest, **options)

    async def _slots_decide_past(self, method: Verb, steps: Sequence[Step], *rest: Any, **options: Any) -> Any:
        locked = [step.schedule_id in self._locks.schedules for step in steps]
        self._refuse(any(locked) and bool(options.get("notes")))
        return await _written(method, steps, locked, *rest, **options)

    async def _jobs_mark_started_past(self, method: Verb, started: Sequence[Started]) -> list[int]:
        free = [one for one in started if one.id not in self._locks.jobs]
        return [*await method(free), *(one.id for one in started if one.id in self._locks.jobs)]

    async def _jobs_report_details_past(self, method: Verb, told: Sequence[ToldDetails]) -> list[int]:
        free = [one for one in told if one.job_id not in self._locks.jobs]
        return [*await method(free), *(one.job_id for one in told if one.job_id in self._locks.jobs)]

    async def _jobs_prioritize_past(self, method: Verb, job_id: int, *rest: Any, **options: Any) -> Any:
        self._refuse(job_id in self._locks.jobs)
        return await method(job_id, *rest, **options)

    _jobs_request_cancel_past = _jobs_prioritize_past

    async def _slots_rerun_past(self, method: Verb, schedule: Schedule | None, *rest: Any, **options: Any) -> Any:
        self._refuse(schedule is not None and schedule.id in self._locks.schedules)
        return await method(schedule, *rest, **options)

    async def _schedules_revise_past(self, method: Verb, changes: Sequence[Revised], *rest: Any, **options: Any) -> Any:
        self._refuse(any(change.schedule.id in self._locks.schedules for change in changes))
        return await method(changes, *rest, **options)

    def _refuse(self, locked: bool) -> None:
        if locked:
            raise RowLocked("another session holds the row, so nothing was written (simulated)")


async def _written(method: Verb, wanted: Sequence[Any], locked: Sequence[bool], *rest: Any, **options: Any) -> Any:
    """Write what is free; None stands for the others."""
    free = [one for one, held in zip(wanted, locked, strict=True) if not held]
    answers = iter(await method(free, *rest, **options) if free else [])
    return [None if held else next(answers) for held in locked]
