"""The life of a job: every change of state that there is, and nothing else.

    scheduled --due--> queued --claim--> running --settle--> succeeded | failed | cancelled | skipped
                         ^                  |
                         |                  +--settle--> retrying --due--> queued
                         +--- release, lost node

    scheduled, queued, retrying --its time is over--> skipped

A claim belongs to one node and carries a `claim_no`, which grows with every claim and is never given back. When an
attempt ends, `settle` turns its outcome into a `Change`: a write that takes effect only if the row is still in the
state, and under the claim_no, that the node knew. A late write changes nothing. A lost node is settled by the
same function as a failed attempt. Operators change a job by the same kind of write: `cancel`, `revive`, `by_hand`; so
does the leader, with what has waited past its time: `expire`.

Three numbers are kept apart. `claim_no` is the fence. `retry_count` is the budget that failures use up; releases,
snoozes and lost nodes do not touch it. `attempt` counts the attempts that started and ended, for people.

A job whose process died under it may have been the cause: `suspicion` says with what it is charged, and what company
it may have from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple

from oncue.errors import Conflict
from oncue.model import (
    DELIVER,
    PARKED,
    TERMINAL,
    WAITING,
    Batch,
    Cancelled,
    Change,
    Claim,
    DayStatus,
    Failed,
    FollowUp,
    Job,
    LeaderEpoch,
    Lost,
    NextDay,
    OpenJob,
    Outcome,
    Released,
    Skipped,
    Snoozed,
    State,
    Succeeded,
    Terms,
    TimedOut,
)
from oncue.policy import options, retry, suspicion

BY_HAND = "by_hand"
"""Why a job or its attempt ended: an operator set its state."""
STARTUP_RECOVERY = "worker_startup_recovery"
"""Why a run ended that its own node, started anew, found begun."""
CLUSTER_JOB_ENDED = "cluster_job_ended"
"""Why a node's part ended that had not begun."""
DEPOSED = "deposed"
"""How an attempt ended whose node was to lead and does not any more."""
PART_IS_FINAL = "it is one node's part of a cluster job, and that as a whole can be tried again"
HAND_MADE: tuple[State, ...] = ("queued", "succeeded", "failed")
"""The states that a job can be given by hand."""


class Ended(NamedTuple):
    """A claim and what came of it: `started_at` is None if its attempt never started."""

    claim: Claim
    outcome: Outcome
    started_at: datetime | None
    ended_at: datetime
    rows: int | None = None
    details: str | None = None
    """What its handler told of it: a JSON object."""
    terms: Terms | None = None


def entry_state(visible_at: datetime, now: datetime) -> State:
    """Where a new job begins."""
    return "queued" if visible_at <= now else "scheduled"


def too_late(job: Claim | Job, now: datetime) -> Skipped | None:
    """Why it is too late to start a job, if it is: its deadline is over, or, for a first attempt, its slot's grace."""
    if job.deadline_at is not None and job.deadline_at <= now:
        return Skipped("deadline")
    if job.start_by is not None and job.start_by < now and job.attempt == 0:
        return Skipped("misfire")
    return None


def refusal(claim: Claim, now: datetime) -> Outcome | None:
    """Why a claimed job must not start after all."""
    if claim.cancel_requested:
        return Cancelled()
    cutoff_at = None if claim.scheduled_for is None else cutoff_of(claim)
    if cutoff_at is not None and cutoff_at <= now:
        return Skipped("cutoff_reached")
    return too_late(claim, now)


def expire(job: Job, now: datetime) -> Change | None:
    """End a job that waits and whose time is over, as a claim would be refused. A parked one has not begun to wait."""
    late = too_late(job, now)
    if late is None or job.state not in WAITING or job.visible_at >= PARKED:
        return None
    if job.cancel_requested_at is not None:
        return cancel(job, now)
    return _unheld(job, "skipped", now, reason=late.reason, started_at=None, ended_at=now)


def settle(ended: Ended, dice: Random) -> Change:
    """The one write that an outcome leads to."""
    outcome, terms = ended.outcome, ended.terms
    change = _SETTLERS[type(outcome)](ended, outcome, dice)
    return change if terms is None else _on_terms(change, ended, terms, dice)


def following(asked: FollowUp, ended_at: datetime) -> Batch:
    """The jobs that a handler asked for, made when its attempt ended."""
    batch, later = asked.batch, ended_at - asked.batch.created_at
    visible_at = batch.visible_at + later if asked.at is None else max(asked.at, ended_at)
    return batch._replace(
        state=entry_state(visible_at, ended_at),
        created_at=ended_at,
        visible_at=visible_at,
        deadline_at=None if batch.deadline_at is None else batch.deadline_at + later,
    )


