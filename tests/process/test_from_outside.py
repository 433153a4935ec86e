"""What another process does reaches a worker at once, however seldom it looks by itself."""

from __future__ import annotations

import time

import pytest

from tests.process.cluster import Cluster
from tests.process.program import hold, plain_hold, step

POLL = "300s"
SOON = 5.0


@pytest.mark.contract("QUE-18")
def test_a_job_of_another_process_is_noticed_at_once(cluster: Cluster) -> None:
    worker = cluster.started(ONCUE_POLL_INTERVAL=POLL)
    for _ in range(5):
        time.sleep(0.2)  # long enough for the worker to be idle again
        cluster.until_done(cluster.enqueue(step), seconds=SOON)
    waits = [(job.started_at - job.created_at).total_seconds() for job in cluster.jobs() if job.started_at is not None]
    assert min(waits) < 0.5
    delayed = cluster.enqueue(step.using(delay="300ms"))
    cluster.until_done(delayed, seconds=SOON)
    cluster.stop(worker)
    cluster.verify(complete=True)


@pytest.mark.contract("QUE-8")
def test_a_running_job_is_cancelled_from_another_process(cluster: Cluster) -> None:
    worker = cluster.started(ONCUE_POLL_INTERVAL=POLL)
    ids = cluster.enqueue(hold, "never") + cluster.enqueue(plain_hold, "never")
    bystander = cluster.enqueue(hold, "gate")
    cluster.until_running(worker, [*ids, *bystander])
    for job_id in ids:
        assert cluster.app.wait(cluster.app.cancel(job_id)).cancel_requested_at is not None
    cluster.until_done(ids, SOON)
    assert {job.state for job in cluster.rows(ids)} == {"cancelled"}
    assert [mark.job for mark in sorted(cluster.marks) if mark.what == "cut"] == ids
    assert cluster.job(*bystander).state == "running"
    cluster.open("gate")
    cluster.until_done()
    assert cluster.job(*bystander).state == "succeeded"
    cluster.stop(worker)
    cluster.verify(complete=True)


@pytest.mark.contract("QUE-18")
def test_a_queue_is_paused_and_resumed_from_another_process(cluster: Cluster) -> None:
    app = cluster.app
    worker = cluster.started("--queues", "mail,default", ONCUE_POLL_INTERVAL=POLL)
    running = cluster.enqueue(hold.using(queue="mail"), "gate")
    cluster.until_running(worker, running)
    app.wait(app.pause("mail"))
    waiting = cluster.enqueue(step.using(queue="mail", priority=100), times=3)
    passing = cluster.enqueue(step, times=3)
    cluster.until_done(passing, SOON)
    cluster.open("gate")
    cluster.until_done(running, SOON)  # what ran goes on
    assert [(job.state, job.claim_no) for job in cluster.rows(waiting)] == [("queued", 0)] * 3
    app.wait(app.resume("mail"))
    cluster.until_done(waiting, SOON)
    cluster.stop(worker)
    cluster.verify(complete=True)
