"""Why a job waits, runs, or ended as it did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from shlex import quote

from oncue.model import MAX_PRIORITY, PARKED, Attempt, ClusterJob, Job, Node, State
from oncue.policy import options, quorum
from oncue.policy.aging import Rules, next_round
from oncue.policy.explain import cluster_jobs
from oncue.policy.explain.cluster import Cluster, no_leader, obstacles
from oncue.policy.explain.findings import Explanation, Finding, counted, error_line, instant, length, when
from oncue.policy.explain.limits import LimitFacts, name_of, no_room, paused_group, taking
from oncue.policy.lifecycle import BY_HAND, cutoff_of, is_part, too_late
from oncue.policy.suspicion import ALONE, COHORT, DEATHS_ALONE, IN_COHORT, PATIENCE_SECONDS, isolation_of
from oncue.policy.windows import CUTOFF_REACHED, OUTAGE

MOST_COUNTED = 10_000
"""Where the count of the jobs ahead ends."""
MOST_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What is stored about a job and its surroundings. What does not matter for its state is left at its default."""

    job: Job
    cluster: Cluster
    attempts: Sequence[Attempt] = ()
    paused_at: datetime | None = None
    ahead: int = 0
    """How many jobs of its queue, or of its group, are claimed first."""
    above: int = 0
    """How many of these have a higher priority."""
    held: int = 0
    """How many jobs the nodes that could take it hold already."""
    alone: Sequence[int] = ()
    """The jobs that have these nodes for themselves, one each."""
    schedule: str | None = None
    in_turn: Sequence[int] = ()
    """The jobs of its schedule that run before a parked one."""
    retries: Sequence[Job] = ()
    """The jobs that were made by hand to repeat it, oldest first."""
    aging: Rules = field(default_factory=Rules)
    whole: ClusterJob | None = None
    """The cluster job that it is, or of which it is a part."""
    parts_paused_at: datetime | None = None
    """Since when the queue of its parts is paused."""

    @property
    def is_part(self) -> bool:
        return self.whole is not None and self.whole.id != self.job.id

    @property
    def takers(self) -> list[Node]:
        """The nodes that may claim it."""
        return self.cluster.takers(self.job.queue, self.job.task, self.job.address)

    limits: LimitFacts = field(default_factory=LimitFacts)


def explain_job(facts: JobFacts) -> Explanation:
    job = facts.job
    group = "" if job.group is None else f", group {job.group}"
    subject = f"job {job.id} ({job.task}, queue {job.queue}{group})"
    if facts.whole is not None and not facts.is_part:
        findings = [*_origin(facts), *course_of(facts)]
        return Explanation(f"cluster {subject}", quorum.job_status(facts.whole), findings)
    return Explanation(subject, job.state, [*_origin(facts), *course_of(facts)])


def course_of(facts: JobFacts) -> list[Finding]:
    """How a job stands, and how it came to that."""
    whole = facts.whole
    stands = _BY_STATE[facts.job.state](facts) if whole is None or facts.is_part else _cluster_job(facts, whole)
    return [*stands, *_retried(facts), *_history(facts)]


def _cluster_job(facts: JobFacts, whole: ClusterJob) -> list[Finding]:
    """Until the leader has decided, a cluster job waits for its parts; then the leader action is a job as any other."""
    now = facts.cluster.now
    if cluster_jobs.is_undecided(whole):
        waits = cluster_jobs.waiting(whole, facts.cluster, facts.parts_paused_at)
        return [*waits, *_too_late(facts), *_must_start(facts)]
    action = cluster_jobs.ending(whole, now) or _BY_STATE[facts.job.state](facts)
    return [*cluster_jobs.decision(whole, now), *action, *cluster_jobs.parts(whole)]


def _origin(facts: JobFacts) -> list[Finding]:
    job, findings = facts.job, []
    if facts.is_part and facts.whole is not None:
        return cluster_jobs.part_of(job, facts.whole, facts.cluster)
    if job.subject is not None:
        findings.append(_day(facts))
    elif job.scheduled_for is not None:
        of = "a schedule that is gone" if facts.schedule is None else facts.schedule
        findings.append(Finding("slot_of", f"It was made for slot {instant(job.scheduled_for)} of {of}."))
    if job.retry_of is not None:
        findings.append(Finding("retry_of", f"It was made by hand, to repeat job {job.retry_of}."))
    return findings


