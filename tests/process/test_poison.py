"""A job that kills every process that runs it."""

from __future__ import annotations

import pytest

from oncue.policy.lifecycle import POISON
from tests.process.cluster import Cluster
from tests.process.program import fatal, plain_step, step


@pytest.mark.contract("QUE-9")
def test_a_job_that_kills_its_process_is_found_and_the_bystanders_pass(sqlite_cluster: Cluster) -> None:
    cluster = sqlite_cluster
    bystanders = cluster.enqueue(step, 0.3, times=3) + cluster.enqueue(plain_step, 0.3, times=3)
    (guilty,) = cluster.enqueue(fatal)
    for _ in range(POISON):
        worker = cluster.start()
        bystanders += cluster.enqueue(step, 0.3)
        cluster.died(worker)
    survivor = cluster.start()
    cluster.until_done()
    poisonous = cluster.job(guilty)
    assert (poisonous.state, poisonous.reason, poisonous.crashes) == ("failed", "poison", POISON)
    assert poisonous.error == "its process died under it 3 times"
    assert [mark.attempt for mark in cluster.marks if mark.job == guilty] == [1, 2, 3]
    passed = cluster.rows(bystanders)
    assert {job.state for job in passed} == {"succeeded"}
    assert max(job.crashes for job in passed) in (1, 2)
    cluster.stop(survivor)
    cluster.verify()
