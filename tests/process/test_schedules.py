"""Schedules on real processes: killed, frozen, stopped, misinformed about the time.

Whatever happens, three accounts must agree: the ledger, the jobs, and the marks that the runs themselves left behind.
Waiting is for facts in the database.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from oncue.model import Schedule, Slot
from oncue.store.contract import EXCLUSIVE
from tests.process.cluster import Cluster, Process
from tests.process.conftest import clustered
from tests.process.program import LEASE
from tests.process.schedule_program import DAY, brief, once, stuck, tick

APP = "tests.process.schedule_program:app"
CROWD = "tests.process.schedule_program:crowd"
SECOND = timedelta(seconds=1)
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
MEASUREMENTS = 5


class Run(NamedTuple):
    """What a run has left behind: when it began, and when it ended unless it was cut short."""

    task: str
    slot: datetime
    attempt: int
    worker: str
    began: datetime
    ended: datetime | None


def runs(cluster: Cluster, *workers: Process) -> list[Run]:
    """The runs that really took place, on these workers or on all, in their order."""
    names = {worker.name for worker in workers}
    paths = [path for path in cluster.folder.glob("*.runs") if not names or path.stem in names]
    return sorted((run for path in paths for run in _runs(path)), key=lambda run: run.began)


def _runs(path: Path) -> list[Run]:
    lines = [line.split() for line in path.read_text("ascii").splitlines()]
    ends = {(task, slot, attempt): _instant(at) for what, task, slot, attempt, at in lines if what == "end"}
    return [
        Run(
            task, datetime.fromisoformat(slot), int(attempt), path.stem, _instant(at), ends.get((task, slot, attempt))
        )
        for what, task, slot, attempt, at in lines
        if what == "start"
    ]  # fmt: skip


def _instant(told: str) -> datetime:
    return datetime.fromtimestamp(float(told), UTC)


def schedules(cluster: Cluster) -> list[Schedule]:
    return cluster.app.wait(cluster.app.schedules.list())


def ledger(cluster: Cluster, name: str) -> list[Slot]:
    """A schedule's rows, oldest slot first."""
    return cluster.app.wait(cluster.app.schedules.slots(name, LONG_AGO, cluster.time() + timedelta(days=2), 100_000))


def fired(cluster: Cluster, name: str) -> list[Slot]:
    return [slot for slot in ledger(cluster, name) if slot.verdict == "fired"]


def skipped(cluster: Cluster, name: str) -> list[Slot]:
    return [slot for slot in ledger(cluster, name) if slot.verdict == "skipped"]


def until_fired(cluster: Cluster, name: str, more: int = 1) -> None:
    """Wait until so many further slots have fired, and run to their end."""
    before = len(fired(cluster, name))
    cluster.until(
        lambda: sum(slot.finished_at is not None for slot in fired(cluster, name)[before:]) >= more,
        f"{more} more slots of {name} run",
    )


def verify(cluster: Cluster) -> int:
    """Every slot was decided once, and every run belongs to a slot that fired. How many slots were decided."""
    jobs = cluster.jobs()
    places = [(job.schedule_id, job.scheduled_for) for job in jobs if job.retry_of is None]
    rows = [row for schedule in schedules(cluster) for row in fired(cluster, schedule.name)]
    assert len(places) == len(set(places)) == len(rows), "a slot has another number of jobs than one"
    assert {(row.schedule_id, row.scheduled_for) for row in rows} == set(places)
    _verify_runs(cluster, places)
    return sum(_verify_schedule(cluster, schedule) for schedule in schedules(cluster))


def _verify_schedule(cluster: Cluster, schedule: Schedule) -> int:
    audit = cluster.app.wait(cluster.app.schedules.audit(schedule.name, schedule.created_at))
    assert audit.holds, audit.problems
    rows = ledger(cluster, schedule.name)
    assert [row for row in rows if row.decided_at < (row.until or row.scheduled_for)] == [], "decided too early"
    decided = sum(row.slots for row in rows)
    if schedule.expression == "* * * * * *":  # counted without any of oncue's own arithmetic
        cursor = cluster.app.wait(cluster.app.schedules.get(schedule.name)).cursor
        assert decided == int(cursor.timestamp()) - int(schedule.created_at.timestamp())
    return decided