def _day(facts: JobFacts) -> Finding:
    job, now, cutoff_at = facts.job, facts.cluster.now, cutoff_of(facts.job)
    of = "a window that is gone" if facts.schedule is None else f"window {facts.schedule}"
    day = "" if job.scheduled_for is None else f"{job.scheduled_for.date()} "
    until = "" if cutoff_at is None else f"; its cutoff is {when(cutoff_at, now)}"
    suggestion = None
    if facts.schedule is not None and job.subject is not None:
        typed = f"{quote(facts.schedule)} --subject {quote(job.subject)} --day {day.strip()}"
        suggestion = f"`oncue explain {typed}` tells of the day"
    return Finding("day_of", f"It is for the day {day}of {job.subject} in {of}{until}.", suggestion)


# --- waiting --------------------------------------------------------------------------------------------------------


def _waits(facts: JobFacts) -> list[Finding]:
    """Scheduled and retrying jobs. The next claim promotes a job whose time has come."""
    job, now = facts.job, facts.cluster.now
    if job.visible_at == PARKED:
        return _waits_for_its_turn(facts)
    if job.visible_at <= now:
        return _queued(facts)
    finding = _next_retry(job, now) if job.state == "retrying" else _later(facts)
    return [finding, *_too_late(facts), *_blocked(facts), *_must_start(facts)]


def _later(facts: JobFacts) -> Finding:
    job, now = facts.job, facts.cluster.now
    if facts.attempts and facts.attempts[-1].outcome == "snoozed":
        return Finding("snoozed", f"Its handler asked to be called again at {when(job.visible_at, now)}.")
    if job.error is not None:  # a delivery that did not begin: it finds no room, say, or its endpoint's breaker is open
        return Finding(
            "scheduled_for_later", f"It was put off until {when(job.visible_at, now)}{error_line(job.error)}."
        )
    return Finding("scheduled_for_later", f"It is not due before {when(job.visible_at, now)}.")


def _next_retry(job: Job, now: datetime) -> Finding:
    failed, cutoff_at = f"Its last attempt failed{error_line(job.error)}.", cutoff_of(job)
    if cutoff_at is not None and job.visible_at >= cutoff_at:
        text = f"{failed} There is no other: the next one would be due at {when(job.visible_at, now)}"
        return Finding("next_retry", f"{text}, after its cutoff {when(cutoff_at, now)}.")
    next_one = f"{failed} The next one is due at {when(job.visible_at, now)}"
    if cutoff_at is None:
        return Finding("next_retry", f"{next_one}; {job.retry_count} of {job.max_retries} retries are used.")
    return Finding("next_retry", f"{next_one}; attempts go on until its cutoff {when(cutoff_at, now)}.")


def _waits_for_its_turn(facts: JobFacts) -> list[Finding]:
    in_turn = ", ".join(str(job) for job in facts.in_turn[:5])
    before = f"; before it runs job {in_turn}" if in_turn else ""
    text = f"It is part of a backfill and waits for its turn: slots run oldest first, as many as max_instances{before}."
    suggestion = f"`oncue explain {facts.in_turn[0]}` tells why that one is not finished" if facts.in_turn else None
    turn = Finding("waiting_for_turn", text, suggestion)
    return [turn, *no_leader(facts.cluster, "no leader lets backfilled slots run"), *_blocked(facts)]


def _queued(facts: JobFacts) -> list[Finding]:
    """A job that is due. If nothing at all is in its way, that is said."""
    hopeless = [*_to_be_cancelled(facts), *_too_late(facts)]
    apart, suspected = (_suspect(facts), []) if isolation_of(facts.job) else ([], _suspect(facts))
    in_the_way = [
        *hopeless, *_blocked(facts), *apart, *_no_room(facts), *_behind(facts), *_closed(facts), *_seats(facts),
    ]  # fmt: skip
    return [*(in_the_way or [_claimable(facts)]), *suspected, *_must_start(facts), *_priority(facts)]


def _blocked(facts: JobFacts) -> list[Finding]:
    common = obstacles(facts.job.queue, facts.job.task, facts.paused_at, facts.cluster, facts.job.address)
    return [*common, *paused_group(facts.limits, facts.cluster.now)]


def _no_room(facts: JobFacts) -> list[Finding]:
    takers = facts.takers
    return no_room(facts.limits, len(takers), facts.cluster.now)


def _claimable(facts: JobFacts) -> Finding:
    takers = facts.takers
    names = ", ".join(node.name for node in takers[:5])
    since = when(_waiting_since(facts.job), facts.cluster.now)
    next_in = "next in line" if facts.job.group is None else f"next of group {facts.job.group}"
    return Finding("claimable", f"Nothing is in its way: it is due since {since} and {next_in} at {names}.")


