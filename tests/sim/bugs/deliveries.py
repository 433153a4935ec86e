"""Attempts that are cut short: what becomes of their jobs."""

from __future__ import annotations

from random import Random

from oncue.engine import rescue
from oncue.model import Change, Failed, Lost, Released, TimedOut
from oncue.policy import lifecycle
from oncue.policy.lifecycle import Ended
from tests.sim.bugs import runs
from tests.sim.bugs.kit import Patch, bug

CUT_SHORT = "what is cut short ends as its delivery says"


@bug(
    "a job that is gone with its worker",
    seen_in="sergeant: a task was popped from its queue, and when its worker crashed it was nowhere "
    "(Intsights/sergeant#45)",
    run=runs.sleepers,
    caught_by=CUT_SHORT,
)
def gone_with_its_worker(patch: Patch) -> None:
    def dropped(ended: Ended, outcome: Lost, dice: Random) -> Change:
        return lifecycle._lost_for_good(ended, outcome)

    patch.replace(lifecycle._SETTLERS, Lost, dropped)


@bug(
    "a deploy that drops what was running",
    seen_in="Celery with its default acknowledgement: whatever a worker had begun when its process ended is not in the "
    "queue any more (OasisLMF/OasisPlatform#393)",
    run=runs.shutdowns,
    caught_by=CUT_SHORT,
)
def dropped_at_a_shutdown(patch: Patch) -> None:
    def dropped(ended: Ended, outcome: Released, dice: Random) -> Change:
        if ended.started_at is None:
            return released(ended, outcome, dice)
        return lifecycle._finished(ended, "skipped", reason="interrupted", error=outcome.cause)

    released = patch.replace(lifecycle._SETTLERS, Released, dropped)


@bug(
    "a time-out that is not retried",
    seen_in="Rundeck: a job with retries left was killed at its time-out, and that was its end (rundeck/rundeck#1079)",
    run=runs.hanging,
    caught_by="retries keep to their policy",
)
def no_retry_after_a_time_out(patch: Patch) -> None:
    def given_up(ended: Ended, outcome: TimedOut, dice: Random) -> Change:
        return lifecycle._failed(ended, Failed(outcome.error, final=True), dice)

    patch.replace(lifecycle._SETTLERS, TimedOut, given_up)


@bug(
    "a dead worker's job that counts as overlong",
    seen_in="queues in which one time limit stands for both: what its worker died under is charged as a failure of its "
    "own, and uses up its retries",
    run=runs.sleepers,
    caught_by="nothing is cut off before its time",
)
def lost_taken_for_overlong(patch: Patch) -> None:
    patch.replace(rescue, "lost", lifecycle.overran)
