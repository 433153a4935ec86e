"""What people want of a queue: that it stops, that it is paused, in which order it goes, and what is there already."""

from __future__ import annotations

from oncue.engine.waiting_claims import WaitingClaims
from oncue.model import Claim
from tests.sim.bugs import runs
from tests.sim.bugs.kit import Patch, bug

UNFINISHED = "state in ('scheduled', 'queued', 'running', 'retrying')"


@bug(
    "a cancel that is forgotten when the job goes back",
    seen_in="Celery: the workers remember in memory what was revoked, and a restart runs it (readthedocs/common#109)",
    run=runs.cancelled,
    caught_by="what is to be cancelled does not begin",
)
def forgotten_cancel(patch: Patch) -> None:
    patch.sql("apply", "case when c.from_state = 'running' then cancel_requested_at end", "null")


@bug(
    "a cancel that passes by what waits for its turn",
    seen_in="Celery: what a worker had taken and not begun was revoked, and ran all the same (celery/celery#1007)",
    run=runs.cancelled_in_line,
    caught_by="what is to be cancelled does not begin",
)
def cancel_beside_the_line(patch: Patch) -> None:
    def nobody(self: WaitingClaims, job_id: int, claim_no: int) -> list[Claim]:
        return []

    patch.replace(WaitingClaims, "remove", nobody)


@bug(
    "a cancel for those who listen",
    seen_in="Celery: a revoke is sent to whoever listens at that moment, and lost on everybody else "
    "(celery/django-celery-results#423)",
    run=runs.cancelled,
    caught_by="a cancel is heard in time",
)
def unheard_cancel(patch: Patch) -> None:
    patch.sql("held", "cancel_requested_at is not null", "false")


@bug(
    "a pause that the claim does not look at",
    seen_in="Bull: a worker that waited for the next job when its queue was paused took it all the same "
    "(OptimalBits/bull#447)",
    run=runs.pauses,
    caught_by="a paused queue hands out nothing",
)
def pause_unseen(patch: Patch) -> None:
    patch.sql("best", "paused_at is not null or", "")


@bug(
    "a new limit that opens a paused queue",
    seen_in="Trigger.dev: whoever changed the concurrency of a paused queue had it work again "
    "(triggerdotdev/trigger.dev#2745)",
    run=runs.limited_pauses,
    caught_by="a paused queue hands out nothing",
)
def opened_by_a_limit(patch: Patch) -> None:
    patch.sql("set_limits", "version = version + 1", "paused_at = null, version = version + 1")


@bug(
    "a cancel that outlives a retry",
    seen_in="Graylog: the flag of a job that had been cancelled stayed, and each later run of it stopped at once "
    "(Graylog2/graylog2-server#20287)",
    run=runs.retried_cancels,
    caught_by="what is to be cancelled does not begin",
)
def cancelled_for_ever(patch: Patch) -> None:
    patch.sql("apply", "case when c.from_state = 'running' then cancel_requested_at end", "cancel_requested_at")


@bug(
    "priorities the wrong way round",
    seen_in="job-collection for Meteor: a job of low priority was taken before all the normal ones "
    "(vsivsi/meteor-job-collection#4)",
    run=runs.work,
    caught_by="the best job is claimed first",
)
def lowest_first(patch: Patch) -> None:
    patch.sql("best", "order by priority desc", "order by priority")


@bug(
    "a key that outlives its job",
    seen_in="sidekiq-unique-jobs: the lock of a finished job stayed, and what came after it was left out "
    "(zoolutions/sidekiq-unique-jobs#677)",
    run=runs.same_keys,
    caught_by="a duplicate stands for an unfinished job",
)
def key_for_ever(patch: Patch) -> None:
    there = "exists (select 1 from oncue_jobs as other where other.task = :task and other.key = n.value ->> 2)"
    patch.sql("enqueue", "where true", f"where not {there}")
    patch.sql("standing", f"and {UNFINISHED}", "")
