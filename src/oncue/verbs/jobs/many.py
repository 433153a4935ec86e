"""Changes of many jobs. Each is made for itself, and the answer tells of each what happened."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias
from uuid import UUID

from oncue.errors import Conflict, InvalidJob, JobNotFound
from oncue.model import Job, State
from oncue.policy.checks import checked_name, checked_priority, checked_status
from oncue.verbs.jobs.changing import RETRY, Changing
from oncue.verbs.jobs.reading import checked_ref

MOST_AT_ONCE = 1_000
AT_A_TIME = 8

Handling: TypeAlias = Literal["changed", "unchanged", "not_found", "conflict"]


@dataclass(frozen=True, slots=True)
class Handled:
    """What a verb on many jobs did to one of them."""

    id: int | UUID
    """As it was asked for."""
    outcome: Handling
    message: str
    state: State | None
    """The job's state afterwards, if there is such a job."""


class Many(Changing):
    async def set_status_many(self, refs: Sequence[int | UUID], status: str, *, by: str = "system") -> list[Handled]:
        """`set_status` of up to 1,000 jobs: one answer for each that is named, in order."""
        wanted, by = checked_status(status), checked_name(by, "by")

        async def one(ref: int | UUID) -> Handled:
            job, took = await self._with_status(ref, wanted, by)
            return changed(ref, job) if took else Handled(ref, "unchanged", f"job {job.id} is {job.state}", job.state)

        return await self._each(refs, one)

    async def retry_many(self, refs: Sequence[int | UUID], *, by: str = "system") -> list[Handled]:
        """`retry` of up to 1,000 jobs: one answer for each that is named, in order."""
        by = checked_name(by, "by")

        async def one(ref: int | UUID) -> Handled:
            return changed(ref, await self._again(ref, by, RETRY))

        return await self._each(refs, one)

    async def cancel_many(self, refs: Sequence[int | UUID], *, by: str = "system") -> list[Handled]:
        """`cancel` of up to 1,000 jobs: one answer for each that is named, in order."""
        return await self._each(refs, self._cancelling(checked_name(by, "by")))

    async def prioritize_many(self, refs: Sequence[int | UUID], priority: int, *, by: str = "system") -> list[Handled]:
        """`prioritize` of up to 1,000 jobs: one answer for each that is named, in order."""
        return await self._each(refs, self._prioritizing(checked_priority(priority), checked_name(by, "by")))

    def _cancelling(self, by: str) -> Callable[[int | UUID], Awaitable[Handled]]:
        async def one(ref: int | UUID) -> Handled:
            job = await self.cancel(ref, by=by)
            message = f"job {job.id} is cancelled" if job.finished else f"job {job.id} runs and was asked to stop"
            return Handled(ref, "changed", message, job.state)

        return one

    def _prioritizing(self, priority: int, by: str) -> Callable[[int | UUID], Awaitable[Handled]]:
        async def one(ref: int | UUID) -> Handled:
            job = await self.get(ref)
            if job.priority == priority and not job.finished:
                return Handled(ref, "unchanged", f"job {job.id} has priority {priority}", job.state)
            await self.prioritize(job.id, priority, by=by)
            return Handled(ref, "changed", f"job {job.id} has priority {priority}", job.state)

        return one

    async def _each(
        self, refs: Sequence[int | UUID], verb: Callable[[int | UUID], Awaitable[Handled]]
    ) -> list[Handled]:
        """Some at a time: their writes share a commit, or at least wait for it together."""
        distinct = list(dict.fromkeys(map(checked_ref, refs)))
        if len(distinct) > MOST_AT_ONCE:
            raise InvalidJob("ids", f"expected at most {MOST_AT_ONCE:,} jobs, not {len(distinct):,}")
        answers: list[Handled] = []
        for start in range(0, len(distinct), AT_A_TIME):
            several = (self._tried(ref, verb) for ref in distinct[start : start + AT_A_TIME])
            for answer in await asyncio.gather(*several, return_exceptions=True):  # none is left running alone
                if isinstance(answer, BaseException):
                    raise answer
                answers.append(answer)
        return answers

    async def _tried(self, ref: int | UUID, verb: Callable[[int | UUID], Awaitable[Handled]]) -> Handled:
        try:
            return await verb(ref)
        except JobNotFound as error:
            return Handled(ref, "not_found", str(error), None)
        except Conflict as error:
            return Handled(ref, "conflict", str(error), await self._state(ref))

    async def _state(self, ref: int | UUID) -> State | None:
        try:
            return (await self.get(ref)).state
        except JobNotFound:
            return None


def changed(ref: int | UUID, job: Job) -> Handled:
    repeats = "" if job.retry_of is None or ref in (job.id, job.uid) else f", and repeats job {job.retry_of}"
    return Handled(ref, "changed", f"job {job.id} is {job.state}{repeats}", job.state)
