"""A cluster for each test, on each back end; nothing of it is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.cluster import Cluster


@pytest.fixture
def cluster(database_url: str, tmp_path: Path) -> Iterator[Cluster]:
    yield from _cluster(database_url, tmp_path)


@pytest.fixture
def sqlite_cluster(sqlite_url: str, tmp_path: Path) -> Iterator[Cluster]:
    """For what is about this back end only."""
    yield from _cluster(sqlite_url, tmp_path)


def _cluster(url: str, folder: Path) -> Iterator[Cluster]:
    cluster = Cluster(url, folder)
    try:
        yield cluster
    finally:
        cluster.close()
