"""Why a schedule does not fire, or when it will."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from oncue.model import UNFINISHED, Revision, Schedule, Slot
from oncue.policy.explain.cluster import Cluster, no_leader, obstacles
from oncue.policy.explain.findings import Explanation, Finding, counted, instant, when
from oncue.policy.explain.revisions import slots_of, switched_off
from oncue.policy.explain.slots import told_of

MOST_SHOWN = 3


@dataclass(frozen=True, slots=True)
class ScheduleFacts:
    """What is stored about a schedule and its surroundings."""

    schedule: Schedule
    revisions: Sequence[Revision]
    cluster: Cluster
    paused_at: datetime | None = None
    unfinished: Sequence[int] = ()
    """Its jobs that are not finished, as many as `max_instances` counts."""
    holder: int | None = None
    """The unfinished job that has the key of its jobs, if there is one."""
    recent: Sequence[Slot] = ()
    """Its latest ledger rows, oldest first."""


def explain_schedule(facts: ScheduleFacts) -> Explanation:
    schedule = facts.schedule
    subject = f"schedule {schedule.name} (`{schedule.expression}` in {schedule.tz}, task {schedule.task})"
    recent = [_recent(row, facts) for row in reversed(facts.recent[-MOST_SHOWN:])]
    if not schedule.enabled:
        off = switched_off(schedule.name, facts.revisions, facts.revisions[-1], facts.cluster.now)
        return Explanation(subject, off.code, [off, *recent])
    ahead = _next(facts)
    return Explanation(subject, ahead.code, [ahead, *_in_the_way(facts), *recent])


def _in_the_way(facts: ScheduleFacts) -> list[Finding]:
    schedule = facts.schedule
    return [
        *no_leader(facts.cluster, "no slot is decided"),
        *obstacles(schedule.queue, schedule.task, facts.paused_at, facts.cluster),
        *_too_many(facts),
        *_held(facts),
    ]


def _next(facts: ScheduleFacts) -> Finding:
    """The next slot by the rule, not `next_run_at`: that is later if the slots could not be worked out."""
    schedule, now = facts.schedule, facts.cluster.now
    trigger = slots_of(schedule)
    if isinstance(trigger, Finding):
        return trigger
    first = trigger.after(schedule.cursor)
    if first is None:
        return Finding("never_again", "Its rule has no further slot.")
    if first > now:
        return Finding("not_due_yet", f"Its next slot is {when(first, now)}.")
    due = counted(trigger.count(schedule.cursor, now), "slot")
    text = f"{due} came due since {when(first, now)}, and no leader has decided yet what becomes of it."
    if schedule.next_run_at is not None and schedule.next_run_at > first and facts.cluster.leading is not None:
        leader = facts.cluster.leading.holder_name
        return Finding("put_off", f"{text} The leader could not work them out.", f"look into the log of {leader}")
    return Finding("pending", text)


def _too_many(facts: ScheduleFacts) -> list[Finding]:
    most, unfinished = facts.schedule.max_instances, facts.unfinished
    if len(unfinished) < most:
        return []
    jobs = ("job " if len(unfinished) == 1 else "jobs ") + ", ".join(map(str, unfinished[:5]))
    text = f"As many jobs of it as max_instances ({most}) allows are not finished ({jobs}): its slots are skipped."
    return [Finding("max_instances", text, f"`oncue explain {unfinished[0]}`")]


def _held(facts: ScheduleFacts) -> list[Finding]:
    holder = facts.holder
    if holder is None or holder in facts.unfinished:
        return []
    text = f"Job {holder} is not finished and has the key of its jobs ({facts.schedule.key}): its slots are skipped."
    return [Finding("key_held", text, f"`oncue explain {holder}`")]


def _recent(row: Slot, facts: ScheduleFacts) -> Finding:
    told = told_of(row, facts.schedule.name, facts.revisions, facts.cluster)
    came = "" if row.state is None else f" ({row.state})"
    suggestion = f"`oncue explain {row.job_id}`" if row.state in UNFINISHED else told.suggestion
    return Finding(told.code, f"Slot {instant(row.scheduled_for)} {told.text}{came}.", suggestion)
