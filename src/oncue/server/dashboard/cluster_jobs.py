"""One cluster job: the part of each node, the quorum and its time-out, the leader action, and what happened when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from oncue.model import ClusterJob, Node, Part
from oncue.policy import quorum
from oncue.policy.error_summary import error_summary
from oncue.policy.quorum import Lead, Wait
from oncue.server.api.references import job_ref
from oncue.server.dashboard.rendering import compact
from oncue.verbs.cluster import Leader

if TYPE_CHECKING:
    from oncue.server.dashboard.pages import Dashboard
    from oncue.server.dashboard.view import View

MOST_HAPPENINGS = 60


class PartLine(NamedTuple):
    """One node's part."""

    part: Part
    status: str
    attempts: int
    began: datetime | None
    seconds: float | None
    """How long it took, or runs so far."""
    is_late: bool
    is_lost: bool
    came_of_it: str
    is_error: bool


class TimeOut(NamedTuple):
    """How long the leader has waited for a quorum, and how long it will."""

    waited: float | None
    """None: it begins with the end of the leader's own part."""
    seconds: float
    until: datetime | None
    then: str


class ActionState(NamedTuple):
    """How it is with the leader action."""

    word: str
    kind: str
    note: str


class ClusterMoment(NamedTuple):
    """Something that happened to a cluster job."""

    at: datetime
    kind: str
    text: str


def add(dashboard: Dashboard) -> None:
    @dashboard.page("/cluster/{id}", "cluster_job.html", title="Cluster job", room="cluster", every=1.0)
    async def cluster_job(view: View) -> dict[str, Any]:
        app, now = view.app, await view.app.now()
        found = await app.cluster.get(job_ref(view.parameters["id"]))
        leader = await app.cluster.leader()
        lines = sorted((_part_line(part, found, now) for part in found.parts), key=_by_name)
        return {
            "title": f"Cluster job {found.id}", "cluster": found, "job": found.job, "now": now, "leader": leader,
            "terms": quorum.terms_of(found), "status": quorum.job_status(found), "lines": lines,
            "done": quorum.done(found), "needed": quorum.needed(len(found.parts)) if found.parts else 0,
            "lacking": quorum.lacking(found) if _waits(found) else "", "time_out": _time_out(found, leader, now),
            "act": _act(found), "actor": _name_of(found.job.node_id, found, await app.nodes.list()),
            "moments": sorted(_moments(found, lines), key=attrgetter("at"))[-MOST_HAPPENINGS:],
            "why": await app.jobs.explain(found.id), "summary": error_summary(found.job.error),
        }  # fmt: skip


# --- parts ----------------------------------------------------------------------------------------------------------


def _by_name(line: PartLine) -> tuple[str, UUID]:
    return line.part.node_name, line.part.node_id


def _part_line(part: Part, cluster: ClusterJob, now: datetime) -> PartLine:
    """All there is of a leader-only job is the job itself. `started_at` is written with the outcome of an attempt:
    until then its claim says when it began."""
    own = cluster.job if part.job_id is None else part
    is_running = own.state == "running"
    began = own.claimed_at if is_running else own.started_at
    ended = now if is_running else own.finished_at
    seconds = None if began is None or ended is None else max((ended - began).total_seconds(), 0.0)
    return PartLine(
        part, quorum.status_of(part, cluster.job), own.attempt + is_running, began, seconds, quorum.is_late(part),
        quorum.is_lost(part), *_came_of(part),
    )  # fmt: skip


def _came_of(part: Part) -> tuple[str, bool]:
    if part.state == "succeeded":
        return ("" if part.result is None else compact(part.result, 300)), False
    return error_summary(part.error) or part.reason or "", part.error is not None


# --- the leader -----------------------------------------------------------------------------------------------------


def _waits(cluster: ClusterJob) -> bool:
    """Whether its leader waits for parts."""
    return not cluster.job.finished and cluster.decided_at is None and bool(cluster.parts)


