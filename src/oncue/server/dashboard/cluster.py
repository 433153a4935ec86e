"""The cluster: nodes, leader and epoch, and the cluster jobs; a task for all of them, and a ping."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from oncue.application.builtin import PREFIX
from oncue.model import DEFAULT_QUEUE, ClusterJob, Lease, Node
from oncue.policy import quorum
from oncue.policy.error_summary import error_summary
from oncue.server.api.nodes import leases_of
from oncue.server.api.problems import invalid
from oncue.server.api.references import job_ref
from oncue.server.dashboard import cluster_jobs
from oncue.server.dashboard.deeds import Done
from oncue.server.dashboard.typed import duration, json_object
from oncue.store.contract import EXCLUSIVE, LEADER
from oncue.tasks.cluster import ClusterTask

if TYPE_CHECKING:
    from oncue.app import Oncue
    from oncue.server.dashboard.deeds import Deed
    from oncue.server.dashboard.pages import Dashboard
    from oncue.server.dashboard.view import View

PAGE = 30
MOST_NODES, MOST_SQUARES = 200, 60
GONE_WITHIN, MOST_GONE = "1h", 20
PARTS_SECONDS = 2.0
"""How long an action waits for the leader to write the parts of a cluster job."""
PING_SECONDS, LONGEST_PING = 5.0, 60.0


class NodeLine(NamedTuple):
    """A node in the list."""

    node: Node
    is_alive: bool
    leads: bool
    stands_by: bool
    """Whether another node is exclusive, for which this one stands by."""
    in_hand: int | None
    """How many jobs it has claimed."""
    tasks: int


class JobLine(NamedTuple):
    """A cluster job in the list."""

    job: ClusterJob
    status: str
    parts: Sequence[tuple[str, str]]
    """The name of each node, and how it is with its part."""
    done: int
    needed: int
    came_of_it: str


def add(dashboard: Dashboard) -> None:
    @dashboard.page("/cluster", "cluster.html", title="Cluster", room="cluster")
    async def cluster(view: View) -> dict[str, Any]:
        app, now = view.app, await view.app.now()
        working, leases = await app.nodes.work(most=1), await leases_of(app)
        nodes, in_hand = [work.node for work in working], {work.node.id: work.held for work in working}
        jobs = await app.cluster.list(before=view.number("before"), limit=PAGE + 1)
        return {
            "now": now, "leader": await app.cluster.leader(),
            "nodes": [_node_line(node, leases, now, in_hand.get(node.id)) for node in nodes[:MOST_NODES]],
            "more_nodes": len(nodes) - MOST_NODES, "gone": await app.nodes.gone(GONE_WITHIN, limit=MOST_GONE),
            "lines": [_job_line(job) for job in jobs[:PAGE]],
            "next": jobs[PAGE - 1].id if len(jobs) > PAGE else None, "most_squares": MOST_SQUARES,
            "tasks": cluster_tasks(app), "arguments": {task.name: _arguments(task) for task in cluster_tasks(app)},
            "names": sorted(node.name for node in nodes if node.named),
            "queues": sorted({queue for node in nodes for queue in node.queues} | {DEFAULT_QUEUE}),
            "seats": sum(node.concurrency for node in nodes if node.expires_at > now), "in_hand": sum(in_hand.values()),
        }  # fmt: skip

    cluster_jobs.add(dashboard)
    _add_actions(dashboard)


def _add_actions(dashboard: Dashboard) -> None:
    @dashboard.action("/cluster/run", needs="enqueue")
    async def run(deed: Deed) -> Done:
        """A node that does not lead hands the job to the leader, as a process does that is no node."""
        names = [name.strip() for one in deed.many("nodes") for name in one.split(",") if name.strip()]
        args = json_object("args", deed.maybe("args"), '{"level": 2}')
        made = await deed.app.cluster.run(
            _task(deed.app, deed.text("task")), args, nodes=names or None, key=deed.maybe("key"), by=deed.by,
            timeout=PARTS_SECONDS, hand_over=True,
        )  # fmt: skip
        return Done("", go=f"/cluster/{made.id}")

    @dashboard.action("/cluster/cancel", needs="operate")
    async def cancel(deed: Deed) -> Done:
        made = await deed.app.cluster.get(job_ref(deed.text("id")))
        await deed.app.jobs.cancel(made.id, by=deed.by)
        return Done(f"Cluster job {made.id} is cancelled; parts that run are asked to stop.")

    @dashboard.action("/cluster/again", needs="operate")
    async def again(deed: Deed) -> Done:
        made = await deed.app.cluster.get(job_ref(deed.text("id")))
        job = await deed.app.jobs.retry(made.id, by=deed.by)
        return Done("", go=f"/cluster/{job.id}")

    @dashboard.action("/cluster/ping", needs="enqueue", is_long=True)
    async def ping(deed: Deed) -> Done:
        queue, patience = deed.text("queue"), duration("timeout", deed.maybe("timeout")) or PING_SECONDS
        if patience > LONGEST_PING:
            raise invalid("timeout", f"expected at most {LONGEST_PING:g} seconds")
        told = await deed.app.nodes.ping(queue, address=deed.maybe("address"), timeout=patience, by=deed.by)
        if told.seconds is not None:
            took = f"{told.seconds * 1000:,.0f} ms"
            return Done(f"{told.node} ran job {told.job.id} of the queue {queue} within {took}.")
        why = " ".join(finding.text for finding in told.explanation.findings) if told.explanation else ""
        return Done(f"No worker ran job {told.job.id} of the queue {queue} within {patience:g} s. {why}".strip())


def cluster_tasks(app: Oncue) -> list[ClusterTask[Any, Any]]:
    """The cluster tasks that this process knows, by name."""
    found = [task for task in app.tasks.values() if isinstance(task, ClusterTask)]
    return sorted(found, key=lambda task: task.name)


def _arguments(task: ClusterTask[Any, Any]) -> str:
    """What it takes: `level=1`, and `table` where there is no default."""
    parameters = task.arguments.signature.parameters.values()
    return ", ".join(one.name if one.default is one.empty else f"{one.name}={one.default!r:.40}" for one in parameters)


def _task(app: Oncue, name: str) -> ClusterTask[Any, Any]:
    known = {task.name: task for task in cluster_tasks(app)}
    if name not in known:
        expected = ", ".join(known) or "the cluster tasks that code declares"
        raise invalid("task", f"expected one of {expected}, not {name!r:.100}")
    return known[name]


def _node_line(node: Node, leases: Sequence[Lease], now: datetime, in_hand: int | None) -> NodeLine:
    held = {lease.name: lease.holder for lease in leases if lease.expires_at > now}
    return NodeLine(
        node, node.expires_at > now, held.get(LEADER) == node.id, held.get(EXCLUSIVE, node.id) != node.id, in_hand,
        sum(not task.startswith(PREFIX) for task in node.tasks),
    )  # fmt: skip


def _job_line(job: ClusterJob) -> JobLine:
    parts = [(part.node_name, str(quorum.status_of(part, job.job))) for part in job.parts]
    came_of_it = error_summary(job.job.error) or job.job.reason or ""
    needed = 0 if quorum.terms_of(job).leader_only or not parts else quorum.needed(len(parts))
    return JobLine(job, quorum.job_status(job), sorted(parts), quorum.done(job), needed, came_of_it)
