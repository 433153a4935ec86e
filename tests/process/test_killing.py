"""kill -9, under load."""

from __future__ import annotations

import pytest

from oncue.sim.history import Event
from tests.process.cluster import TOLERANCE, Cluster, Process
from tests.process.program import LEASE, once


def taken_away(events: list[Event]) -> dict[tuple[int, int], int]:
    """When each claim of a lost node was given to others."""
    changes = [event for event in events if event.kind == "change" and event.fields["error"] == "node_lost"]
    return {(event.fields["id"], event.fields["claim_no"]): event.at for event in changes if event.fields["accepted"]}


def waits(events: list[Event], node: str) -> list[float]:
    """For each job that a killed worker held: seconds from the kill until it was taken away."""
    killed_at = next(event.at for event in events if event.kind == "crash" and event.node == node)
    rescued = taken_away(events)
    claims = [event for event in events if event.kind == "claim" and event.node == node]
    places = [(claim.fields["id"], claim.fields["claim_no"]) for claim in claims]
    return [(rescued[place] - killed_at) / 1e6 for place in places if place in rescued]


def acknowledged(client: Process) -> int:
    return sum(event.kind == "enqueue.ok" for event in client.history)


@pytest.mark.contract("QUE-9", "QUE-8")
def test_killed_processes_lose_nothing_and_end_nothing_twice(cluster: Cluster) -> None:
    bystander = cluster.start("--queues", "nothing")  # so that there is always somebody to notice a death
    workers, victims = [cluster.start(), cluster.start()], []
    cluster.ready(bystander, *workers)
    client = cluster.run("tests.process.crowd", "1000")
    with cluster.load() as load:
        cluster.until(lambda: acknowledged(client) > 50, "a client enqueues")
        cluster.kill(client)
        for _ in range(3):
            victims.append(workers.pop(0))
            cluster.until_busy(victims[-1])
            cluster.kill(victims[-1])
            workers.append(cluster.started())
        cluster.until_busy(workers[-1])
        victims += workers
        cluster.kill(*workers)
        cluster.start()
        cluster.start()
    cluster.until_done()
    assert load.refused == 0
    ends = {(job.state, job.reason) for job in cluster.jobs() if job.task != once.name}
    assert ends == {("succeeded", None)}, "four deaths are too few for poison"
    at_most_once = {(job.state, job.reason) for job in cluster.jobs() if job.task == once.name}
    assert at_most_once <= {("succeeded", None), ("skipped", "skipped_timeout")}
    cluster.verify()
    found = [waited for victim in victims if (waited := waits(cluster.events, victim.name))]
    assert found, "the kills hit nobody in the middle of a job"
    assert min(map(max, found)) <= 2 * LEASE + TOLERANCE, "a busy machine spoils some"
