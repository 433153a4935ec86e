"""Long jobs are shared out among the workers."""

from __future__ import annotations

import time

from tests.process.cluster import Cluster
from tests.process.program import hold

SEATS = 8


def test_a_worker_keeps_nothing_from_others_that_it_cannot_run_yet(steady_cluster: Cluster) -> None:
    cluster = steady_cluster
    first = cluster.started()
    cluster.enqueue(hold, "gate", times=3 * SEATS)
    cluster.until(lambda: len(first.in_the_middle) == SEATS, "its seats are taken")
    for _ in range(5):
        assert sum(job.state == "running" for job in cluster.jobs()) == SEATS
        time.sleep(0.05)
    second = cluster.started()
    cluster.until(lambda: len(second.in_the_middle) == SEATS, "the next worker runs as many")
    cluster.open("gate")
    cluster.until_done()
    assert {(job.state, job.claim_no) for job in cluster.jobs()} == {("succeeded", 1)}
    cluster.stop(first, second)
    cluster.verify(complete=True)
