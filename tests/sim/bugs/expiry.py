"""Time to wait, and who looks at it."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

from oncue.engine import expiry
from oncue.model import Change, Job
from oncue.sim.checker import Violation
from oncue.sim.script import Act
from tests.sim.bugs.kit import Patch, bug
from tests.sim.bugs.runs import ENDLESS, _cluster, _recovered, _submit


def crowded(seed: int) -> list[Violation]:
    """All seats are taken for a while. Others wait for one, or for their retry, and have a deadline."""
    dice = Random(f"crowded {seed}")
    world = _cluster(seed, dice.choice((0.0, 0.05)), concurrency=1)
    _submit(world, 1.0, [[Act("retry", after=40.0), Act()]], deadline=dice.uniform(12, 20))
    _submit(world, 2.0, [[Act(seconds=35.0)] for _ in range(3)], options=ENDLESS)
    for _ in range(4):
        _submit(world, dice.uniform(3, 12), [[Act()]], deadline=dice.uniform(5, 12), delay=dice.choice((0.0, 3.0)))
    return _recovered(world, 50.0)


@bug(
    "a time limit that only whoever claims looks at",
    seen_in="Celery: tasks that had expired filled a queue whose workers were stopped (kobotoolbox/kpi#1131)",
    run=crowded,
    caught_by="nothing waits past its time",
)
def nobody_looks(patch: Patch) -> None:
    async def tick(self: expiry.Expiry, now: datetime) -> datetime:
        return now + timedelta(seconds=1)

    patch.replace(expiry.Expiry, "tick", tick)


@bug(
    "a deadline that a retry forgets",
    seen_in="Celery: a task that was retried had no expiry any more (celery/celery#3297)",
    run=crowded,
    caught_by="nothing waits past its time",
)
def forgotten_deadline(patch: Patch) -> None:
    def forgetful(job: Job, now: datetime) -> Change | None:
        return None if job.attempt else expire(job, now)

    expire = patch.replace(expiry, "expire", forgetful)
