"""Daily windows under kills, stops and restarts: every user's day is decided by its cutoff, and once.

The windows of these users are as long as a test needs them: their rows are written with a cutoff a few seconds ahead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from signal import SIGCONT, SIGTERM

import psycopg
import pytest

from tests import postgres
from tests.process.cluster import Cluster, Process
from tests.process.conftest import LONG_LEASE, clustered
from tests.process.days import PROGRAM, enrol, marks, subjects
from tests.process.test_outage import own_cluster, own_server

__all__ = ["own_cluster", "own_server"]


def started(cluster: Cluster, *options: str) -> Process:
    return cluster.started(*options, program=PROGRAM)


def running(worker: Process) -> set[str]:
    """The users whose handlers have begun in a process and not ended."""
    path = worker.folder / f"{worker.name}.days"
    lines = [line.split() for line in path.read_text("ascii").splitlines()] if path.exists() else []
    return {user for told, user, _ in lines if told == "start"} - {user for told, user, _ in lines if told == "end"}


def until_decided(cluster: Cluster, *windows: str) -> None:
    """Wait until every user's day is decided, and what its cutoff led to is done."""

    def is_decided() -> bool:
        return all(one.last_date is not None for window in windows or ("digest",) for one in subjects(cluster, window))

    cluster.until(is_decided, "every user's day is decided")
    cluster.until_done()


def names(kind: str, count: int) -> list[str]:
    return [f"{kind}-{number}" for number in range(count)]


def verify(cluster: Cluster, wanted: dict[str, str], window: str = "digest") -> None:
    """Each day is decided once, as it had to be: the users' rows, the ledger, the jobs, the counts and the handlers
    tell the same. `wanted`: what becomes of each kind of user."""
    found = subjects(cluster, window)
    for one in found:
        assert one.status == wanted[one.name.partition("-")[0]], one
        assert one.last_date == one.since.date() or one.last_date == one.since.date() + timedelta(days=1), one
        assert one.status == "success" or one.day > one.last_date, "from the cutoff on it is about the next day"
        assert (one.last_run_at is not None) == (one.status == "success"), one
        ledger = cluster.app.wait(cluster.app.windows.ledger(window, one.name))
        assert [slot.verdict for slot in ledger] == ["fired"], ledger
    jobs = [job for job in cluster.jobs() if job.task == window]
    assert Counter(job.subject for job in jobs) == Counter(one.name for one in found), "one job for each day"
    states = {job.subject: (job.state, job.reason) for job in jobs}
    ends = {"success": ("succeeded", None), "cutoff_reached": ("skipped", "cutoff_reached")}
    assert states == {one.name: ends[one.status or ""] for one in found}
    missed = Counter(one.name for one in found if one.status == "cutoff_reached")
    resets = Counter(job.args["user"] for job in cluster.jobs() if job.task == "reset")
    assert resets == missed, "one job for each cutoff"
    assert marks(cluster.folder, "reset") == missed, "which ran once"
    days = {one.last_date for one in found}
    counted = [row for day in days for row in cluster.app.wait(cluster.app.windows.day(window, day))]
    totals = Counter[str]()
    for row in counted:
        totals[row.event] += row.subjects
    assert totals == Counter(one.status for one in found) + Counter({"opened": len(found)})


@pytest.mark.contract("WIN-1", "WIN-2", "WIN-5", "WIN-6", "WIN-13")
def test_nodes_and_leaders_that_are_killed_in_the_window_cost_no_user_the_day(cluster: Cluster) -> None:
    workers = [started(cluster), started(cluster)]
    leader, lease = cluster.led()
    users = names("held", 12) + names("quick", 6)
    enrol(cluster, users)
    cluster.until(lambda: all(running(worker) for worker in workers), "both are in the middle of attempts")
    other = next(worker for worker in workers if worker is not leader)
    cluster.kill(other)
    third = started(cluster)
    enrol(cluster, names("never", 4), seconds=3.0)
    cluster.until(lambda: len(marks(cluster.folder, "start")) > len(users), "the last ones run as well")
    cluster.kill(leader)  # the cutoff is the next leader's
    started(cluster)
    cluster.led(lease.epoch)
    cluster.open("held")
    until_decided(cluster)
    assert third.process.poll() is None
    verify(cluster, {"held": "success", "quick": "success", "never": "cutoff_reached"})


@pytest.mark.contract("WIN-6", "WIN-12", "WIN-13")
def test_a_leader_that_stood_still_across_a_cutoff_has_its_late_successes_refused(cluster: Cluster) -> None:
    leader = started(cluster, "--concurrency", "4")
    _, lease = cluster.led()
    other = started(cluster, "--concurrency", "4")
    enrol(cluster, names("late", 8), seconds=4.0, window="plain_digest")
    cluster.until(lambda: running(leader) and running(other), "both are in the middle of attempts")
    ran = running(leader)
    cluster.freeze(leader)
    cluster.led(lease.epoch)
    cluster.until(
        lambda: all(one.status for one in subjects(cluster, "plain_digest")), "the next leader decides the days"
    )
    cluster.open("late")
    leader.send(SIGCONT)
    cluster.until(lambda: ran <= marks(cluster.folder, "end").keys(), "its handlers end after all")
    cluster.until_beats(leader, 2)
    until_decided(cluster, "plain_digest")
    verify(cluster, {"late": "cutoff_reached"}, "plain_digest")


