"""A worker that stands still for longer than its lease, and then goes on as if nothing had happened."""

from __future__ import annotations

import time
from collections.abc import Sequence
from signal import SIGCONT

import pytest

from tests.process.cluster import Cluster, Process
from tests.process.program import LEASE, hold, plain_hold, step


def verdicts(worker: Process, ids: Sequence[int]) -> dict[int, list[bool]]:
    """What became of each write of a worker to these jobs: whether it was accepted."""
    changes = [event.fields for event in worker.history if event.kind == "change"]
    return {job_id: [told["accepted"] for told in changes if told["id"] == job_id] for job_id in ids}


@pytest.mark.contract("QUE-9")
def test_a_zombies_late_results_are_rejected(cluster: Cluster) -> None:
    zombie = cluster.started()
    ended = cluster.enqueue(hold, "early") + cluster.enqueue(plain_hold, "early")
    going_on = cluster.enqueue(hold, "late") + cluster.enqueue(plain_hold, "late")
    both = [*ended, *going_on]
    cluster.until_running(zombie, both)
    cluster.until(lambda: all(job.started_at for job in cluster.rows(both)), "the rows show that they have started")
    cluster.freeze(zombie)

    # Others take the jobs over, each one suspect at a time, and end half of them.
    cluster.open("early")
    heirs = [cluster.start(), cluster.start()]
    cluster.until_done(ended)
    cluster.until(lambda: {job for heir in heirs for job, _ in heir.in_the_middle} == set(going_on), "the rest runs")
    before = cluster.rows(both)
    assert [(job.state, job.claim_no, job.crashes) for job in before[:2]] == [("succeeded", 2, 1)] * 2
    assert [(job.state, job.claim_no, job.crashes) for job in before[2:]] == [("running", 2, 1)] * 2

    # The zombie ends some of them too, and gives the others back: nobody listens.
    zombie.send(SIGCONT)
    cluster.until(lambda: all(verdicts(zombie, both).values()), "the zombie has written")
    assert verdicts(zombie, both) == {job_id: [False] for job_id in both}
    assert zombie.said.count("a late outcome was rejected") == len(both)
    cluster.until(lambda: not zombie.in_the_middle, "the zombie's handlers were stopped")
    assert cluster.rows(ended) == before[:2]
    assert [(job.state, job.claim_no, job.node_id) for job in cluster.rows(going_on)] == [
        ("running", 2, job.node_id) for job in before[2:]
    ]
    assert {mark.what for mark in zombie.marks if mark.job in going_on} == {"start", "cut"}

    # It is a member again, and works on.
    cluster.open("late")
    cluster.until_done(both)
    assert {job.state for job in cluster.rows(both)} == {"succeeded"}
    cluster.stop(*heirs)
    more = cluster.enqueue(step, times=5)
    cluster.until_done(more)
    assert {mark.worker for mark in cluster.marks if mark.job in more} == {zombie.name}
    cluster.verify()


@pytest.mark.contract("QUE-9")
def test_when_all_stood_still_together_nobody_is_lost(cluster: Cluster) -> None:
    """A laptop that slept: every lease is over, and everybody is there."""
    workers = [cluster.started(), cluster.started()]
    ids = cluster.enqueue(hold, "gate", times=12)
    cluster.until(lambda: sum(len(worker.in_the_middle) for worker in workers) == len(ids), "all of them run")
    cluster.until(lambda: all(job.started_at for job in cluster.rows(ids)), "the rows show that they have started")
    for worker in workers:
        cluster.freeze(worker)
    time.sleep(LEASE * 1.2)
    workers[0].send(SIGCONT)
    time.sleep(LEASE * 0.6)  # who wakes first does not take the other one for dead
    workers[1].send(SIGCONT)
    cluster.until_done(cluster.enqueue(step, times=4))
    cluster.open("gate")
    cluster.until_done()
    assert {(job.state, job.claim_no, job.crashes) for job in cluster.jobs()} == {("succeeded", 1, 0)}
    cluster.stop(*workers)
    cluster.verify(complete=True)
