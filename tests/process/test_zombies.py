"""Workers that all stand still together. Those that do so one by one are in test_chaos.py."""

from __future__ import annotations

import time
from signal import SIGCONT

import pytest

from tests.process.cluster import Cluster
from tests.process.program import LEASE, hold, step


@pytest.mark.contract("QUE-9")
def test_when_all_stood_still_together_nobody_is_lost(sqlite_cluster: Cluster) -> None:
    """A laptop that slept: every lease is over, and everybody is there."""
    cluster = sqlite_cluster
    cluster.lease_seconds = 2.5 * LEASE  # a busy machine has as long to let the second one beat once the first one does
    workers = [cluster.started(), cluster.started()]
    ids = cluster.enqueue(hold, "gate", times=12)
    cluster.until(lambda: sum(len(worker.in_the_middle) for worker in workers) == len(ids), "all of them run")
    cluster.until(lambda: all(job.started_at for job in cluster.rows(ids)), "the rows show that they have started")
    for worker in workers:
        cluster.freeze(worker)
    time.sleep(cluster.lease_seconds * 1.2)
    workers[0].send(SIGCONT)
    cluster.until_beats(workers[0], 2)  # who wakes first looks around, and does not take the other one for dead
    workers[1].send(SIGCONT)
    cluster.until_done(cluster.enqueue(step, times=4))
    cluster.open("gate")
    cluster.until_done()
    assert {(job.state, job.claim_no, job.crashes) for job in cluster.jobs()} == {("succeeded", 1, 0)}
    cluster.stop(*workers)
    cluster.verify(complete=True)
