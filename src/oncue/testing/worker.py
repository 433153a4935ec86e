"""A node that takes one job at a time, runs it where it stands, and settles it as production does."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

from oncue.engine.claimer import PROMOTE_LIMIT
from oncue.engine.in_flight import InFlight
from oncue.engine.settler import Settler
from oncue.model import Claim, Job, JobFilter, Node, Released
from oncue.policy.lifecycle import Ended
from oncue.testing.seat import Seat
from oncue.testing.stage import Stage

if TYPE_CHECKING:
    from oncue.app import Oncue

NODE = UUID(int=1)
PAGE = 1000
FOREVER = timedelta(days=400 * 365)


class InlineWorker:
    def __init__(self, app: Oncue, stage: Stage) -> None:
        self._app = app
        self._store = stage.store
        self._clock = stage.clock
        self._queues: set[str] = set()
        self._seen = 0
        self._seat = Seat(app.tasks, stage.clock, app.telemetry, app.settings.limits)
        self._in_flight = InFlight()
        # Fixed dice: the jitter of a retry is the same in every run of a test.
        self._settler = Settler(stage.store, NODE, self._seat, self._in_flight, Random(1), app.telemetry, idle=60.0)

    async def start(self) -> None:
        now = self._clock.now()
        await self._store.register(
            Node(NODE, "test", "test", 0, "", "", (), (), 1, None, now, beat_at=now, expires_at=now + FOREVER)
        )

    async def run_next(self, queue: str | None = None) -> int | None:
        """Run the job that a worker would take next, if any is due; its id."""
        await self._promote()
        claim = await self._next(queue)
        if claim is None:
            return None
        await self._run(claim)
        return claim.id

    async def run_this(self, job: Job) -> None:
        """Run this job before all others, if it may run at all."""
        await self._promote()
        passed_over: list[Claim] = []
        while (claim := await self._claimed([job.queue], [job.task])) is not None and claim.id != job.id:
            passed_over.append(claim)
        for other in passed_over:
            await self._settle(Ended(other, Released("passed over"), None, self._clock.now()))
        if claim is not None:
            await self._run(claim)

    async def _run(self, claim: Claim) -> None:
        ended = await self._seat.attempt(claim)
        if self._seat.progress is not None:
            await self._store.report_progress([self._seat.progress])
        await self._settle(ended)

    async def _settle(self, ended: Ended) -> None:
        self._in_flight.add([ended.claim])
        self._in_flight.end(ended)
        await self._settler.tick(self._clock.now())

    async def _promote(self) -> None:
        now = self._clock.now()
        while (due := await self._store.promote(now, PROMOTE_LIMIT)) is not None and due <= now:
            pass

    async def _next(self, queue: str | None) -> Claim | None:
        tasks = list(self._app.tasks)
        if queue is not None:
            return await self._claimed([queue], tasks)
        await self._learn_queues()
        claim = await self._claimed(sorted(self._queues), tasks)
        if claim is None:  # before giving up, look closely
            self._queues.update(found.name for found in await self._store.queues())
            claim = await self._claimed(sorted(self._queues), tasks)
        return claim

    async def _learn_queues(self) -> None:
        """A worker is told its queues; here every queue that anything was ever put into is served."""
        seen, before = self._seen, None
        while page := await self._store.jobs(JobFilter(before=before, limit=1 if before is None else PAGE)):
            self._queues.update(job.queue for job in page)
            self._seen, before = max(self._seen, page[0].id), page[-1].id
            if before <= seen:
                break

    async def _claimed(self, queues: list[str], tasks: list[str]) -> Claim | None:
        claims = await self._store.claim(NODE, queues, tasks, 1, self._clock.now())
        return claims[0] if claims else None
