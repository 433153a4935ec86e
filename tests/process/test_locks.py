"""A row that is held in PostgreSQL keeps nothing waiting but itself: a process stands still, or somebody is in psql."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGTERM

import psycopg
import pytest

from tests.process.cluster import Cluster
from tests.process.conftest import LONG_LEASE, clustered
from tests.process.program import hold, once, plain_step, step

MEDDLER = "tests.process.meddler"


@pytest.fixture
def cluster(postgres_url: str, tmp_path: Path) -> Iterator[Cluster]:
    with clustered(postgres_url, tmp_path) as cluster:
        cluster.lease_seconds = LONG_LEASE
        yield cluster


@contextmanager
def held(cluster: Cluster, statement: str) -> Iterator[None]:
    """Somebody in another session has looked at these rows `for update`, and went for a coffee."""
    with psycopg.connect(cluster.url) as connection:
        assert connection.execute(statement).fetchall()
        yield


def slots(cluster: Cluster, name: str) -> int:
    """How many slots of a schedule were decided so far."""
    schedule = cluster.ask(lambda store: store.schedules.get(name))
    assert schedule is not None
    return len(cluster.ask(lambda store: store.slots.latest(schedule.id, 1000)))


@pytest.mark.contract("SLOT-5")
def test_a_web_process_that_stands_still_in_the_middle_of_an_edit_stops_no_schedule(cluster: Cluster) -> None:
    cluster.schedule(step)
    cluster.schedule(plain_step)
    cluster.started()
    cluster.led()
    meddler = cluster.run(MEDDLER, "edit", "step", 'update "public".oncue_schedules')
    cluster.until(meddler.process.is_stopped, "it stands still")
    before = {name: slots(cluster, name) for name in ("step", "plain_step")}
    cluster.until(lambda: all(slots(cluster, name) > before[name] + 1 for name in before), "both fire on")


@pytest.mark.contract("QUE-9")
def test_a_web_process_that_stands_still_in_the_middle_of_a_change_of_one_job_keeps_no_other_running(
    cluster: Cluster,
) -> None:
    worker = cluster.started()
    jobs = cluster.enqueue(hold, "gate", times=8)
    cluster.until_running(worker, jobs)
    meddler = cluster.run(MEDDLER, "prioritize", str(jobs[3]), "set priority")
    cluster.until(meddler.process.is_stopped, "it stands still")
    cluster.open("gate")
    cluster.until_done(jobs)
    assert {(job.state, job.attempt) for job in cluster.rows(jobs)} == {("succeeded", 1)}


@pytest.mark.contract("HOOK-7")
def test_a_job_that_is_held_in_psql_costs_no_other_its_outcome_when_its_worker_is_stopped(cluster: Cluster) -> None:
    worker = cluster.started("--concurrency", "8", "--drain-timeout", "50s")
    jobs = cluster.enqueue(once, 0.2, times=4) + cluster.enqueue(step, 0.2, times=4)
    cluster.until_running(worker, jobs[:1])
    with held(cluster, f"select id from oncue_jobs where id = {jobs[0]} for update"):
        worker.send(SIGTERM)
        cluster.until_done(jobs[1:])
        cluster.until(lambda: "the outcome is kept for later" in worker.said, "it says so")
        assert cluster.job(jobs[0]).state == "running"
        assert cluster.node(worker) is not None, "it keeps its lease for what it could not write"
    assert worker.ends() == 0, worker.said
    assert {(job.state, job.attempt) for job in cluster.rows(jobs)} == {("succeeded", 1)}
    assert cluster.app.wait(cluster.app.nodes.list()) == []


@pytest.mark.contract("SLOT-5")
def test_a_schedule_that_is_held_in_psql_keeps_no_other_from_firing(cluster: Cluster) -> None:
    cluster.schedule(step)
    cluster.schedule(plain_step)
    cluster.started()
    cluster.until(lambda: slots(cluster, "step") > 0, "it fires")
    with held(cluster, "select id from oncue_schedules where name = 'step' for update"):
        before = {name: slots(cluster, name) for name in ("step", "plain_step")}
        cluster.until(lambda: slots(cluster, "plain_step") > before["plain_step"] + 2, "the other fires on")
        assert slots(cluster, "step") <= before["step"] + 1, "one that was decided already"
        before = {name: slots(cluster, name) for name in before}
    cluster.until(lambda: slots(cluster, "step") > before["step"], "it fires again")
