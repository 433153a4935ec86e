"""Cluster jobs: creating them, what became of them, and who leads the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request

from oncue.model import ClusterJob
from oncue.policy.scopes import allows
from oncue.records.cluster import (
    ClusterJobDetail,
    ClusterRecord,
    cluster_job_detail,
    cluster_job_record,
    cluster_leader_record,
    without_outcomes,
)
from oncue.records.nodes import node_record
from oncue.server.api import pages
from oncue.server.api.documents import changing, looking
from oncue.server.api.enqueueing import call_of, created, task_named
from oncue.server.api.idempotency import Keeping
from oncue.server.api.identity import Caller, identity_of
from oncue.server.api.models.cluster import ClusterJobPage, NewClusterJob
from oncue.server.api.nodes import leases_of
from oncue.server.api.pages import Before, Limit
from oncue.server.api.problems import Answer, address_for, invalid, made
from oncue.server.api.references import JobRef, job_ref
from oncue.server.api.routing import Routes
from oncue.tasks.cluster import ClusterCall, ClusterTask

if TYPE_CHECKING:
    from oncue.app import Oncue

CLUSTER = "/api/admin/cluster"
JOBS = f"{CLUSTER}/jobs"
TAG = "cluster"
PARTS_SECONDS = 1.0
"""So long an answer waits for the leader to write the parts, if another process leads: for two of its polls, and less
than a server that is stopped waits for the answers that it owes."""


def add(routes: Routes, app: Oncue) -> None:
    _add_creating(routes, app)
    _add_looking(routes, app)


def _add_creating(routes: Routes, app: Oncue) -> None:
    @routes.post(
        JOBS, needs="enqueue", keeping=Keeping(repeats=True, jobs=lambda body: 1),
        **changing(TAG, "Create a cluster job", ClusterJobDetail, 409, 421, status=201),
    )  # fmt: skip
    async def create_cluster_job(request: Request, body: NewClusterJob, by: Caller) -> Answer:
        """Every node does its part, then the leader acts. Only the leader creates cluster jobs: a node that does not
        lead answers 421 and names the leader. A process that is no node hands the job to the leader; while no node
        leads, its status is `new`. 409 with `job_id` if an unfinished job has the key. What the job and its parts have
        come to by then is told to those alone who may `read`."""
        task = task_named(app, body.task)
        if not isinstance(task, ClusterTask):
            raise invalid("task", f"expected a cluster task, declared with @app.cluster_task, not {body.task!r:.100}")
        call, row = await call_of(
            app, task, body.args, nodes=body.nodes, key=body.key, priority=body.priority, enqueued_by=by
        )
        assert isinstance(call, ClusterCall)
        await app.internals.clustering.check_named(call)
        receipt = await created(app, request, call, row)
        patience = 0.0 if await app.cluster.leader() is None else PARTS_SECONDS
        found = await app.cluster.spread(receipt.id, timeout=patience)
        place = f"{request.scope['path']}/{receipt.id}"
        if not allows(identity_of(request.scope).scopes, "read"):
            found = without_outcomes(found)
        return Answer(cluster_job_detail(found), 201, headers={"Location": place})


def _add_looking(routes: Routes, app: Oncue) -> None:
    @routes.get(JOBS, **looking(TAG, "List cluster jobs", ClusterJobPage))
    async def list_cluster_jobs(request: Request, limit: Limit = 100, before: Before = None) -> Answer:
        """Newest first, without their parts. Go on with `next`."""

        async def read(last: ClusterJob | None, most: int) -> list[ClusterJob]:
            return await app.cluster.list(before=before if last is None else last.id, limit=most)

        return await pages.in_parts(request, "jobs", read, limit, cluster_job_record, before=lambda job: job.id)

    @routes.get(f"{JOBS}/{{id}}", **looking(TAG, "Show a cluster job", ClusterJobDetail, 404))
    async def show_cluster_job(id: JobRef) -> Answer:
        """With the part of each node and what it returned."""
        found = await app.cluster.get(job_ref(id))
        return await made(lambda: cluster_job_detail(found))

    @routes.get(CLUSTER, **looking(TAG, "Show the cluster", ClusterRecord))
    async def show_cluster(request: Request) -> Answer:
        """The nodes, and which of them leads under which epoch."""
        leader = await app.cluster.leader()
        told = None
        if leader is not None:
            told = cluster_leader_record(leader, address=address_for(request, leader.address))
        leases, now = await leases_of(app), await app.now()
        return Answer({"leader": told, "nodes": [node_record(node, now, leases) for node in await app.nodes.list()]})