def _on_terms(change: Change, ended: Ended, terms: Terms, dice: Random) -> Change:
    """The same write with its further guards, what is written where they do not hold, and the jobs that follow."""

    def instead(outcome: Outcome) -> Change:
        return settle(ended._replace(outcome=outcome, terms=None), dice)

    if isinstance(ended.outcome, Succeeded):
        change = change._replace(follow_ups=terms.follow_ups, day_status=terms.day_status)
        if terms.before is not None:
            late = instead(terms.late)._replace(
                ending="late", follow_ups=terms.late_follow_ups, day_status=terms.late_day_status
            )
            change = change._replace(before=terms.before, late=late)
    elif isinstance(ended.outcome, Skipped) and terms.late_day_status is not None:
        change = instead(terms.late)._replace(follow_ups=terms.late_follow_ups, day_status=terms.late_day_status)
    if terms.leader is not None:
        released = instead(Released(DEPOSED))._replace(ending="released")
        change = change._replace(leader=terms.leader, released=released)
    return change


def lost(claim: Claim, now: datetime, cause: str = "node_lost") -> Ended:
    """What is known of an attempt whose node is gone."""
    return Ended(claim, Lost(cause), suspicion.began_at(claim), now)


def overran(claim: Claim, now: datetime) -> Ended:
    """An attempt that its own node should have cut off by now, and did not."""
    return Ended(claim, TimedOut("over its maximum runtime"), claim.started_at or claim.claimed_at, now)


def cancel(job: Job, now: datetime) -> Change | None:
    """Cancel a job that waits. A running one is asked to stop instead, and a finished one is final."""
    if job.state not in WAITING:
        return None
    return _unheld(job, "cancelled", now, reason="cancelled", started_at=None, ended_at=now)


def is_final(job: Job) -> bool:
    """Whether a finished job stays as it is, whatever operators do, so that another one repeats it: the one run that a
    slot was promised, a delivery, whose receiver knows it by its id, a cluster job, and the job of a window's day."""
    return is_delivery(job) or is_cluster_job(job) or job.subject is not None or _is_promised(job)


def is_cluster_job(job: Job) -> bool:
    return options.read(job.options).cluster is not None


def is_part(job: Job) -> bool:
    """Whether a job is one node's part of a cluster job, which alone can be repeated."""
    return options.read(job.options).of_cluster


def is_delivery(job: Job) -> bool:
    return job.task == DELIVER


def _is_promised(job: Job) -> bool:
    return job.schedule_id is not None and options.read(job.options).delivery == "at_most_once"


def revive(job: Job, now: datetime) -> Change | None:
    """An operator's retry: a finished job starts over with its whole budget. Its last attempt becomes history."""
    if job.state not in TERMINAL:
        return None
    outcome = job.state if job.started_at is not None else None
    ended_at = job.finished_at
    return _unheld(
        job, "queued", now, outcome=outcome, started_at=job.started_at, ended_at=ended_at, retry_count=0, crashes=0
    )


def by_hand(job: Job, state: State, now: datetime) -> Change | None:
    """What gives a job the state that an operator wants it to have; None if it has it. Raises Conflict if it must not.

        scheduled, queued, retrying  ->  succeeded, failed              wanted as queued, they are that already
        running                      ->  queued, succeeded, failed      whatever its attempt comes to is rejected
        any finished state           ->  queued                         as `revive` has it

    The rest is refused: only a claim makes a job run, and what is final stays. The success of a window's job decides
    its day, so it counts before the cutoff only.
    """
    if state != "running" and (job.state == state or (state == "queued" and job.state in WAITING)):
        return None
    refusal = _why_not(job, state, now)
    if refusal is not None:
        raise Conflict(f"job {job.id} is {job.state}: {refusal}", job.id)
    if job.state in TERMINAL:
        return revive(job, now)
    if job.state == "running":
        change = _taken_away(job, state, now)
    else:
        change = _unheld(job, state, now, reason=BY_HAND, started_at=None, ended_at=now)
    decides = state == "succeeded" and job.subject is not None
    return change._replace(day_status="success") if decides else change