def _verify_runs(cluster: Cluster, places: list[tuple[int | None, datetime | None]]) -> None:
    found = runs(cluster)
    names = {schedule.id: schedule for schedule in schedules(cluster)}
    slots = {(names[schedule_id].name, slot) for schedule_id, slot in places if schedule_id is not None}
    assert {(run.task, run.slot) for run in found} <= slots, "a run without a slot that fired"
    assert [run for run in found if run.began < run.slot] == [], "it ran too early"
    tries = Counter((run.task, run.slot, run.attempt) for run in found)
    assert [place for place, times in tries.items() if times > 1] == [], "an attempt began twice"
    at_most_once = {name.name for name in names.values() if '"at_most_once"' in name.options}
    begun = Counter((run.task, run.slot) for run in found if run.task in at_most_once)
    assert [place for place, times in begun.items() if times > 1] == [], "it ran more than once"
    ended = {(run.task, run.slot) for run in found if run.ended is not None}
    done = [job for job in cluster.jobs() if job.state == "succeeded" and job.schedule_id is not None]
    assert {(job.task, job.scheduled_for) for job in done} <= ended, "it succeeded without having run to its end"
    taken_away = {(job.task, job.scheduled_for) for job in cluster.jobs() if job.state == "skipped"}
    for schedule in names.values():
        counted = [run for run in found if run.task == schedule.name and (run.task, run.slot) not in taken_away]
        assert most_at_once(counted) <= schedule.max_instances


def most_at_once(found: list[Run]) -> int:
    """How many of these were under way at the same time. Of those that were cut short only the beginning is known."""
    edges = [(run.began, 1) for run in found] + [(run.ended or run.began, -1) for run in found]
    most = under_way = 0
    for _, change in sorted(edges):
        under_way += change
        most = max(most, under_way)
    return most


# --- killing ----------------------------------------------------------------------------------------------------------


@pytest.mark.contract("SLOT-3", "SLOT-5", "SLOT-16")
def test_eight_processes_and_kill_9_among_them(cluster: Cluster) -> None:
    """A new leader within the lease and a second of its death, and at once after a signal."""
    workers = [cluster.start(program=CROWD) for _ in range(8)]
    cluster.ready(*workers)

    def until_next(go: Callable[..., None], *gone: Process) -> float:
        """Seconds from a moment before the leader goes, and others with it, until the next one leads."""
        leader, lease = cluster.led()
        before = cluster.time()
        go(leader, *gone)
        workers[:] = [worker for worker in workers if worker not in (leader, *gone)]
        found = (cluster.led(lease.epoch)[1].acquired_at - before).total_seconds()
        if len(workers) < 4:
            workers.append(cluster.started(program=CROWD))
        return found

    def until_next_after_kill() -> float:
        leader, _ = cluster.led()
        until_fired(cluster, "each_second")
        others = [worker for worker in workers if worker is not leader]
        victim = next((worker for worker in others if in_the_middle(cluster, worker)), others[0])
        took = until_next(cluster.kill, victim)
        workers.append(cluster.start(program=CROWD))
        return took

    after_kill = least(until_next_after_kill, LEASE + 1)
    until_fired(cluster, "each_second")
    cluster.until(lambda: not orphans(cluster), "the dead hold nothing any more")
    cluster.ready(*workers)
    after_stop = least(lambda: until_next(cluster.stop), 0.9)
    print(f"the next leader {after_kill:.3f} s after kill -9, {after_stop:.3f} s after SIGTERM ({cluster.url[:8]})")
    assert after_kill <= LEASE + 1
    assert after_stop <= 0.9
    until_fired(cluster, "each_second")
    cluster.until(lambda: skipped(cluster, "longer_than_a_second"), "one run is in the way of the next")
    cluster.until(lambda: overlapping(fired(cluster, "two_at_once")), "one begins while another is under way")
    cluster.stop(*workers)
    assert {schedule.revision for schedule in schedules(cluster)} == {1}, "eight that declare the same change nothing"
    assert verify(cluster) >= 10
    assert fired(cluster, "longer_than_a_second")


