"""SIGTERM, under load."""

from __future__ import annotations

import time
from signal import SIGTERM

import pytest

from oncue.cli.process import TOGETHER_SECONDS
from tests.process.cluster import Cluster
from tests.process.program import flaky, hold, plain_hold, plain_step, step


@pytest.mark.contract("HOOK-7")
def test_a_signal_under_load_leaves_nothing_running_and_charges_nothing(steady_cluster: Cluster) -> None:
    cluster = steady_cluster
    worker = cluster.started("--drain-timeout", "500ms", "--concurrency", "4")
    held = cluster.enqueue(hold, "gate") + cluster.enqueue(plain_hold, "gate")
    cluster.until_running(worker, held)
    with cluster.load(step, plain_step, flaky) as load:
        cluster.until(lambda: len(load.ids) > 100, "there is a backlog")
        worker.send(SIGTERM)
        assert worker.ends() == 0, worker.said
    rows = cluster.jobs()
    assert {job.state for job in rows} <= {"succeeded", "queued", "retrying"}
    assert {job.state for job in cluster.rows(held)} == {"queued"}
    assert cluster.app.wait(cluster.app.nodes.list()) == []
    unfinished = [job for job in rows if not job.finished]
    assert len(unfinished) > len(held)
    assert {job.crashes for job in rows} == {0}
    assert {job.retry_count for job in unfinished if job.state == "queued" and job.task != "flaky"} == {0}
    given_back = cluster.app.wait(cluster.app.jobs.attempts(held[0]))
    assert [(attempt.outcome, attempt.error) for attempt in given_back] == [("shutdown", None)]

    # The next worker goes on from there. Nobody was killed, so that not a single event may be missing.
    cluster.open("gate")
    successor = cluster.started()
    cluster.until_done()
    assert {job.state for job in cluster.jobs()} == {"succeeded"}
    cluster.stop(successor)
    cluster.verify(complete=True)


@pytest.mark.contract("HOOK-7", "QUE-9")
def test_a_second_signal_stops_at_once_and_others_take_over(cluster: Cluster) -> None:
    worker, other = cluster.start(), cluster.start("--queues", "other")
    cluster.ready(worker, other)
    held = cluster.enqueue(hold, "gate") + cluster.enqueue(plain_hold, "gate")
    cluster.until_running(worker, held)
    worker.send(SIGTERM)
    cluster.until(lambda: "draining: 2 running" in worker.said, "it drains")
    time.sleep(TOGETHER_SECONDS)  # two signals at once are one
    worker.send(SIGTERM)
    assert worker.ends() == 128 + SIGTERM, "it did not wait for its jobs, which would have been the good end"
    assert {job.state for job in cluster.rows(held)} == {"running"}
    cluster.open("gate")
    cluster.start()
    cluster.until_done(held)
    assert [(job.state, job.attempt, job.crashes) for job in cluster.rows(held)] == [("succeeded", 2, 1)] * 2
    cluster.verify()
