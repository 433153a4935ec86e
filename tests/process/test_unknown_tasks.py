"""Two releases of a program side by side: the older one does not know every task."""

from __future__ import annotations

from typing import Any

import pytest

from oncue import Task
from tests.process.cluster import Cluster
from tests.process.program import app, step


@pytest.fixture
def novelty(monkeypatch: pytest.MonkeyPatch) -> Task[..., Any]:
    """The new task, as whoever enqueues it knows it."""
    monkeypatch.setattr(app.internals, "tasks", dict(app.tasks))
    from tests.process import newer

    return newer.novelty


@pytest.mark.contract("QUE-8")
def test_a_worker_leaves_alone_what_it_does_not_know(steady_cluster: Cluster, novelty: Task[..., Any]) -> None:
    cluster = steady_cluster
    older = cluster.started()
    (unknown,) = cluster.enqueue(novelty.using(priority=100))
    known = cluster.enqueue(step, times=20)
    cluster.until_done(known)
    left = cluster.job(unknown)
    assert (left.state, left.claim_no) == ("queued", 0)
    newer = cluster.started(program="tests.process.newer:app")
    cluster.until_done([unknown])
    assert [mark.worker for mark in cluster.marks if mark.job == unknown and mark.what == "end"] == [newer.name]
    cluster.stop(older, newer)
    cluster.verify(complete=True)