def overlapping(rows: list[Slot]) -> bool:
    ends = [(row.decided_at, row.finished_at or row.decided_at) for row in rows]
    return any(began < ended for (_, ended), (began, _) in pairwise(ends))


def in_the_middle(cluster: Cluster, worker: Process) -> bool:
    return any(run.ended is None for run in runs(cluster, worker))


def orphans(cluster: Cluster) -> list[int]:
    """Jobs that run on a node that is not there."""
    alive = {node.id for node in cluster.app.wait(cluster.app.nodes.list())}
    return [job.id for job in cluster.jobs() if job.state == "running" and job.node_id not in alive]


def least(measure: Callable[[], float], enough: float) -> float:
    """The best of a few measurements, since a busy machine spoils some; as many as it takes to be good enough."""
    return next((found for _ in range(MEASUREMENTS - 1) if (found := measure()) <= enough), None) or measure()


@pytest.mark.contract("SLOT-10", "SLOT-16")
def test_after_downtime_the_next_worker_tells_what_became_of_the_slots(cluster: Cluster) -> None:
    cluster.schedule(tick)
    cluster.schedule(once, "*/2 * * * * *", missed="each")
    first = cluster.started(program=APP)
    cluster.until(lambda: runs(cluster, first), "it works")
    stopped_at = cluster.time()
    cluster.stop(first)
    gone_at = cluster.time()
    cluster.until(lambda: cluster.time() > gone_at + timedelta(seconds=LEASE), "some slots have come")
    assert cluster.lease() is None
    assert max(row.decided_at for name in (tick.name, once.name) for row in ledger(cluster, name)) < gone_at
    second = cluster.started(program=APP)
    cluster.until(lambda: "outage report: nobody led" in second.said, "the report")
    cluster.until(lambda: runs(cluster, second), "the next one works")
    cluster.stop(second)
    assert {run.worker for run in runs(cluster)} == {first.name, second.name}

    told = re.search(r"outage report: nobody led from (\S+) to (\S+) \(\S+\); (\d+) slots came due", second.said)
    assert told is not None, second.said
    since, until = datetime.fromisoformat(told[1]), datetime.fromisoformat(told[2])
    assert stopped_at - SECOND <= since <= gone_at, "from when the first one gave up the lead, in whole seconds"
    assert until >= since + timedelta(seconds=LEASE)
    meanwhile = [
        row
        for name in (tick.name, once.name)
        for row in ledger(cluster, name)
        if row.decided_at > gone_at and (row.until or row.scheduled_for) > since and row.scheduled_for <= until
    ]
    assert int(told[3]) == sum(row.slots for row in meanwhile)
    for row in meanwhile:
        told_of = [line for line in second.said.splitlines() if row.scheduled_for.isoformat() in line]
        assert any("outage report:  " in line and f": {row.verdict}" in line for line in told_of), (row, second.said)
    assert {row.verdict for row in meanwhile} >= {"coalesced", "fired"}
    assert "outage report" not in first.said
    verify(cluster)


# --- clocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.contract("SLOT-3", "SLOT-4", "SLOT-16")
def test_host_clocks_a_day_off_and_stepping(postgres_url: str, tmp_path: Path) -> None:
    ahead, behind = tmp_path / "ahead", tmp_path / "behind"
    ahead.write_text(f"{DAY}")
    behind.write_text(f"{-DAY}")
    with clustered(postgres_url, tmp_path) as cluster:
        cluster.schedule(tick)
        cluster.schedule(once, "@every 2s", missed="each")
        clocks, began = (str(ahead), str(behind), "steps"), cluster.time()
        workers = [cluster.start(program=APP, TEST_CLOCK=clock) for clock in clocks]
        cluster.ready(*workers)
        epoch = 0
        for _ in workers:  # each of them leads
            leader, lease = cluster.led(epoch)
            epoch = lease.epoch
            until_decided(cluster, tick.name, epoch)
            ahead.write_text(f"{DAY / 2}")  # it steps back, while its process runs
            cluster.stop(leader)
        now = cluster.time()
        assert [round((first_words_at(worker) - began) / timedelta(days=1)) for worker in workers[:2]] == [1, -1]
        rows = [row for name in (tick.name, once.name) for row in ledger(cluster, name)]
        assert len({row.decided_by for row in rows}) == len(workers)
        assert all(row.scheduled_for <= row.decided_at <= now for row in rows)
        assert all(row.scheduled_for <= row.started_at <= now for row in rows if row.started_at is not None)
        verify(cluster)