def _time_out(cluster: ClusterJob, leader: Leader | None, now: datetime) -> TimeOut | None:
    terms = quorum.terms_of(cluster)
    if leader is None or not _waits(cluster) or terms.leader_only:
        return None
    decision = quorum.decide(cluster, Lead(leader.node_id, leader.name, leader.since), now)
    if not isinstance(decision, Wait):
        return None
    then = "the leader acts without one" if terms.on_no_quorum == "proceed" else "the job fails"
    if decision.until is None:
        return TimeOut(None, terms.quorum_timeout, None, then)
    left = (decision.until - now).total_seconds()
    waited = min(max(terms.quorum_timeout - left, 0.0), terms.quorum_timeout)
    return TimeOut(waited, terms.quorum_timeout, decision.until, then)


def _act(cluster: ClusterJob) -> ActionState:
    job, terms = cluster.job, quorum.terms_of(cluster)
    if not terms.has_action and not terms.leader_only:
        return ActionState("none", "idle", "Its task declares no leader action.")
    if cluster.decided_at is None and not terms.leader_only:
        ended = "It ended before the leader acted." if job.finished else "It begins once the leader has decided."
        return ActionState("not begun", "idle", ended)
    if job.state == "running":
        return ActionState("running", "running", "The leader runs it now.")
    if job.finished:
        return ActionState(quorum.job_status(cluster), quorum.job_status(cluster), "")
    return ActionState(job.state, job.state, "It waits for the leader to claim it.")


def _name_of(node: UUID | None, cluster: ClusterJob, alive: Sequence[Node]) -> str | None:
    known = {one.id: one.name for one in alive} | {part.node_id: part.node_name for part in cluster.parts}
    return None if node is None else known.get(node, str(node))


# --- what happened when ---------------------------------------------------------------------------------------------


def _moments(cluster: ClusterJob, lines: Sequence[PartLine]) -> Iterator[ClusterMoment]:
    job = cluster.job
    yield ClusterMoment(job.created_at, "manual", f"{job.enqueued_by} asked for it.")
    if cluster.spread_at is not None:
        parts = f"{len(cluster.parts)} part{'' if len(cluster.parts) == 1 else 's'}"
        yield ClusterMoment(cluster.spread_at, "leader", f"The leader wrote {parts}, epoch {cluster.epoch}.")
    for line in lines:
        if line.part.job_id is not None:
            yield from _moments_of(line)
    if cluster.decided_at is not None:
        told = {True: "with a quorum", False: "without a quorum", None: "without waiting"}[cluster.quorum]
        kind = "warn" if cluster.quorum is False else "leader"
        text = f"The leader decided to act, {told}, epoch {cluster.decided_epoch}."
        yield ClusterMoment(cluster.decided_at, kind, text)
    if job.cancel_requested_at is not None:
        yield ClusterMoment(job.cancel_requested_at, "warn", "It was asked to stop.")
    acts = cluster.decided_at is not None or quorum.terms_of(cluster).leader_only
    began = job.claimed_at if job.state == "running" else job.started_at
    if acts and began is not None:
        yield ClusterMoment(began, "manual", "The leader action began.")
    if job.finished_at is not None:
        kind = {"succeeded": "ok", "failed": "lost"}.get(job.state, "warn")
        reason = f" ({job.reason})" if job.reason else ""
        yield ClusterMoment(job.finished_at, kind, f"The job is {quorum.job_status(cluster)}{reason}.")


def _moments_of(line: PartLine) -> Iterator[ClusterMoment]:
    part, name = line.part, line.part.node_name
    if line.began is not None:
        attempt = f", attempt {line.attempts}" if line.attempts > 1 else ""
        yield ClusterMoment(line.began, "manual", f"{name} began its part{attempt}.")
    if part.finished_at is not None and part.reason != quorum.JOB_ENDED:
        kind = {"completed": "ok", "failed": "lost"}.get(line.status, "warn")
        late = ", too late to count" if line.is_late else ""
        came_to = part.state if line.is_late else line.status
        yield ClusterMoment(part.finished_at, kind, f"The part of {name} is {came_to}{late}.")