def _limits(job: Job) -> list[tuple[str, datetime]]:
    """Until when it has to start. Grace is about the first attempt only."""
    limits = [("deadline", job.deadline_at), ("grace", job.start_by if job.attempt == 0 else None)]
    return [(name, limit) for name, limit in limits if limit is not None]


def _too_late(facts: JobFacts) -> list[Finding]:
    now, late = facts.cluster.now, too_late(facts.job, facts.cluster.now)
    if late is None:
        return []
    name = "grace" if late.reason == "misfire" else late.reason
    limit = dict(_limits(facts.job))[name]
    text = f"Its {name} ended at {when(limit, now)}: it is not started any more, and the leader is about to skip it."
    return [
        Finding("too_late", text),
        *no_leader(facts.cluster, "no leader ends jobs that have waited past their time"),
    ]


def _must_start(facts: JobFacts) -> list[Finding]:
    now = facts.cluster.now
    if too_late(facts.job, now) is not None:
        return []
    return [
        Finding("must_start", f"It is skipped unless it starts by {when(limit, now)}, the end of its {name}.")
        for name, limit in _limits(facts.job)
    ]


def _to_be_cancelled(facts: JobFacts) -> list[Finding]:
    asked = facts.job.cancel_requested_at
    if asked is None:
        return []
    return [Finding("cancel_requested", f"It was asked to stop at {when(asked, facts.cluster.now)}: it runs no more.")]


def _suspect(facts: JobFacts) -> list[Finding]:
    crashes = facts.job.crashes
    if not crashes:
        return []
    died = f"Its process died under it {counted(crashes, 'time')}, perhaps because of it"
    if isolation_of(facts.job) == ALONE:
        return [Finding("waits_to_run_alone", f"{died}: {_alone(facts)}")]
    if isolation_of(facts.job) == IN_COHORT:
        return [Finding("suspect", f"{died}: at most {COHORT} such jobs run on a node at once.")]
    return [Finding("suspect", f"{died}, perhaps because of another job: it runs like any other.")]


def _alone(facts: JobFacts) -> str:
    job, most = facts.job, options.read(facts.job.options).max_crashes or 0
    left = counted(most - job.crashes, "more death")
    poison = f"After {left} alone it fails as poison (max_crashes={most})."
    if job.state != "running":
        after = length(PATIENCE_SECONDS)
        where = f"An idle node takes it at once; a busy one after {after}, and makes room for it first."
        return f"it has to run alone on its node. {where} {poison}"
    if job.started_at is None:
        return f"it waits on its node until everything else there has ended, to run alone. {poison}"
    return f"it runs alone on its node. {poison}"


def _behind(facts: JobFacts) -> list[Finding]:
    if not facts.ahead or isolation_of(facts.job):
        return []
    older, many = facts.ahead - facts.above, "at least " if facts.ahead >= MOST_COUNTED else ""
    earlier = "older" if facts.job.subject is None else "with the same cutoff or an earlier one"
    parts = [f"{facts.above:,} of a higher priority" if facts.above else "", f"{older:,} {earlier}" if older else ""]
    text = (
        f"It is behind {many}{counted(facts.ahead, 'other')} of {name_of(facts.job)}: "
        f"{' and '.join(part for part in parts if part)}.{taking(facts.limits, facts.ahead)}"
    )
    return [Finding("behind", text, f"let it go first: `oncue boost {facts.job.id} 100`" if older else None)]


def _closed(facts: JobFacts) -> list[Finding]:
    if not facts.alone:
        return []
    takers = facts.takers
    where = takers[0].name if len(takers) == 1 else f"Each of {len(takers)} nodes"
    jobs = ", ".join(map(str, facts.alone[:5]))
    text = f"{where} begins nothing beside job {jobs}, which has to run alone since its process died several times."
    suggestion = f"start another worker; `oncue explain {facts.alone[0]}` tells how that job stands"
    return [Finding("behind_one_alone", text, suggestion)]


def _seats(facts: JobFacts) -> list[Finding]:
    takers = facts.takers
    seats = sum(node.concurrency for node in takers)
    if not takers or facts.held < seats:
        return []
    where = takers[0].name if len(takers) == 1 else f"{len(takers)} nodes"
    text = f"All {counted(seats, 'seat')} of {where} are taken; what runs is not interrupted, whatever its priority."
    return [Finding("seats_taken", text, "start another worker, or raise --concurrency")]


