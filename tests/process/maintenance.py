"""Cluster jobs of real processes: how a test creates them, what it waits for, and what must hold of them in the end."""

from __future__ import annotations

from collections import Counter
from typing import Any

from oncue.model import ClusterJob, Part, PartStatus
from oncue.policy import quorum
from tests.process.cluster import Cluster, Process
from tests.process.cluster_program import maintain
from tests.process.conftest import LONG_LEASE
from tests.process.program import LEASE

MORTAL_LEASE = 2 * LEASE
PROGRAM = "tests.process.cluster_program:app"


def crew(cluster: Cluster, count: int = 3, *, mortal: int | None = 0, **environment: str) -> list[Process]:
    """So many workers, the first of which leads.

    The lease of the `mortal` one is short, so that it is soon missed. Those of all others, and of workers that follow,
    are long: a busy machine that keeps them from their beats takes none of them for dead.
    """
    workers = []
    for number in range(count):
        cluster.lease_seconds = MORTAL_LEASE if number == mortal else LONG_LEASE
        workers.append(cluster.start(program=PROGRAM, **environment))
        if number == 0:
            cluster.ready(*workers)
            cluster.led()
    cluster.lease_seconds = LONG_LEASE
    cluster.ready(*workers)
    cluster.until(lambda: are_named(cluster, workers), "each has its name")
    return workers


def are_named(cluster: Cluster, workers: list[Process]) -> bool:
    """Whether these can be told apart by now: what is addressed to a name is for the node that has leased it."""
    named = {node.name for node in cluster.app.wait(cluster.app.nodes.list()) if node.named}
    return {worker.node_name for worker in workers} <= named


def create(cluster: Cluster, **arguments: Any) -> int:
    """Hand the wish for a cluster job to the leader, as a process that is no node."""
    clustering = cluster.app.internals.clustering
    return cluster.app.wait(clustering.create(maintain.using(), ((), arguments))).id


def whole(cluster: Cluster, job_id: int) -> ClusterJob:
    return cluster.app.wait(cluster.app.cluster.get(job_id))


def part_of(cluster: Cluster, job_id: int, worker: Process) -> Part | None:
    found = whole(cluster, job_id)
    return next((part for part in found.parts if part.node_name == worker.node_name), None)


def status(cluster: Cluster, job_id: int, worker: Process) -> PartStatus | None:
    found = whole(cluster, job_id)
    return next((quorum.status_of(one, found.job) for one in found.parts if one.node_name == worker.node_name), None)


def statuses(cluster: Cluster, job_id: int) -> dict[str, PartStatus]:
    found = whole(cluster, job_id)
    return {part.node_name: quorum.status_of(part, found.job) for part in found.parts}


def until_parts_run(cluster: Cluster, job_id: int, *workers: Process) -> None:
    """Wait until the parts of these nodes are in the middle, and the rows show it."""

    def run() -> bool:
        parts = [part_of(cluster, job_id, worker) for worker in workers]
        return all(part is not None and part.started_at is not None for part in parts)

    cluster.until(run, f"the parts of job {job_id} run")
    ids = {worker.name: part_of(cluster, job_id, worker) for worker in workers}
    for worker in workers:
        part = ids[worker.name]
        assert part is not None
        assert part.job_id is not None
        cluster.until_running(worker, [part.job_id])


def until_acts(cluster: Cluster, job_id: int, leader: Process) -> None:
    """Wait until the leader is in the middle of its action."""
    cluster.until_running(leader, [job_id])
    cluster.until(lambda: whole(cluster, job_id).job.started_at is not None, "the row shows that it acts")


def verdict(cluster: Cluster, job_id: int) -> ClusterJob:
    """Wait until a cluster job and all of its parts have ended. What is told of it agrees: one action is recorded."""
    cluster.until_done([job_id])
    found = whole(cluster, job_id)
    cluster.until_done([part.job_id for part in found.parts if part.job_id is not None])
    check(cluster, job_id)
    return whole(cluster, job_id)


def check(cluster: Cluster, job_id: int) -> None:
    """No part is open, the epochs go up, and of all ends of a job that processes have tried to write one counted."""
    found = whole(cluster, job_id)
    assert found.spread_at is not None
    assert found.epoch is not None
    assert found.decided_epoch is None or found.decided_epoch >= found.epoch
    assert not quorum.OPEN & set(quorum.statuses_of(found)), quorum.statuses_of(found)
    assert all(part.was_open is not None for part in found.parts), found.parts
    assert len(recorded(cluster, job_id)) <= 1


def recorded(cluster: Cluster, job_id: int) -> list[dict[str, Any]]:
    """The ends of a job that processes have written, and that counted."""
    changes = [event.fields for event in cluster.events if event.kind == "change" and event.fields["id"] == job_id]
    return [told for told in changes if told["accepted"] and told["state"] == "succeeded" and not told.get("ending")]


def acted(cluster: Cluster, job_id: int) -> Counter[str]:
    """How often each process has begun the leader action."""
    return Counter(mark.worker for mark in cluster.marks if mark.job == job_id and mark.what == "start")
