"""What a cluster job waits for, what its leader decided and why it ended so; and of which one a job is a part."""

from __future__ import annotations

from datetime import datetime

from oncue.model import NODE_ADDRESS, ClusterJob, Job, Part
from oncue.policy import quorum
from oncue.policy.explain.cluster import Cluster, no_leader, obstacles
from oncue.policy.explain.findings import Finding, counted, error_line, length, when
from oncue.policy.quorum import Lead, Wait

ENDED_BY_LEADER = (quorum.NO_QUORUM, quorum.PARTS_FAILED, quorum.NODE_RESTARTED, quorum.NO_NODES, quorum.NOTHING_TO_DO)


def is_undecided(whole: ClusterJob) -> bool:
    """Whether the leader has yet to write its parts, or to decide it."""
    return whole.decided_at is None and whole.job.state in ("scheduled", "queued", "retrying")


# --- what it waits for ----------------------------------------------------------------------------------------------


def waiting(whole: ClusterJob, cluster: Cluster, paused_at: datetime | None) -> list[Finding]:
    """Why a cluster job is not decided. `paused_at`: since when the queue of its parts is paused."""
    if whole.spread_at is None:
        return _new(whole, cluster)
    findings = [*no_leader(cluster, "no leader decides it, however its parts end", "waits_for_leader")]
    return [*findings, *_for_parts(whole), *_in_their_way(whole, cluster, paused_at), *_time_out(whole, cluster)]


def _new(whole: ClusterJob, cluster: Cluster) -> list[Finding]:
    job, parts, now = whole.job, quorum.terms_of(whole).parts, cluster.now
    if job.visible_at > now:
        due = Finding("scheduled_for_later", f"It is not due before {when(job.visible_at, now)}.")
        return [due, *no_leader(cluster, "no leader writes its parts")]
    findings = no_leader(cluster, "it waits for a leader, which writes its parts", "waits_for_leader")
    leader = cluster.leading
    if leader is not None:
        text = f"The leader {leader.holder_name} has not written its parts yet: that takes a moment."
        findings = [Finding("waits_for_parts_to_be_written", text)]
    if cluster.workers and not cluster.takers(parts.queue, parts.task):
        text = f"No live node takes part: none knows the task {job.task} and serves the queue {parts.queue}."
        advice = f"start workers of the application that declares it: `oncue worker --queues {parts.queue}`"
        findings.append(Finding("no_node_takes_part", text, advice))
    return findings


def _for_parts(whole: ClusterJob) -> list[Finding]:
    statuses, parts = quorum.statuses_of(whole), len(whole.parts)
    more = quorum.needed(parts) - quorum.done(whole)
    if more > 0:
        text = f"It waits for {more} more of {parts}: {quorum.lacking(whole)}."
    elif any(status in quorum.OPEN for status in statuses):
        text = f"So far no node had anything to do; it waits for the others of {parts}: {quorum.lacking(whole)}."
    else:
        text = f"All of its {counted(parts, 'part')} have ended."
    return [Finding("waits_for_parts", text), *_lost(whole)]


def _lost(whole: ClusterJob) -> list[Finding]:
    lost = [part for part in whole.parts if quorum.status_of(part, whole.job) == "lost"]
    if not lost:
        return []
    many = "is lost: its part counts" if len(lost) == 1 else "are lost: their parts count"
    text = f"{quorum.named(lost)} {many} as open until the time-out."
    begun = all(part.claimed_at is not None for part in lost)
    suggestion = None if begun else "start it again under its name: it takes up a part that has not begun"
    return [Finding("nodes_lost", text, suggestion)]


def _in_their_way(whole: ClusterJob, cluster: Cluster, paused_at: datetime | None) -> list[Finding]:
    """What keeps parts from being claimed: their queue is paused, or a node does not run what it should."""
    told = quorum.terms_of(whole).parts
    queued = [part for part in whole.parts if quorum.status_of(part, whole.job) == "queued" and part.job_id is not None]
    if not queued:
        return []
    if paused_at is not None:
        return obstacles(told.queue, told.task, paused_at, cluster)[:1]
    found = [
        Finding(first.code, f"{part.node_name}: {first.text}", first.suggestion)
        for part in queued[: quorum.MOST_NAMED]
        for first in obstacles(told.queue, told.task, None, cluster, _address(part, cluster))[:1]
    ]
    if found:
        return found
    advice = f"`oncue explain {queued[0].job_id}` tells why {queued[0].node_name} has not claimed its part"
    text = "The nodes of the parts that are not claimed are alive: a part may wait for a free seat, a limit or a rate."
    return [Finding("parts_can_be_claimed", text, advice)]


def _address(part: Part, cluster: Cluster) -> str:
    """A node without a name of its own is addressed by its id."""
    is_unnamed = any(node.id == part.node_id and not node.named for node in cluster.nodes)
    return f"{NODE_ADDRESS}{part.node_id if is_unnamed else part.node_name}"


