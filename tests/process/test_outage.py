"""PostgreSQL goes away under load, and comes back."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from subprocess import CalledProcessError

import asyncpg
import pytest

from oncue.store import PostgresStore
from tests import postgres
from tests.process.cluster import Cluster, Process, until
from tests.process.conftest import clustered
from tests.process.program import hold, once, plain_hold, plain_step, step

_numbers = count(1)


@pytest.fixture(scope="module")
def own_server() -> Iterator[postgres.Server]:
    """A server that nobody else uses, so that it may be restarted."""
    server = postgres.start(os.getpid())
    yield server
    with suppress(CalledProcessError):  # a test that failed may have stopped it
        server.control("stop", "-m", "immediate")


@pytest.fixture
def own_cluster(own_server: postgres.Server, runner: asyncio.Runner, tmp_path: Path) -> Iterator[Cluster]:
    name = f"own_{next(_numbers)}"
    runner.run(_make_database(own_server, name))
    with clustered(own_server.url(name), tmp_path) as cluster:
        yield cluster


async def _make_database(server: postgres.Server, name: str) -> None:
    connection = await asyncpg.connect(server.url())
    await connection.execute(f"create database {name}")
    await connection.close()
    store = PostgresStore(server.url(name))
    await store.migrate()
    await store.close()


@pytest.mark.contract("HOOK-12", "QUE-9")
def test_workers_outlive_restarts_of_the_database(own_server: postgres.Server, own_cluster: Cluster) -> None:
    cluster = own_cluster
    workers = [cluster.start(), cluster.start()]
    cluster.ready(*workers)
    with cluster.load(step, plain_step, once) as load:
        for _ in range(3):
            for worker in workers:
                cluster.until_busy(worker)
            own_server.control("restart", "-m", "immediate")
            cluster.until_done(list(load.ids))  # those so far: there are ever more of them
    finish(cluster, workers)


@pytest.mark.contract("HOOK-12", "QUE-9")
def test_workers_outlive_an_outage_longer_than_their_leases(own_server: postgres.Server, own_cluster: Cluster) -> None:
    cluster = own_cluster
    workers = [cluster.start(), cluster.start()]
    cluster.ready(*workers)
    held = cluster.enqueue(hold, "gate", times=2) + cluster.enqueue(plain_hold, "gate", times=2)
    with cluster.load(step, plain_step, once):
        cluster.until(
            lambda: sum(job in held for worker in workers for job, _ in worker.in_the_middle) == 4, "they run"
        )
        own_server.control("stop", "-m", "immediate")
        until(lambda: all("all its jobs are stopped" in worker.said for worker in workers), "the jobs are stopped")
        until(
            lambda: not any(job in held for worker in workers for job, _ in worker.in_the_middle), "no handler goes on"
        )
        own_server.control("start")
    cluster.open("gate")
    finish(cluster, workers)
    assert not any("by polling" in worker.said for worker in workers), "the outage is told by the database's line"
    assert {job.crashes for job in cluster.jobs()} == {0}, "an outage was taken for a crash"


def finish(cluster: Cluster, workers: Sequence[Process]) -> None:
    """The same workers go on by themselves until everything is done, once."""
    cluster.until_done()
    for worker in workers:
        assert "PostgreSQL does not answer" in worker.said
        assert "Traceback" not in worker.said
    cluster.stop(*workers)
    states = {(job.state, job.retry_count) for job in cluster.jobs() if job.task != once.name}
    assert states == {("succeeded", 0)}
    cluster.verify()
