"""Cluster jobs: what the leader makes of their parts.

    new -> its parts are written, one for each node -> they run -> the leader decides -> its action -> the verdict

A quorum is more than half of the parts. Once so many are completed, the leader acts; once so many have failed that it
cannot come about any more, the job fails. A part of a lost node is neither: it stays open, and so does the question,
until the time-out. That counts from the end of the leader's own part, or from the instant at which this leader took
over, if that was later. Then the leader acts without a quorum, or the job fails, as its task declares.

A node that decides that there is nothing to do (`Skip`) has done its part. If no node of a quorum had anything to do,
the job is skipped once all parts have ended, or with the time-out.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, TypeAlias
from uuid import UUID

from oncue.model import (
    Change,
    ClusterJob,
    ClusterStatus,
    Job,
    LeaderEpoch,
    NewParts,
    NodeResult,
    Part,
    PartStatus,
    State,
)
from oncue.policy import lifecycle, options
from oncue.policy.error_summary import error_summary
from oncue.policy.options import ClusterOptions

NO_QUORUM = "no_quorum"
"""Why a job failed, or without a quorum of what it was decided: the time was over."""
PARTS_FAILED = "parts_failed"
"""Why a job failed: too many of its parts did for a quorum to come about."""
NODE_RESTARTED = "node_restarted"
"""Why a job failed whose task wants that: a node was restarted in the middle of its part."""
NO_NODES = "no_nodes"
"""Why a job failed: no active node takes part, or one that the caller names is not active."""
NOTHING_TO_DO = "nothing_to_do"
"""Why a job was skipped: no node had anything to do."""
OPEN: frozenset[PartStatus] = frozenset({"queued", "running", "retrying", "lost"})
JOB_ENDED = "cluster_job_ended"
"""Why a part ended that had not begun when its cluster job did."""
MOST_NAMED = 5

_ENDED: dict[str, PartStatus] = {"succeeded": "completed", "failed": "failed", "cancelled": "cancelled"}


class Lead(NamedTuple):
    """Who leads now, and since when."""

    node_id: UUID
    node_name: str
    since: datetime


class Wait(NamedTuple):
    """It is not decided. `until`: when the time-out is over; None while the leader's own part is open."""

    until: datetime | None


class Proceed(NamedTuple):
    """The leader acts, with a quorum or without."""

    quorum: bool


class End(NamedTuple):
    """The job ends here, and the leader does not act."""

    state: Literal["failed", "skipped"]
    reason: str
    error: str | None = None


Decision: TypeAlias = Wait | Proceed | End


def needed(parts: int) -> int:
    """How many completed parts are a quorum."""
    return parts // 2 + 1


def status_of(part: Part, job: Job) -> PartStatus:
    """How it is with a part of this cluster job. One that was open when the job ended is skipped, or cancelled with it:
    what its own job came to later changes nothing."""
    if part.was_open:
        return "cancelled" if job.state == "cancelled" else "skipped"
    if part.job_id is None:
        return _ENDED.get(job.state) or ("queued" if job.state in ("scheduled", "queued") else job.state)  # type: ignore[return-value]
    status = _status(part)
    return "skipped" if status == "lost" and job.finished else status


def _status(part: Part) -> PartStatus:
    if part.state in _ENDED:
        return _ENDED[part.state]
    if part.state == "skipped":
        return _skipped(part)
    if part.state is None or not part.is_alive:
        return "lost"
    return "queued" if part.state == "scheduled" else part.state  # type: ignore[return-value]


def _skipped(part: Part) -> PartStatus:
    """A part that ended as skipped: its node is lost, its time was over, it was interrupted, or had nothing to do."""
    if part.reason == "skipped_timeout":
        return "lost" if part.error == "node_lost" else "failed"
    return "failed" if part.reason == "interrupted" else "skipped"


def is_lost(part: Part) -> bool:
    """Whether the node of a part is gone, or was, before it had ended."""
    return (
        part.job_id is not None and part.state not in ("succeeded", "failed", "cancelled") and (_status(part) == "lost")
    )


def is_late(part: Part) -> bool:
    """Whether a part ran to its end after its cluster job had ended, so that it changed nothing."""
    return bool(part.was_open) and part.finished_at is not None and part.reason != JOB_ENDED


def decide(cluster: ClusterJob, lead: Lead, now: datetime) -> Decision:
    """What becomes of a cluster job whose parts are written."""
    told = terms_of(cluster)
    if told.leader_only:
        return Proceed(True)
    parts = cluster.parts
    if not parts:
        return End("failed", NO_NODES, _why_nobody(cluster.job.task, told.parts))
    statuses = statuses_of(cluster)
    counts = {status: statuses.count(status) for status in set(statuses)}
    completed, skipped = counts.get("completed", 0), counts.get("skipped", 0)
    failed = counts.get("failed", 0) + counts.get("cancelled", 0)
    restarted = [part for part in parts if part.state == "failed" and part.reason == lifecycle.STARTUP_RECOVERY]
    if restarted and told.on_node_restart == "fail":
        return End("failed", NODE_RESTARTED, f"{named(restarted)} was restarted in the middle of its part")
    if failed > len(parts) - needed(len(parts)):
        return End("failed", PARTS_FAILED, _why_failed(cluster, failed))
    is_over = not any(status in OPEN for status in statuses)
    if completed + skipped >= needed(len(parts)) and (completed or is_over):
        return Proceed(True) if completed else End("skipped", NOTHING_TO_DO)
    until = _time_out(cluster, lead, told)
    if until is None or now < until:
        return Wait(until)
    if completed + skipped >= needed(len(parts)):
        return End("skipped", NOTHING_TO_DO)
    if told.on_no_quorum == "fail":
        return End("failed", NO_QUORUM, missing(cluster))
    return Proceed(False)