def _time_out(whole: ClusterJob, cluster: Cluster) -> list[Finding]:
    lease, told, now = cluster.leading, quorum.terms_of(whole), cluster.now
    if lease is None:
        return []
    decision = quorum.decide(whole, Lead(lease.holder, lease.holder_name, lease.acquired_at), now)
    if not isinstance(decision, Wait):
        return [Finding("about_to_be_decided", f"The leader {lease.holder_name} is about to decide it.")]
    then = "it acts without one" if told.on_no_quorum == "proceed" else "the job fails"
    if decision.until is None:
        timeout = length(told.quorum_timeout)
        text = f"The leader {lease.holder_name} has not ended its own part: from then on it waits for {timeout}"
        return [Finding("waits_for_leaders_part", f"{text}; without a quorum {then} after that.")]
    text = f"The leader {lease.holder_name} waits for a quorum until {when(decision.until, now)}; then {then}."
    return [Finding("time_out", text)]


# --- what was decided -----------------------------------------------------------------------------------------------


def decision(whole: ClusterJob, now: datetime) -> list[Finding]:
    """What the leader decided, before its action."""
    if whole.decided_at is None:
        return []
    parts, at = len(whole.parts), when(whole.decided_at, now)
    if quorum.terms_of(whole).leader_only:
        return []
    if whole.quorum is not False:
        return [Finding("quorum", f"A quorum of its {counted(parts, 'part')} was completed at {at}: the leader acts.")]
    text = f"The time-out ended at {at} without a quorum: the leader acts all the same."
    return [Finding("no_quorum", text, None if whole.job.finished else _to_see(whole))]


def ending(whole: ClusterJob, now: datetime) -> list[Finding]:
    """Why a cluster job ended that its leader ended without an action; [] for any other."""
    job = whole.job
    if whole.decided_at is not None or job.finished_at is None:
        return []
    at = when(job.finished_at, now)
    if job.state == "succeeded" and job.reason is None:
        parts = counted(len(whole.parts), "part")
        text = f"A quorum of its {parts} was completed at {at}, and its task has no leader action: it is completed."
        return [Finding("settled", text)]
    if job.reason not in ENDED_BY_LEADER:
        return []
    if job.state == "succeeded":
        text = f"It ended at {at} without a quorum: the time-out was over, and its task has no leader action."
        return [Finding("no_quorum", text, _to_see(whole))]
    if job.state == "skipped":
        return [Finding("nothing_to_do", f"It was skipped at {at}: no node of a quorum had anything to do.")]
    settled = Finding(
        "settled", f"It failed at {at}{error_line(job.error)}.", f"start it over with `oncue retry {job.id}`"
    )
    return [settled, Finding(job.reason, _WHY[job.reason])]


_WHY = {
    quorum.NO_QUORUM: "The time-out ended without a quorum, and its task fails then (on_no_quorum='fail').",
    quorum.PARTS_FAILED: "So many parts failed that no quorum could come about: the leader did not act.",
    quorum.NODE_RESTARTED: "A node was restarted in the middle of its part, and its task fails then "
    "(on_node_restart='fail').",
    quorum.NO_NODES: "There was no node that could take part when the leader wrote its parts.",
}


def parts(whole: ClusterJob) -> list[Finding]:
    """How each part stands, or ended."""
    if not whole.parts or quorum.terms_of(whole).leader_only:
        return []
    statuses = quorum.statuses_of(whole)
    told = "; ".join(
        f"{status} on {', '.join(names[: quorum.MOST_NAMED])}"
        + (f" and {len(names) - quorum.MOST_NAMED} more" if len(names) > quorum.MOST_NAMED else "")
        for status in dict.fromkeys(statuses)
        if (names := [part.node_name for part, own in zip(whole.parts, statuses, strict=True) if own == status])
    )
    late = sum(quorum.is_late(part) for part in whole.parts)
    kept = f" {counted(late, 'result')} came after its end, and changed nothing." if late else ""
    return [Finding("parts", f"Its parts are {told}.{kept}", _to_see(whole))]


def _to_see(whole: ClusterJob) -> str:
    return f"`oncue cluster show {whole.id}` lists its parts"


# --- a part ---------------------------------------------------------------------------------------------------------


def part_of(job: Job, whole: ClusterJob, cluster: Cluster) -> list[Finding]:
    """Of which cluster job a job is a part, and on which node."""
    part = next((part for part in whole.parts if part.job_id == job.id), None)
    if part is None:
        return []
    stands = {"new": "new", "queued": "waiting for its parts"}.get(status := quorum.job_status(whole), status)
    text = f"It is {part.node_name}'s part of cluster job {whole.id} ({whole.job.task}), which is {stands}."
    findings = [Finding("part_of", text, f"`oncue explain {whole.id}` tells how that one stands")]
    if quorum.is_late(part):
        findings.append(
            Finding("late", "That had ended before this part did: its result is kept, and changed nothing there.")
        )
    elif not whole.job.finished and quorum.status_of(part, whole.job) == "lost":
        findings.append(
            Finding("node_lost_counts_open", "Its node is lost: the part counts as open until the quorum's time-out.")
        )
    return findings
