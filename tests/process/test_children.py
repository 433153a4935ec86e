"""Workers whose jobs run in child processes: whatever becomes of the worker, no process is left behind."""

from __future__ import annotations

from pathlib import Path
from signal import SIGTERM

import pytest

from tests.process.cluster import Cluster
from tests.process.heavy_program import ask, hold

PROGRAM = "tests.process.heavy_program:app"


def told(cluster: Cluster) -> list[str]:
    file = cluster.folder / "told"
    return file.read_text().splitlines() if file.exists() else []


def begun(cluster: Cluster) -> list[int]:
    """Wait until the job runs: its process, and the one that it has started."""
    cluster.until(lambda: any(line.startswith("begun") for line in told(cluster)), "the job has begun")
    return [int(pid) for pid in told(cluster)[-1].partition(":")[2].split(",")]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.contract("QUE-9")
def test_the_children_of_a_killed_worker_notice_it_and_end(steady_sqlite_cluster: Cluster) -> None:
    cluster = steady_sqlite_cluster
    worker = cluster.started(program=PROGRAM)
    (job,) = cluster.enqueue(hold)
    pids = begun(cluster)
    assert all(map(is_alive, pids))
    cluster.until(lambda: cluster.job(job).progress == 0.5, "its progress is shown")
    assert cluster.job(job).progress_note == "half-way"
    cluster.until(lambda: cluster.job(job).details == {"page": 7}, "its details are kept")
    assert f"INFO    heavy: hello from the child [job {job} task=hold]" in worker.said
    worker.process.kill()
    cluster.until(lambda: not any(map(is_alive, pids)), "they are gone")
    assert len(told(cluster)) == 1, "there was no time to tidy up"


@pytest.mark.contract("QUE-9", "HOOK-7")
def test_a_job_in_a_child_that_outlasts_the_drain_is_given_back(steady_sqlite_cluster: Cluster) -> None:
    cluster = steady_sqlite_cluster
    worker = cluster.started("--drain-timeout", "200ms", "--processes", "1", program=PROGRAM)
    (job,) = cluster.enqueue(hold)
    pids = begun(cluster)
    worker.send(SIGTERM)
    assert worker.ends() == 0, worker.said
    assert not any(map(is_alive, pids))
    row = cluster.job(job)
    assert (row.state, row.retry_count, row.crashes) == ("queued", 0, 0)
    (attempt,) = cluster.app.wait(cluster.app.jobs.attempts(job))
    assert attempt.details == {"page": 7}
    assert attempt.outcome == "shutdown"


def test_a_job_in_a_child_is_followed_by_others(steady_sqlite_cluster: Cluster) -> None:
    cluster = steady_sqlite_cluster
    cluster.started("--processes", "1", program=PROGRAM)
    (job,) = cluster.enqueue(ask)
    cluster.until(lambda: cluster.job(job).state == "succeeded", "it has succeeded")
    (follower,) = cluster.app.wait(cluster.app.jobs.list(task="note"))
    assert (follower.state, follower.args) == ("scheduled", {"text": "from a child"})
    assert follower.created_at == cluster.job(job).finished_at
