"""A job that kills every process that runs it, and the innocent ones that die with it."""

from __future__ import annotations

import pytest

from oncue.policy.options import DEFAULTS
from tests.process.cluster import Cluster
from tests.process.program import fatal, hold, step

MOST = DEFAULTS.max_crashes or 0
SUPERVISED = ("--name", "supervised")


@pytest.mark.contract("QUE-9")
def test_a_job_that_kills_its_process_is_found_and_no_innocent_of_a_thousand_fails(cluster: Cluster) -> None:
    """Its worker is started again and again, as by a supervisor."""
    innocents = cluster.enqueue(step, 0.01, times=1000)
    (guilty,) = cluster.enqueue(fatal)
    for _ in range(MOST):
        worker = cluster.start(*SUPERVISED)
        cluster.died(worker)
        cluster.history.add(worker.name, "lease.end", by="the next one, which sees that it is gone")
    survivor = cluster.start(*SUPERVISED)
    cluster.until_done()
    poisonous = cluster.job(guilty)
    assert (poisonous.state, poisonous.reason, poisonous.crashes) == ("failed", "poison", MOST)
    assert poisonous.error == "its process died under it 5 times, the last 2 while it ran alone"
    assert [mark.attempt for mark in cluster.marks if mark.job == guilty] == list(range(1, MOST + 1))
    assert {(job.state, job.reason) for job in cluster.jobs() if job.id in set(innocents)} == {("succeeded", None)}
    cluster.stop(survivor)
    cluster.verify()


@pytest.mark.contract("QUE-9")
def test_what_a_killed_worker_held_runs_again_all_at_once(cluster: Cluster) -> None:
    """It ran one job at a time once."""
    victim = cluster.started("--concurrency", "64")
    jobs = cluster.enqueue(hold, "gate", times=64)
    cluster.until_running(victim, jobs)
    survivor = cluster.started("--concurrency", "64")
    cluster.kill(victim)
    cluster.until_running(survivor, jobs)
    cluster.open("gate")
    cluster.until_done(jobs)
    assert {(job.state, job.crashes, job.attempt) for job in cluster.jobs()} == {("succeeded", 1, 2)}
    cluster.stop(survivor)
    cluster.verify()
