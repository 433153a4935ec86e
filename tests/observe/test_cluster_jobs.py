"""What Prometheus makes of cluster jobs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncue import Node, NodeResult, Oncue
from oncue.observe.labels import MOST, OTHER
from oncue.observe.prometheus import PrometheusMetrics
from oncue.telemetry import Telemetry

PATIENCE = 60.0


@pytest.mark.contract("CLUS-15")
def test_what_the_leader_decides_is_counted() -> None:
    telemetry = Telemetry()
    metrics = PrometheusMetrics(telemetry)
    value = metrics.registry.get_sample_value
    metrics.expect([("compact", "cluster"), ("send", "default")])
    assert value("oncue_cluster_jobs_total", {"task": "compact", "outcome": "failed"}) == 0, "a failure is a rise"
    assert value("oncue_cluster_jobs_total", {"task": "send", "outcome": "failed"}) is None
    telemetry.emit("cluster.spread", {"parts": 3}, task="compact", job_id=1)
    decisions: list[tuple[str, bool, float, int]] = [
        ("decided", True, 0.2, 0), ("decided", False, 10.0, 2), ("succeeded", True, 0.4, 0),
        ("succeeded", False, 10.0, 1), ("failed", False, 1.0, 0), ("skipped", False, 1.0, 0),
    ]  # fmt: skip
    for what, quorum, duration, lost in decisions:
        told: dict[str, float] = {"duration": duration, "lost": lost}
        telemetry.emit("cluster.decided", told, task="compact", job_id=1, what=what, quorum=quorum)
    task = {"task": "compact"}
    assert value("oncue_cluster_parts_total", task) == 3
    assert value("oncue_cluster_parts_lost_total", task) == 3
    found = {
        outcome: value("oncue_cluster_jobs_total", {**task, "outcome": outcome})
        for outcome in ("completed", "failed", "cancelled", "skipped")
    }
    assert found == {"completed": 2, "failed": 1, "cancelled": 0, "skipped": 1}, "two wait for the leader action"
    assert value("oncue_cluster_decisions_total", {**task, "quorum": "yes"}) == 2
    assert value("oncue_cluster_decisions_total", {**task, "quorum": "no"}) == 2
    assert value("oncue_cluster_quorum_seconds_count", task) == 2
    assert value("oncue_cluster_quorum_seconds_sum", task) == pytest.approx(0.6)
    assert value("oncue_cluster_quorum_seconds_bucket", {**task, "le": "0.25"}) == 1


def test_tasks_over_the_limit_share_a_label() -> None:
    telemetry = Telemetry()
    value = PrometheusMetrics(telemetry).registry.get_sample_value
    for number in range(MOST + 2):
        telemetry.emit("cluster.spread", {"parts": 1}, task=f"task-{number}", job_id=number)
    assert value("oncue_cluster_parts_total", {"task": OTHER}) == 2


@pytest.mark.contract("CLUS-15")
async def test_a_node_counts_the_ends_of_its_leader_actions(database_url: str) -> None:
    app = Oncue(database_url, name="a")
    metrics = PrometheusMetrics(app.internals.telemetry)

    @app.cluster_task
    async def compact(node: Node) -> None: ...

    @compact.leader_action
    def publish(results: list[NodeResult]) -> None: ...

    @app.cluster_task(leader_only=True, max_retries=0)
    async def rotate(node: Node) -> None:
        raise ValueError("no key")

    @app.cluster_task
    async def bare(node: Node) -> None: ...

    def ended(task: str, outcome: str) -> float:
        labels = {"task": task, "outcome": outcome}
        return metrics.registry.get_sample_value("oncue_cluster_jobs_total", labels) or 0.0

    wanted: list[tuple[Any, str]] = [(compact, "completed"), (rotate, "failed"), (bare, "completed")]
    try:
        async with app.worker() as node, asyncio.timeout(PATIENCE):
            while node.leadership.epoch is None:  # noqa: ASYNC110 its lease is asked for in a thread
                await asyncio.sleep(0.01)
            for task, outcome in wanted:
                await app.cluster.run(task)
                while not ended(task.name, outcome):  # noqa: ASYNC110 telemetry wakes nobody
                    await asyncio.sleep(0.01)
    finally:
        await app.aclose()
    assert [ended(task.name, outcome) for task, outcome in wanted] == [1, 1, 1]
    assert metrics.registry.get_sample_value("oncue_cluster_parts_total", {"task": "compact"}) == 1
