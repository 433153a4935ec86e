"""A cluster for each test, on each back end; nothing of it is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.process.cluster import Cluster

LONG_LEASE = 60.0


@pytest.fixture
def cluster(database_url: str, tmp_path: Path) -> Iterator[Cluster]:
    with clustered(database_url, tmp_path) as cluster:
        yield cluster


@pytest.fixture
def sqlite_cluster(sqlite_url: str, tmp_path: Path) -> Iterator[Cluster]:
    """For what is about this back end only."""
    with clustered(sqlite_url, tmp_path) as cluster:
        yield cluster


@pytest.fixture
def steady_cluster(cluster: Cluster) -> Cluster:
    """For tests in which nobody is to be taken for dead, however long a busy machine keeps a worker from its beat."""
    cluster.lease_seconds = LONG_LEASE
    return cluster


@pytest.fixture
def steady_sqlite_cluster(sqlite_cluster: Cluster) -> Cluster:
    sqlite_cluster.lease_seconds = LONG_LEASE
    return sqlite_cluster


@contextmanager
def clustered(url: str, folder: Path) -> Iterator[Cluster]:
    cluster = Cluster(url, folder)
    try:
        yield cluster
    finally:
        cluster.close()
