"""PostgreSQL goes away under load, and comes back."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncue.store import PostgresStore
from tests import postgres
from tests.process.cluster import Cluster
from tests.process.conftest import clustered
from tests.process.program import plain_step, step


@pytest.fixture(scope="module")
def own_server() -> Iterator[postgres.Server]:
    """A server that nobody else uses, so that it may be restarted."""
    server = postgres.start(os.getpid())
    yield server
    server.control("stop", "-m", "immediate")


@pytest.fixture
def own_cluster(own_server: postgres.Server, runner: asyncio.Runner, tmp_path: Path) -> Iterator[Cluster]:
    runner.run(_migrate(own_server.url()))
    with clustered(own_server.url(), tmp_path) as cluster:
        yield cluster


async def _migrate(url: str) -> None:
    store = PostgresStore(url)
    await store.migrate()
    await store.close()


@pytest.mark.contract("HOOK-12", "QUE-9")
def test_workers_outlive_restarts_of_the_database(own_server: postgres.Server, own_cluster: Cluster) -> None:
    cluster = own_cluster
    workers = [cluster.start(), cluster.start()]
    cluster.ready(*workers)
    with cluster.load(step, plain_step) as load:
        for _ in range(3):
            for worker in workers:
                cluster.until_busy(worker)
            own_server.control("restart", "-m", "immediate")
            more = len(load.ids) + 50
            cluster.until(lambda more=more: len(load.ids) > more, "it is enqueued again")  # type: ignore[misc]
            cluster.until_done(load.ids[: more - 50])
    cluster.until_done()
    assert {job.state for job in cluster.jobs()} == {"succeeded"}
    assert {job.retry_count for job in cluster.jobs()} == {0}
    for worker in workers:
        assert "PostgreSQL does not answer" in worker.said
        assert "Traceback" not in worker.said
    cluster.stop(*workers)
    cluster.verify()