def until_decided(cluster: Cluster, name: str, epoch: int) -> None:
    """Wait until a slot was decided under an epoch."""
    cluster.until(lambda: any(row.epoch == epoch for row in ledger(cluster, name)), f"epoch {epoch} decides")


def first_words_at(worker: Process) -> datetime:
    """The time that a worker believed in when it began, as its log shows."""
    return datetime.fromisoformat(worker.said.split()[0])


@pytest.mark.contract("SLOT-3", "SLOT-4")
def test_a_clock_that_steps_back_fires_nothing_twice(sqlite_cluster: Cluster) -> None:
    cluster = sqlite_cluster
    clock = cluster.folder / "clock"
    clock.write_text("0")
    cluster.schedule(tick)
    cluster.schedule(once, missed="each")
    workers = [cluster.start(program=APP, TEST_CLOCK=str(clock)) for _ in range(2)]
    cluster.ready(*workers)
    until_fired(cluster, once.name)
    clock.write_text("-3600")
    cluster.until(lambda: all(asked(worker)[-1][1] == -3600 for worker in workers), "all have asked what time it is")
    noticed = max(asked(worker)[-1][0] for worker in workers)
    cluster.until(
        lambda: any(behind < SECOND / 10 for behind in begun_behind(cluster, once.name, noticed)),
        "a run begins at the right time: theirs has not fallen back",
    )
    seen = ledger(cluster, once.name)
    cluster.kill(*workers)
    clock.write_text("-7200")
    worker = cluster.started(program=APP, TEST_CLOCK=str(clock))
    until_fired(cluster, once.name)
    cluster.stop(worker)
    rows = ledger(cluster, once.name)
    assert [row.scheduled_for for row in rows[: len(seen)]] == [row.scheduled_for for row in seen]
    assert all(earlier.decided_at <= later.decided_at for earlier, later in pairwise(rows))
    verify(cluster)


def asked(worker: Process) -> list[tuple[datetime, float]]:
    """When a worker asked its host for the time, and by how much the answer was wrong."""
    lines = (worker.folder / f"{worker.name}.asked").read_text("ascii").splitlines()
    return [(_instant(at), float(off)) for at, off in (line.split() for line in lines)]


def with_starts(cluster: Cluster, name: str) -> list[tuple[Run, datetime]]:
    """The runs of a schedule with the instants at which their workers believed to begin them."""
    started = {row.scheduled_for: row.started_at for row in ledger(cluster, name)}
    return [(run, at) for run in runs(cluster) if run.task == name and (at := started.get(run.slot)) is not None]


def begun_behind(cluster: Cluster, name: str, since: datetime) -> list[timedelta]:
    """By how much the runs that began since then were behind the tests' clock, as their workers saw it."""
    return [run.began - started for run, started in with_starts(cluster, name) if run.began > since]


# --- recovery ---------------------------------------------------------------------------------------------------------


@pytest.mark.contract("SLOT-9")
def test_a_worker_that_is_restarted_ends_what_its_predecessor_left(cluster: Cluster) -> None:
    cluster.schedule(brief)
    first = cluster.started("--name", "brief", program=APP)
    cluster.until(lambda: runs(cluster, first), "it runs")
    cluster.kill(first)
    decided = ledger(cluster, brief.name)
    second = cluster.started("--name", "brief", program=APP)
    cluster.until(lambda: runs(cluster, second), "the next slot runs")

    (left, running) = (job for job in reversed(cluster.jobs()))
    assert (left.state, left.reason, left.error) == ("failed", "worker_startup_recovery", "worker_startup_recovery")
    assert left.finished_at is not None
    later = ledger(cluster, brief.name)[len(decided) :]
    assert later
    assert min(row.decided_at for row in later) >= left.finished_at
    assert re.search(r"startup recovery: 1 run of brief \(.*\), which is dead, was ended", second.said)

    # Another one under its name, while it lives, changes nothing.
    third = cluster.started("--name", "brief", program=APP)
    until_decided_after(cluster, brief.name, cluster.time())
    still = cluster.job(running.id)
    assert (still.state, still.claim_no, still.node_id) == ("running", running.claim_no, running.node_id)
    assert "startup recovery" not in third.said
    cluster.open("brief")
    cluster.until_done([running.id])
    cluster.stop(second, third)
    assert [job.id for job in cluster.jobs() if job.state != "succeeded"] == [left.id]
    verify(cluster)


