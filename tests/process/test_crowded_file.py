"""One SQLite file, and many who want it at the same time."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.process.cluster import Cluster
from tests.process.crowd import THREADS

PROCESSES = 4
JOBS_PER_THREAD = 15


@pytest.mark.contract("QUE-8")
def test_a_crowd_on_one_file_never_hears_that_it_is_locked(steady_sqlite_cluster: Cluster) -> None:
    cluster = steady_sqlite_cluster
    crowd = [cluster.run("tests.process.crowd", str(JOBS_PER_THREAD)) for _ in range(PROCESSES)]
    workers = [cluster.start(), cluster.start()]
    for process in crowd:
        assert process.ends() == 0, process.said
    cluster.until_done()
    cluster.stop(*workers)
    assert "lock" not in cluster.logs.lower()
    assert "StoreBusy" not in cluster.logs
    assert [process.said for process in crowd] == [""] * PROCESSES
    jobs = cluster.jobs()
    assert len(jobs) == PROCESSES * THREADS * JOBS_PER_THREAD
    assert {(job.state, job.attempt) for job in jobs} == {("succeeded", 1)}
    ran = Counter(mark.job for mark in cluster.marks if mark.what == "end")
    assert ran == Counter(job.id for job in jobs)
    cluster.verify(complete=True)
