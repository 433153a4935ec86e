"""A cluster for each test, on each back end; nothing of it is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.process.cluster import Cluster


@pytest.fixture
def cluster(database_url: str, tmp_path: Path) -> Iterator[Cluster]:
    with clustered(database_url, tmp_path) as cluster:
        yield cluster


@pytest.fixture
def sqlite_cluster(sqlite_url: str, tmp_path: Path) -> Iterator[Cluster]:
    """For what is about this back end only."""
    with clustered(sqlite_url, tmp_path) as cluster:
        yield cluster


@contextmanager
def clustered(url: str, folder: Path) -> Iterator[Cluster]:
    cluster = Cluster(url, folder)
    try:
        yield cluster
    finally:
        cluster.close()