def _priority(facts: JobFacts) -> list[Finding]:
    """What its priority is, and how it grows while the job waits."""
    job, rules = facts.job, facts.aging
    first = _waiting_since(job) + timedelta(seconds=rules.after)
    every, now = f"{rules.gain} every {length(rules.every)}", facts.cluster.now
    if job.priority >= MAX_PRIORITY:
        return [Finding("priority", f"Its priority is {job.priority}, the highest.")]
    if isolation_of(job):
        return []
    if not rules.gain:
        growing = "it stays so while it waits: aging is off (ONCUE_AGING_GAIN)"
    elif first > now:
        growing = f"from {when(first, now)} on it gains {every}, up to {MAX_PRIORITY}"
    else:
        rounds = -(-(MAX_PRIORITY - job.priority) // rules.gain)
        highest = next_round(now, rules) + timedelta(seconds=rules.every * (rounds - 1))
        waits = f"it has waited for over {length(rules.after)}"
        growing = f"{waits}, gains {every} and has {MAX_PRIORITY} by {when(highest, now)}"
    among = "jobs that are due" if job.group is None else "the due jobs of its group"
    text = f"Its priority is {job.priority}; {growing}. Priority counts among {among}, before age."
    return [Finding("priority", text), *no_leader(facts.cluster, "no leader raises the priority of jobs that wait")]


def _waiting_since(job: Job) -> datetime:
    return max(job.created_at, job.visible_at)


# --- running --------------------------------------------------------------------------------------------------------


def _running(facts: JobFacts) -> list[Finding]:
    job, now = facts.job, facts.cluster.now
    node = next((node for node in facts.cluster.alive if node.id == job.node_id), None)
    findings = [_lost(facts)] if node is None else [_runs_on(job, node.name, now)]
    if job.cancel_requested_at is not None:
        text = f"It was asked to stop at {when(job.cancel_requested_at, now)}; a handler stops at its next await."
        findings.append(Finding("cancel_requested", text))
    if job.run_until is not None and job.run_until <= now:
        text = f"Its maximum runtime ended at {when(job.run_until, now)}: it is about to be taken away from its node."
        findings.append(Finding("overrun", text))
    return [*findings, *_suspect(facts)]


def _runs_on(job: Job, node: str, now: datetime) -> Finding:
    if job.started_at is None and job.claimed_at is not None:
        text = f"Node {node} claimed it at {when(job.claimed_at, now)}: it runs, or waits there for a seat."
    else:
        text = f"It runs on node {node} since {when(job.started_at or job.updated_at, now)}, attempt {job.attempt + 1}."
    return Finding("running_on", text)


def _lost(facts: JobFacts) -> Finding:
    """Its node is gone. What becomes of it is written by any node that is alive."""
    job, cluster = facts.job, facts.cluster
    silent = next((node for node in cluster.nodes if node.id == job.node_id), None)
    since = "" if silent is None else f" since {when(silent.beat_at, cluster.now)}"
    fate = "it is queued again"
    if options.read(job.options).delivery == "at_most_once":
        fate = "it ends as skipped (skipped_timeout), since it may run at most once"
    text = f"Node {cluster.name_of(job.node_id)}, which holds it, is silent{since}: once another one notices, {fate}."
    suggestion = None if cluster.alive else "no other node is alive; start one: `oncue worker`"
    return Finding("node_lost", text, suggestion)


# --- finished -------------------------------------------------------------------------------------------------------


def _succeeded(facts: JobFacts) -> list[Finding]:
    reason = f" ({facts.job.reason})" if facts.job.reason else ""
    return [Finding("settled", f"It succeeded{_ending(facts)}{reason}.")]


def _failed(facts: JobFacts) -> list[Finding]:
    job = facts.job
    error = "." if job.reason == "poison" else error_line(job.error)  # of poison the next finding tells
    settled = Finding("settled", f"It failed{_ending(facts)}{error}")
    return [settled, Finding(*_why_not_retried(job), _again(facts, "start it over"))]


def _why_not_retried(job: Job) -> tuple[str, str]:
    if job.reason == "poison":
        text = f"It is not retried: {job.crashes} processes died under it, the last {DEATHS_ALONE} while it ran alone."
        return "poison", text
    if job.reason == BY_HAND:
        return BY_HAND, f"An operator set it: `oncue audit-log --subject job:{job.id}` tells who."
    if job.reason == "worker_startup_recovery":
        text = "It is not retried: its worker died under it, and it may run at most once."
        return "at_most_once", text
    if job.subject is not None:
        return "given_up", "It is not retried: its handler, or the rule for its errors, gave it up for the day."
    if job.max_retries == 0:
        return "no_retries_left", "It is not retried: its task allows no retries (max_retries=0)."
    if job.retry_count >= job.max_retries:
        return "no_retries_left", f"It is not retried: all {job.max_retries} of its retries are used up."
    left = job.max_retries - job.retry_count
    text = f"It is not retried although it had {left} left: its handler, or the rule for its errors, gave it up."
    return "given_up", text


def _cancelled(facts: JobFacts) -> list[Finding]:
    known = {None: "", "cancelled": "", quorum.JOB_ENDED: ", since its cluster job was cancelled"}
    reason = known.get(facts.job.reason, f": {facts.job.reason}")
    waited = "while it waited for another attempt" if facts.attempts else "before it ran"
    by = waited if facts.job.started_at is None else "while it ran"
    return [Finding("settled", f"It was cancelled{_ending(facts)}, {by}{reason}.", _again(facts, "run it after all"))]


def _skipped(facts: JobFacts) -> list[Finding]:
    job = facts.job
    why = _SKIPPED.get(job.reason or "", f"its handler said so: {job.reason}")
    if job.reason == "skipped_timeout":
        why = "it was over its maximum runtime, and may run at most once"
        if job.error == "node_lost":
            why = "its node was lost while it ran, and it may run at most once"
    return [Finding("settled", f"It was skipped{_ending(facts)}: {why}.", _again(facts, "run it after all"))]


_SKIPPED = {
    "deadline": "it had not started by its deadline",
    "misfire": "it had not started within the grace of its slot",
    "duplicate": "another job had its key when it was sent again, and stands for it",
    "interrupted": "its worker shut down while it ran, and it may run at most once",
    CUTOFF_REACHED: "its day was over before it succeeded",
    quorum.JOB_ENDED: "its cluster job had ended before it began",
    OUTAGE: "no leader ran from its cutoff to the end of its date",
}


def _again(facts: JobFacts, words: str) -> str | None:
    """How to repeat it, unless that was done, and still goes on or went well, or it is of a day that is over. Of a part
    the whole cluster job is repeated."""
    if is_part(facts.job):
        return None
    if any(not retry.finished or retry.state == "succeeded" for retry in facts.retries):
        return None
    cutoff_at = cutoff_of(facts.job)
    if cutoff_at is not None and cutoff_at <= facts.cluster.now:
        return None
    return f"{words} with `oncue retry {facts.job.id}`"


def _retried(facts: JobFacts) -> list[Finding]:
    if not facts.retries:
        return []
    known = ", ".join(f"{retry.id} ({retry.state})" for retry in facts.retries)
    waiting = next((retry.id for retry in facts.retries if not retry.finished), None)
    suggestion = None if waiting is None else f"`oncue explain {waiting}` tells how that one stands"
    return [Finding("retried_as", f"It was retried as job {known}.", suggestion)]


def _ending(facts: JobFacts) -> str:
    job, parts = facts.job, []
    if job.finished_at is not None:
        parts.append(f" at {when(job.finished_at, facts.cluster.now)}")
    if job.started_at is not None:
        parts.append(f" on {facts.cluster.name_of(job.node_id)}, in attempt {job.attempt}")
    return "".join(parts)


# --- before that ----------------------------------------------------------------------------------------------------


def _history(facts: JobFacts) -> list[Finding]:
    """The attempts that have ended, the latest last. The last attempt of a finished job was told already."""
    ended = [attempt for attempt in facts.attempts if not _is_the_end(attempt, facts.job)]
    shown = ended[-MOST_ATTEMPTS:]
    findings = [_attempt(attempt, facts.cluster) for attempt in shown]
    if len(ended) > len(shown):
        earlier = counted(len(ended) - len(shown), "earlier attempt")
        findings.insert(0, Finding("attempt", f"There were {earlier}: `oncue job {facts.job.id}` lists them."))
    return findings


def _is_the_end(attempt: Attempt, job: Job) -> bool:
    return job.finished and attempt.claim_no == job.claim_no


def _attempt(attempt: Attempt, cluster: Cluster) -> Finding:
    ended = attempt.finished_at
    took = "" if ended is None else f" after {length((ended - attempt.started_at).total_seconds())}"
    began = when(attempt.started_at, cluster.now)
    outcome = attempt.outcome.replace("_", " ")
    text = (
        f"Attempt {attempt.attempt} began at {began} on {cluster.name_of(attempt.node_id)} and ended{took}: {outcome}"
        f"{error_line(attempt.error)}"
    )
    return Finding("attempt", text)


_BY_STATE: dict[State, Callable[[JobFacts], list[Finding]]] = {
    "scheduled": _waits,
    "retrying": _waits,
    "queued": _queued,
    "running": _running,
    "succeeded": _succeeded,
    "failed": _failed,
    "cancelled": _cancelled,
    "skipped": _skipped,
}