def until_decided_after(cluster: Cluster, name: str, instant: datetime) -> None:
    cluster.until(lambda: ledger(cluster, name)[-1].decided_at > instant, f"slots of {name} are decided")


@pytest.mark.contract("SLOT-8")
def test_a_stuck_run_becomes_skipped_timeout_and_the_next_slot_runs(cluster: Cluster) -> None:
    """It stops its whole process, perhaps the leader: others must see to it."""
    workers = [cluster.start(program=APP) for _ in range(2)]
    cluster.ready(*workers)
    cluster.schedule(stuck)
    cluster.until(lambda: "succeeded" in [row.state for row in fired(cluster, stuck.name)[1:]], "a later slot runs")
    first, second, *_ = fired(cluster, stuck.name)
    assert (first.state, first.state_reason) == ("skipped", "skipped_timeout")
    assert first.finished_at is not None
    assert first.scheduled_for + SECOND <= first.finished_at <= second.decided_at
    assert runs(cluster)[0].ended is None
    cluster.open("stuck")
    cluster.until(lambda: runs(cluster)[0].ended, "it comes loose")
    cluster.until(lambda: "a late outcome was rejected" in cluster.logs, "nobody listens to it")
    cluster.stop(*workers)
    assert fired(cluster, stuck.name)[0] == first
    verify(cluster)


# --- exclusive workers ------------------------------------------------------------------------------------------------


@pytest.mark.contract("SLOT-2")
def test_one_exclusive_worker_at_a_time(cluster: Cluster) -> None:
    cluster.schedule(tick)
    first = cluster.started(program=APP, ONCUE_EXCLUSIVE="1")
    second = cluster.started(program=APP, ONCUE_EXCLUSIVE="1")
    stands_by(cluster, second, first)
    cluster.until(lambda: runs(cluster, first), "the first one works")
    assert cluster.led()[0] is first
    assert {run.worker for run in runs(cluster)} == {first.name}

    epoch = cluster.led()[1].epoch
    before = cluster.time()
    cluster.kill(first)
    after_kill = (holder(cluster, second) - before).total_seconds()
    third = cluster.started(program=APP)  # any other worker, not only one that wants to be exclusive
    stands_by(cluster, third, second)
    assert cluster.led(epoch)[0] is second
    cluster.until(lambda: runs(cluster, second), "the second one works")
    assert runs(cluster, third) == []

    epoch = cluster.led()[1].epoch
    before = cluster.time()
    cluster.stop(second)
    leader, lease = cluster.led(epoch)
    assert leader is third
    after_stop = (lease.acquired_at - before).total_seconds()
    print(f"the next worker {after_kill:.3f} s after kill -9, {after_stop:.3f} s after SIGTERM ({cluster.url[:8]})")
    cluster.until(lambda: runs(cluster, third), "the third one works")
    cluster.stop(third)
    verify(cluster)


def stands_by(cluster: Cluster, worker: Process, behind: Process) -> None:
    said = rf"{worker.name} stands by: {behind.name} \([-0-9a-f]+\) is the exclusive worker"
    cluster.until(lambda: re.search(said, worker.said), f"{worker.name} says that {behind.name} keeps it from working")


def holder(cluster: Cluster, worker: Process) -> datetime:
    """Wait until a worker is the exclusive one; since when it is."""

    def held() -> datetime | None:
        lease = cluster.lease(EXCLUSIVE)
        return lease.acquired_at if lease is not None and lease.holder_name == worker.name else None

    since = cluster.until(held, f"{worker.name} is the exclusive worker")
    assert since is not None
    return since
