"""What became of one slot of a schedule: from its ledger row, or from why there is none."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from oncue.model import Job, Revision, Schedule, Slot, Verdict
from oncue.policy.explain.cluster import Cluster, no_leader, stand_by
from oncue.policy.explain.findings import Explanation, Finding, counted, error_line, instant, length, when
from oncue.policy.explain.jobs import JobFacts, course_of
from oncue.policy.explain.revisions import in_force, slots_of, successor, switched_off
from oncue.policy.ledger import Decisions
from oncue.policy.schedules import EDITED
from oncue.policy.slots import KEY_HELD
from oncue.policy.triggers import Trigger


@dataclass(frozen=True, slots=True)
class SlotFacts:
    """What is stored about an instant of a schedule."""

    schedule: Schedule
    revisions: Sequence[Revision]
    at: datetime
    cluster: Cluster
    rows: Sequence[Slot] = ()
    """The ledger's rows that touch this instant."""
    job: JobFacts | None = None
    """The job that it was fired as, if that is still there."""
    in_the_way: Job | None = None
    """The job that it was skipped for, if that is still there."""

    @property
    def row(self) -> Slot | None:
        """The row that decides the instant. What cannot be worked out is said to be so, not to be decided."""
        return Decisions(self.rows, self.revisions).row_of(self.at, in_doubt=False)


def explain_slot(facts: SlotFacts) -> Explanation:
    subject = f"slot {instant(facts.at)} of schedule {facts.schedule.name}"
    row = facts.row
    if row is None:
        findings = _absent(facts)
        return Explanation(subject, findings[0].code, findings)
    told = told_of(row, facts.schedule.name, facts.revisions, facts.cluster, facts.in_the_way)
    return Explanation(subject, row.verdict, [_sentence("It", told), *_run(row, facts)])


# --- what a row tells -----------------------------------------------------------------------------------------------


def told_of(
    row: Slot, name: str, revisions: Sequence[Revision], cluster: Cluster, in_the_way: Job | None = None
) -> Finding:
    """A row in words that follow `It` or `Slot …`: `fired 300ms late, as job 7`."""
    revision = next((revision for revision in revisions if revision.revision == row.revision), None)
    return _TOLD[row.verdict](_Row(row, name, revision, successor(revisions, row.revision), cluster.now, in_the_way))


def _sentence(subject: str, told: Finding) -> Finding:
    return Finding(told.code, f"{subject} {told.text}.", told.suggestion)


@dataclass(frozen=True, slots=True)
class _Row:
    row: Slot
    name: str
    revision: Revision | None
    successor: Revision | None
    now: datetime
    in_the_way: Job | None

    @property
    def extent(self) -> str:
        if self.row.until is None:
            return ""
        others = counted(self.row.slots - 1, "other")
        return f", with {others} from {instant(self.row.scheduled_for)} to {instant(self.row.until)}"

    @property
    def decided(self) -> str:
        return when(self.row.decided_at, self.now)

    @property
    def run_it_now(self) -> str:
        return f"run its task once, in an extra slot: `oncue trigger {shlex.quote(self.name)}`"


def _fired(told: _Row) -> Finding:
    late = (told.row.decided_at - told.row.scheduled_for).total_seconds()
    return Finding("fired", f"fired at {told.decided}, {length(max(late, 0))} after its time, as job {told.row.job_id}")


def _by_hand(told: _Row) -> Finding:
    how = {"trigger": "triggered by hand", "run_now": "an extra run by hand", "backfill": "backfilled by hand"}
    what = how.get(told.row.reason or "", "decided by hand")
    return Finding("manual", f"was {what} at {told.decided}, as job {told.row.job_id}")


def _missed(told: _Row) -> Finding:
    if told.row.reason == EDITED:
        by = "" if told.successor is None else f" by {told.successor.changed_by}"
        text = f"was missed{told.extent}: the schedule was changed{by} at {told.decided}, before it was decided"
        return Finding("missed", f"{text}; an edit starts from now", told.run_it_now)
    late = (told.row.decided_at - told.row.scheduled_for).total_seconds()
    text = f"was missed{told.extent}: no leader was there to decide it before {told.decided}, {length(late)} late"
    if told.revision is not None and told.revision.missed == "none":
        text += ', and missed="none" makes up for nothing'
    elif told.revision is not None:
        text += f", and its grace is {length(told.revision.grace)}"
    return Finding("missed", text, told.run_it_now)


def _coalesced(told: _Row) -> Finding:
    into = (told.row.reason or "").removeprefix("into ")
    into = instant(datetime.fromisoformat(into)) if _is_instant(into) else "a later slot"
    text = f'was coalesced into {into}{told.extent}: they were due together, and missed="latest" runs one for all'
    return Finding("coalesced", text, f"`oncue explain {shlex.quote(told.name)} --at {into}`")