def _why_not(job: Job, state: State, now: datetime) -> str | None:
    """Why a job cannot get the state that an operator wants, if so."""
    if state == "running":
        return "a status by hand is never running; only a worker that claims a job makes it so"
    if state not in HAND_MADE:
        instead = "; cancel it instead" if state == "cancelled" and job.state not in TERMINAL else ""
        return f"by hand it becomes queued, succeeded or failed, not {state}{instead}"
    if job.state in TERMINAL and state != "queued":
        return "that is final; it can only be queued again"
    if job.state in TERMINAL and is_part(job):
        return PART_IS_FINAL
    if job.state == "running" and state == "queued" and job.cancel_requested_at is not None:
        return "it was asked to stop, so queued again it would be cancelled; set it to failed, then retry it"
    if job.state == "running" and state == "queued" and _is_promised(job):
        return "it is the one run that its slot was promised; set it to failed, then retry it"
    cutoff_at = cutoff_of(job)
    if state == "succeeded" and cutoff_at is not None and cutoff_at <= now:
        return f"its day was over at {cutoff_at:%Y-%m-%d %H:%M} UTC, and a success counts only before that"
    return None


def cutoff_of(job: Job | Claim) -> datetime | None:
    """Until when a success counts; None unless it is the job of a window's day."""
    window = options.read(job.options).window
    return None if window is None else window.cutoff_at


def close_day(
    job: Job | OpenJob,
    now: datetime,
    status: DayStatus,
    reason: str,
    follow_ups: tuple[Batch, ...] = (),
    next_day: NextDay | None = None,
) -> Change:
    """End the job of a window's day, which has not succeeded in time: with it the day comes to this."""
    if job.state == "running":
        taken = _taken_away(job, "skipped", now, reason)
        return taken._replace(day_status=status, follow_ups=follow_ups, next_day=next_day)
    return _unheld(
        job, "skipped", now, reason=reason, started_at=None, ended_at=now, day_status=status, follow_ups=follow_ups,
        next_day=next_day,
    )  # fmt: skip


def interrupted(job: Job, now: datetime) -> Change:
    """The end of a node's part that was to be tried again: its node was restarted meanwhile."""
    return _unheld(job, "failed", now, reason=STARTUP_RECOVERY, started_at=job.started_at, ended_at=now)


def decided(
    job: Job,
    ending: tuple[State, str | None, str | None],
    began_at: datetime | None,
    now: datetime,
    leader: LeaderEpoch,
) -> Change:
    """The end of a cluster job that waits, as its leader decides it: state, reason and error. It began with its parts.
    Under a stale epoch it goes on waiting."""
    state, reason, error = ending
    change = _unheld(job, state, now, reason=reason, started_at=began_at, ended_at=now)._replace(error=error)
    waiting = _unheld(job, job.state, now, started_at=None, ended_at=None)._replace(ending="released")
    return change._replace(leader=leader, released=waiting)


def _taken_away(job: Job | OpenJob, state: State, now: datetime, why: str = BY_HAND) -> Change:
    """End a running attempt in its node's stead. The claim_no stays: the next claim raises it."""
    began = job.started_at or job.claimed_at
    outcome = why if state == "queued" else state
    reason = None if state == "queued" else why
    change = _unheld(job, state, now, reason=reason, outcome=outcome, started_at=began, ended_at=now)
    return change._replace(attempt=job.attempt + 1)


def _unheld(
    job: Job | OpenJob,
    state: State,
    now: datetime,
    *,
    reason: str | None = None,
    outcome: str | None = None,
    started_at: datetime | None,
    ended_at: datetime | None,
    retry_count: int | None = None,
    crashes: int | None = None,
    day_status: DayStatus | None = None,
    follow_ups: tuple[Batch, ...] = (),
    next_day: NextDay | None = None,
) -> Change:
    """The change of a job by a caller that does not hold its claim."""
    kept = job.crashes if crashes is None else crashes
    return Change(
        id=job.id,
        from_state=job.state,
        claim_no=job.claim_no,
        state=state,
        reason=reason,
        outcome=outcome,
        visible_at=now if state == "queued" else job.visible_at,
        retry_count=job.retry_count if retry_count is None else retry_count,
        attempt=job.attempt,
        crashes=kept,
        started_at=started_at,
        ended_at=ended_at,
        result=None,
        error=job.error,
        isolation=suspicion.isolation_of(job, kept),
        day_status=day_status,
        follow_ups=follow_ups,
        next_day=next_day,
    )


def _succeeded(ended: Ended, outcome: Succeeded, dice: Random) -> Change:
    return _finished(ended, "succeeded", reason=outcome.reason, result=outcome.result)


def _failed(ended: Ended, outcome: Failed, dice: Random) -> Change:
    claim = ended.claim
    if claim.cancel_requested:
        return _finished(ended, "cancelled", reason="cancelled", error=outcome.error)
    told = options.read(claim.options)
    if outcome.final or (told.window is None and claim.retry_count >= claim.max_retries):
        return _finished(ended, "failed", error=outcome.error)
    policy = told.retry if told.window is None else _spaced(claim, told.window.retry, ended.ended_at)
    delay = retry.wait(outcome, ended.ended_at, claim.retry_count, policy, dice)
    # The process survived this attempt, so the job is under suspicion no more.
    return _again(ended, "retrying", "failed", delay, error=outcome.error, retries=1, crashes=0)