def _time_out(cluster: ClusterJob, lead: Lead, told: ClusterOptions) -> datetime | None:
    """Until when the leader waits for a quorum; None while its own part is open."""
    assert cluster.spread_at is not None
    began = max(lead.since, cluster.spread_at)
    own = next((part for part in cluster.parts if part.node_id == lead.node_id), None) or next(
        (part for part in cluster.parts if part.node_name == lead.node_name), None
    )
    if own is not None:
        # A lost one, of an earlier process of its name, will not end: the leader does not wait for that.
        if status_of(own, cluster.job) in OPEN - {"lost"}:
            return None
        began = max(began, own.finished_at or began)
    return began + timedelta(seconds=told.quorum_timeout)


def statuses_of(cluster: ClusterJob) -> list[PartStatus]:
    return [status_of(part, cluster.job) for part in cluster.parts]


def missing(cluster: ClusterJob) -> str:
    """What a quorum lacks, in a sentence."""
    parts = len(cluster.parts)
    return f"{done(cluster)} of {parts} parts are done, a quorum is {needed(parts)}: {lacking(cluster)}"


def done(cluster: ClusterJob) -> int:
    """How many parts count for a quorum: those that are completed, or had nothing to do. A part that its job's end or
    its node's skipped does not."""
    return sum(
        status in ("completed", "skipped") and not part.was_open and not is_lost(part)
        for part, status in zip(cluster.parts, statuses_of(cluster), strict=True)
    )


def lacking(cluster: ClusterJob) -> str:
    """How it is with the parts that are not done."""
    found = zip(cluster.parts, statuses_of(cluster), strict=True)
    left = [(part, status) for part, status in found if status not in ("completed", "skipped")]
    why = "; ".join(f"{part.node_name} {_words(part, status)}" for part, status in left[:MOST_NAMED])
    return why + (f" and {len(left) - MOST_NAMED} more" if len(left) > MOST_NAMED else "")


def _words(part: Part, status: PartStatus) -> str:
    match status:
        case "lost":
            return "is lost" if part.claimed_at is None else "was lost in the middle of its part"
        case "queued":
            return "has not claimed its part"
        case "running":
            return "runs its part"
        case "retrying":
            return "will try its part again"
    return f"has {status}" + (f" ({error_summary(part.error)})" if part.error else "")


def _why_failed(cluster: ClusterJob, failed: int) -> str:
    found = [
        part for part, status in zip(cluster.parts, statuses_of(cluster), strict=True)
        if status in ("failed", "cancelled")
    ]  # fmt: skip
    why = "; ".join(
        f"{part.node_name}: {error_summary(part.error or part.reason or 'failed')}" for part in found[:MOST_NAMED]
    )
    return f"{failed} of {len(cluster.parts)} parts failed, so that no quorum can come about: {why}"


def _why_nobody(task: str, parts: NewParts) -> str:
    if parts.nodes is None:
        return f"no active node takes part: none knows the task {task} and serves the queue {parts.queue}"
    wanted = ", ".join(parts.nodes[:MOST_NAMED]) + (", …" if len(parts.nodes) > MOST_NAMED else "")
    expected = f"are active, know the task {task} and serve the queue {parts.queue}"
    return f"no node takes part, since not all of these {expected}: {wanted}"


def named(parts: Sequence[Part]) -> str:
    return ", ".join(part.node_name for part in parts[:MOST_NAMED]) + (", …" if len(parts) > MOST_NAMED else "")


def job_status(cluster: ClusterJob) -> ClusterStatus:
    """How it is with a cluster job, in the words of its contract."""
    job = cluster.job
    match job.state:
        case "succeeded":
            return "completed"
        case "failed" | "cancelled" | "skipped" | "retrying":
            return job.state
        case "running":
            return "running"
    if cluster.spread_at is None:
        return "new"
    if cluster.decided_at is not None:
        return "running"
    statuses = set(statuses_of(cluster))
    if "retrying" in statuses and not statuses & {"running", "queued"}:
        return "retrying"
    return "queued" if statuses <= {"queued", "lost"} else "running"


def results_of(cluster: ClusterJob) -> list[NodeResult]:
    """What the leader action is told of the parts, by the names of their nodes."""
    return [
        NodeResult(
            part.node_name, status_of(part, cluster.job), part.result, part.error, part.started_at, part.finished_at
        )
        for part in sorted(cluster.parts, key=lambda part: part.node_name)
    ]


def terms_of(cluster: ClusterJob) -> ClusterOptions:
    """What its task declares."""
    told = options.read(cluster.job.options).cluster
    assert told is not None, f"job {cluster.id} is no cluster job: its options say nothing of parts"
    return told


def as_change(cluster: ClusterJob, decision: Proceed | End, lead: Lead, epoch: int, now: datetime) -> Change:
    """What ends a cluster job without the leader action: it failed, there was nothing to do, or its task has none."""
    ending: tuple[State, str | None, str | None]
    if isinstance(decision, End):
        ending = (decision.state, decision.reason, decision.error)
    else:
        ending = ("succeeded", None if decision.quorum else NO_QUORUM, None)
    began_at = cluster.spread_at if cluster.parts else None
    return lifecycle.decided(cluster.job, ending, began_at, now, LeaderEpoch(lead.node_id, epoch))