def _is_instant(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _skipped(told: _Row) -> Finding:
    job, most = told.row.blocked_by, "" if told.revision is None else f" ({told.revision.max_instances})"
    text = f"was skipped{told.extent}: as many of the schedule's jobs as max_instances{most} allows were not finished"
    if job is None:
        return Finding("skipped", text)
    state = "" if told.in_the_way is None else f", which is {told.in_the_way.state} now"
    if told.row.reason == KEY_HELD:
        text = f"was skipped{told.extent}: the key of its job was held by the unfinished job {job}{state}"
        return Finding("skipped", text, f"`oncue explain {job}`")
    return Finding("skipped", f"{text}, job {job} among them{state}", f"`oncue explain {job}`")


_TOLD: dict[Verdict, Callable[[_Row], Finding]] = {
    "fired": _fired,
    "manual": _by_hand,
    "missed": _missed,
    "coalesced": _coalesced,
    "skipped": _skipped,
}


def _run(row: Slot, facts: SlotFacts) -> list[Finding]:
    """What came of the slot's job: from the job, or from what the ledger kept of it."""
    if row.job_id is None:
        return []
    if facts.job is not None:
        by = facts.job.job.enqueued_by
        asked = [Finding("asked_by", f"{by} asked for it.")] if row.verdict == "manual" else []
        return [*asked, *course_of(facts.job)]
    if row.state is None:
        quoted = shlex.quote(facts.schedule.name)
        return [Finding("job_gone", f"Job {row.job_id} is not there.", f"check the ledger: `oncue audit {quoted}`")]
    ended = "" if row.finished_at is None else f" at {when(row.finished_at, facts.cluster.now)}"
    where = "" if row.worker is None else f" on {row.worker}"
    why = "" if row.state_reason is None else f" ({row.state_reason})"
    text = f"Job {row.job_id} {row.state}{ended}{where}{why}{error_line(row.error)}; the job itself was pruned since."
    return [Finding("settled", text)]


# --- what no row tells ----------------------------------------------------------------------------------------------


def _absent(facts: SlotFacts) -> list[Finding]:
    schedule, at, now = facts.schedule, facts.at, facts.cluster.now
    if schedule.horizon is not None and at < schedule.horizon:
        text = f"The ledger is kept from {instant(schedule.horizon)} on: what became of earlier slots is not known."
        return [Finding("past_horizon", text)]
    revision = in_force(facts.revisions, at)
    if revision is None:
        return [*_never_a_slot(facts), _before_the_first(facts)]
    if not revision.enabled:
        off = switched_off(schedule.name, facts.revisions, revision, now)
        return [off if at > now else _then(off), *_strange(at, revision)]
    if strange := _strange(at, revision):
        return strange
    if at > now:
        return [Finding("not_due_yet", f"It is due at {when(at, now)}."), *_who_decides(facts.cluster)]
    return [_undecided(facts, revision), *_who_decides(facts.cluster)]


def _before_the_first(facts: SlotFacts) -> Finding:
    if not facts.revisions:
        return Finding("before_first_revision", "There was no such schedule at the time.")
    first = facts.revisions[0]
    began = when(first.started_at, facts.cluster.now)
    text = f"The schedule is from {began}, made by {first.changed_by}: its first slot is one after that."
    return Finding("before_first_revision", text, _made_up_for(facts))


def _made_up_for(facts: SlotFacts) -> str | None:
    """How to run it all the same, if it is a slot by the rule of today."""
    trigger = slots_of(facts.schedule)
    if facts.schedule.deleted_at is not None or isinstance(trigger, Finding) or not trigger.has(facts.at):
        return None
    day = instant(facts.at)
    return f"run it all the same: `oncue backfill {shlex.quote(facts.schedule.name)} --from {day} --to {day}`"


def _never_a_slot(facts: SlotFacts) -> list[Finding]:
    """That the instant is no slot by any rule that the schedule ever had, with the nearest ones of today's."""
    known = (slots_of(revision) for revision in facts.revisions)
    triggers = [trigger for trigger in known if not isinstance(trigger, Finding)]
    in_doubt = not triggers or len(triggers) < len(facts.revisions)
    if in_doubt or any(trigger.has(facts.at) for trigger in triggers):
        return []
    revision = facts.revisions[-1]
    text = f"It is no slot; near are {_near(facts.at, triggers[-1])} (`{revision.expression}` in {revision.tz})."
    return [Finding("never_a_slot", text)]


def _then(off: Finding) -> Finding:
    """The same in the past tense, and nothing to be done about it."""
    return Finding(off.code, off.text.replace("The schedule is ", "The schedule was ", 1))


def _strange(at: datetime, revision: Revision) -> list[Finding]:
    """That the instant is no slot by the rule of the time, with the nearest ones that are."""
    trigger = slots_of(revision)
    if isinstance(trigger, Finding):
        return [trigger]
    if trigger.has(at):
        return []
    rule = f"`{revision.expression}` in {revision.tz}, revision {revision.revision}"
    text = f"It never was a slot of the rule of its time ({rule}); near are {_near(at, trigger)}."
    return [Finding("never_a_slot", text)]


def _near(at: datetime, trigger: Trigger) -> str:
    return " and ".join(instant(slot) for slot in (trigger.latest(at), trigger.after(at)) if slot is not None) or "none"


def _undecided(facts: SlotFacts, revision: Revision) -> Finding:
    at, now = facts.at, facts.cluster.now
    current = revision.revision == facts.schedule.revision
    if current and at > facts.schedule.cursor:
        return Finding("pending", f"It is due since {when(at, now)}, and no leader has decided it yet.")
    quoted, day = shlex.quote(facts.schedule.name), instant(at)
    return Finding(
        "unaccounted",
        "It was due, and the ledger has no row for it: the row was deleted.",
        f"`oncue audit {quoted} --from {day} --to {day}`",
    )


def _who_decides(cluster: Cluster) -> list[Finding]:
    return [*no_leader(cluster, "no slot is decided"), *stand_by(cluster)]