def _spaced(claim: Claim, spacing: float, ended_at: datetime) -> retry.Ladder:
    """The attempts of a window are due at equal distances, however long each of them takes."""
    next_at = claim.visible_at + timedelta(seconds=spacing)
    return retry.Ladder(max((next_at - ended_at).total_seconds(), 0.0))


def _timed_out(ended: Ended, outcome: TimedOut, dice: Random) -> Change:
    if options.read(ended.claim.options).delivery == "at_most_once":
        return _finished(ended, "skipped", reason="skipped_timeout", error=outcome.error)
    return _failed(ended, Failed(outcome.error), dice)


def _lost(ended: Ended, outcome: Lost, dice: Random) -> Change:
    claim, told = ended.claim, options.read(ended.claim.options)
    if told.delivery == "at_most_once":
        return _lost_for_good(ended, outcome)
    crashes = suspicion.charged(claim, begun=ended.started_at is not None)
    if claim.cancel_requested:
        return _finished(ended, "cancelled", reason="cancelled", error=outcome.cause, crashes=crashes)
    if suspicion.is_poison(crashes, told.max_crashes):
        error = f"its process died under it {crashes} times, the last {suspicion.DEATHS_ALONE} while it ran alone"
        return _finished(ended, "failed", reason="poison", error=error, crashes=crashes)
    return _again(ended, "queued", outcome.cause, 0.0, error=outcome.cause, crashes=crashes)


def _lost_for_good(ended: Ended, outcome: Lost) -> Change:
    if outcome.cause == STARTUP_RECOVERY:
        return _finished(ended, "failed", reason=outcome.cause, error=outcome.cause)
    return _finished(ended, "skipped", reason="skipped_timeout", error=outcome.cause)


def _released(ended: Ended, outcome: Released, dice: Random) -> Change:
    if ended.started_at is not None and options.read(ended.claim.options).delivery == "at_most_once":
        return _finished(ended, "skipped", reason="interrupted", error=outcome.cause)
    return _again(ended, "queued", outcome.cause, 0.0)


def _snoozed(ended: Ended, outcome: Snoozed, dice: Random) -> Change:
    if not outcome.begun:
        ended = ended._replace(started_at=None, details=None)
    return _again(ended, "scheduled", "snoozed", outcome.delay, error=outcome.reason or None, crashes=0)


def _skipped(ended: Ended, outcome: Skipped, dice: Random) -> Change:
    return _finished(ended, "skipped", reason=outcome.reason)


def _cancelled(ended: Ended, outcome: Cancelled, dice: Random) -> Change:
    return _finished(ended, "cancelled", reason=outcome.reason)


_SETTLERS: dict[type, Callable[[Ended, Any, Random], Change]] = {
    Succeeded: _succeeded,
    Failed: _failed,
    TimedOut: _timed_out,
    Lost: _lost,
    Released: _released,
    Snoozed: _snoozed,
    Skipped: _skipped,
    Cancelled: _cancelled,
}


def _finished(
    ended: Ended,
    state: State,
    *,
    reason: str | None = None,
    result: str | None = None,
    error: str | None = None,
    crashes: int | None = None,
) -> Change:
    claim, started_at = ended.claim, ended.started_at
    return Change(
        claim.id,
        "running",
        claim.claim_no,
        state,
        reason,
        None if started_at is None else state,
        claim.visible_at,
        claim.retry_count,
        claim.attempt + (started_at is not None),
        claim.crashes if crashes is None else crashes,
        started_at,
        ended.ended_at,
        result,
        error,
        0,
        ended.details,
    )


def _again(
    ended: Ended,
    state: State,
    outcome: str,
    delay: float,
    *,
    error: str | None = None,
    retries: int = 0,
    crashes: int | None = None,
) -> Change:
    claim, started_at = ended.claim, ended.started_at
    kept = claim.crashes if crashes is None else crashes
    return Change(
        claim.id,
        "running",
        claim.claim_no,
        state,
        None,
        outcome if started_at is not None else None,
        ended.ended_at + timedelta(seconds=delay),
        claim.retry_count + retries,
        claim.attempt + (started_at is not None),
        kept,
        started_at,
        ended.ended_at,
        None,
        error,
        suspicion.isolation_of(claim, kept),
        ended.details,
    )