@pytest.mark.contract("WIN-6", "WIN-12", "WIN-13")
def test_a_process_that_slept_through_a_cutoff_with_its_lease_does_not_count_what_ends_then(
    steady_cluster: Cluster,
) -> None:
    """A planner and a settler wake up together, in one process that never lost its lease."""
    cluster = steady_cluster
    worker = started(cluster)
    cluster.led()
    enrol(cluster, names("late", 6), seconds=2.0, window="plain_digest")
    cutoff_at = max(one.cutoff_at for one in subjects(cluster, "plain_digest"))
    cluster.until(lambda: len(running(worker)) == 6, "they run")
    cluster.freeze(worker)
    cluster.open("late")
    cluster.until(lambda: cluster.time() > cutoff_at, "the cutoff passes")
    worker.send(SIGCONT)
    until_decided(cluster, "plain_digest")
    verify(cluster, {"late": "cutoff_reached"}, "plain_digest")


@pytest.mark.contract("WIN-2", "WIN-5", "WIN-6")
def test_a_worker_that_is_stopped_in_the_window_leaves_its_users_to_the_next_one(steady_cluster: Cluster) -> None:
    cluster = steady_cluster
    worker = started(cluster, "--drain-timeout", "500ms")
    cluster.led()
    enrol(cluster, names("held", 6) + names("quick", 4))
    cluster.until(lambda: len(running(worker)) == 6 and len(marks(cluster.folder, "end")) == 4, "six are left")
    worker.send(SIGTERM)
    assert worker.ends() == 0, worker.said
    left = [job for job in cluster.jobs() if job.state != "succeeded"]
    assert {(job.state, job.retry_count, job.crashes) for job in left} == {("queued", 0, 0)}
    cluster.open("held")
    started(cluster)
    until_decided(cluster)
    verify(cluster, {"held": "success", "quick": "success"})


@pytest.mark.contract("WIN-2", "WIN-6", "WIN-14")
def test_a_database_that_goes_away_in_the_window_costs_no_user_the_day(
    own_server: postgres.Server, own_cluster: Cluster
) -> None:
    cluster = own_cluster
    worker = started(cluster)
    cluster.led()
    enrol(cluster, names("held", 4) + names("quick", 20))
    enrol(cluster, names("never", 3), seconds=3.0)
    cluster.until(lambda: marks(cluster.folder, "start")["held-0"], "they run")
    own_server.control("restart", "-m", "immediate")
    cluster.open("held")
    until_decided(cluster)
    assert "Traceback" not in worker.said
    verify(cluster, {"held": "success", "quick": "success", "never": "cutoff_reached"})


# --- rows that another session holds ----------------------------------------------------------------------------------


@contextmanager
def held(cluster: Cluster, statement: str) -> Iterator[None]:
    """A session that looks at these rows `for update`, and does not go on."""
    with psycopg.connect(cluster.url) as connection:
        assert connection.execute(statement).fetchall()
        yield


@pytest.fixture
def locking_cluster(postgres_url: str, tmp_path: Path) -> Iterator[Cluster]:
    with clustered(postgres_url, tmp_path) as cluster:
        cluster.lease_seconds = LONG_LEASE
        yield cluster


@pytest.mark.contract("WIN-4", "WIN-6")
def test_a_subject_or_a_job_that_another_session_holds_keeps_no_other_user_waiting(locking_cluster: Cluster) -> None:
    cluster = locking_cluster
    started(cluster, "--concurrency", "20")
    cluster.led()
    enrol(cluster, names("never", 6), seconds=2.0)
    enrol(cluster, names("held", 6))
    cluster.until(lambda: len(marks(cluster.folder, "start")) == 12, "they run")

    def undecided() -> set[str]:
        return {one.name for one in subjects(cluster) if one.status is None}

    rows = "select 1 from oncue_subjects where name in ('never-0', 'held-0', 'held-5') for update"
    jobs = "select 1 from oncue_jobs where subject in ('never-5') for update"
    with held(cluster, rows), held(cluster, jobs):
        cluster.until(lambda: undecided() == {*names("held", 6), "never-0", "never-5"}, "the others are closed")
        cluster.open("held")
        cluster.until(lambda: undecided() == {"held-0", "held-5", "never-0", "never-5"}, "the others succeed")
        enrol(cluster, ["quick-0"])
        cluster.until(lambda: "quick-0" not in undecided(), "days are opened and settled meanwhile")
    until_decided(cluster)
    verify(cluster, {"held": "success", "never": "cutoff_reached", "quick": "success"})
