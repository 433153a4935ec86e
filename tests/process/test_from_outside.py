"""What another process does reaches a worker at once, however seldom it looks by itself."""

from __future__ import annotations

import time

import pytest

from tests.process.cluster import Cluster
from tests.process.program import hold, plain_hold, step

POLL = "1h"


@pytest.mark.contract("QUE-18")
def test_a_job_of_another_process_is_noticed_at_once(steady_cluster: Cluster) -> None:
    cluster = steady_cluster
    worker = cluster.started(ONCUE_POLL_INTERVAL=POLL)
    for _ in range(3):
        time.sleep(0.2)  # long enough for the worker to be idle again, nearly always
        cluster.until_done(cluster.enqueue(step))
    cluster.until_done(cluster.enqueue(step.using(delay="300ms")))
    cluster.stop(worker)
    cluster.verify(complete=True)


@pytest.mark.contract("QUE-8")
def test_a_running_job_is_cancelled_from_another_process(steady_cluster: Cluster) -> None:
    cluster = steady_cluster
    worker = cluster.started(ONCUE_POLL_INTERVAL=POLL)
    ids = cluster.enqueue(hold, "never") + cluster.enqueue(plain_hold, "never")
    bystander = cluster.enqueue(hold, "gate")
    cluster.until_running(worker, [*ids, *bystander])
    for job_id in ids:
        assert cluster.app.wait(cluster.app.jobs.cancel(job_id)).cancel_requested_at is not None
    cluster.until_done(ids)
    assert {job.state for job in cluster.rows(ids)} == {"cancelled"}
    assert [mark.job for mark in sorted(cluster.marks) if mark.what == "cut"] == ids
    assert cluster.job(*bystander).state == "running"
    cluster.open("gate")
    cluster.until_done()
    assert cluster.job(*bystander).state == "succeeded"
    cluster.stop(worker)
    cluster.verify(complete=True)


@pytest.mark.contract("QUE-18")
def test_a_queue_is_paused_and_resumed_from_another_process(steady_cluster: Cluster) -> None:
    cluster, app = steady_cluster, steady_cluster.app
    worker = cluster.started("--queues", "mail,default", ONCUE_POLL_INTERVAL=POLL)
    running = cluster.enqueue(hold.using(queue="mail"), "gate")
    cluster.until_running(worker, running)
    app.wait(app.queues.pause("mail"))
    waiting = cluster.enqueue(step.using(queue="mail", priority=100), times=3)
    passing = cluster.enqueue(step, times=3)
    cluster.until_done(passing)
    cluster.open("gate")
    cluster.until_done(running)  # what ran goes on
    assert [(job.state, job.claim_no) for job in cluster.rows(waiting)] == [("queued", 0)] * 3
    app.wait(app.queues.resume("mail"))
    cluster.until_done(waiting)
    cluster.stop(worker)
    cluster.verify(complete=True)
