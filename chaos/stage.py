"""What every part stands on: a cluster under load, an account of what was done to it, and the verdict at the end."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from oncue import StoreUnavailable
from oncue.model import HeldClaim
from oncue.policy.options import DEFAULTS
from tests.process.cluster import TOLERANCE, Cluster, Process
from tests.process.processes import Refused
from tests.process.program import LEASE, flaky, once, plain_step, step

LOAD = (step, plain_step, flaky, once)
STUCK_SECONDS = 2 * LEASE + TOLERANCE
LOOK_SECONDS = 0.1
DRAIN_SECONDS = 60.0


@dataclass
class Outcome:
    """What a part did, and what did not hold."""

    done: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[str, str]] = field(default_factory=list)
    """The promise that was broken, and how."""
    longest: float = 0.0
    """Seconds that a job of a killed worker waited at most until it ran elsewhere or was settled."""
    takeovers: list[float] = field(default_factory=list)
    """Seconds from each end of a leader to the election of the next."""

    def add(self, other: Outcome) -> None:
        self.done.update(other.done)
        self.faults += other.faults
        self.longest = max(self.longest, other.longest)
        self.takeovers += other.takeovers


class Watch:
    """Follows the jobs that dead workers held, until each runs elsewhere or is settled.

    After two leases none may be held by the dead. One that was taken from them may have to wait for a seat, as any job:
    on a busy machine for longer.
    """

    def __init__(self, cluster: Cluster, outcome: Outcome) -> None:
        self._cluster = cluster
        self._outcome = outcome
        self.waiting: dict[tuple[int, int], float] = {}
        """The claims, and since when."""

    def add(self, held: list[HeldClaim]) -> None:
        self.waiting.update({(row.id, row.claim_no): time.monotonic() for row in held})

    def look(self) -> None:
        for (job_id, claim_no), since in list(self.waiting.items()):
            job, waited = self._cluster.job(job_id), time.monotonic() - since
            if job.finished or job.claim_no > claim_no:
                self._outcome.longest = max(self._outcome.longest, waited)
                del self.waiting[job_id, claim_no]
                self._outcome.done["jobs of the dead that waited for a seat"] += waited > STUCK_SECONDS
            elif waited > STUCK_SECONDS and job.state == "running":
                told = f"job {job_id} is held under claim {claim_no}, {waited:.1f} s after its worker was killed"
                self._outcome.faults.append(("nothing is stuck after two leases", told))
                del self.waiting[job_id, claim_no]


class Stage:
    """A cluster on one of the stores."""

    def __init__(self, cluster: Cluster, dice: Random) -> None:
        self.cluster = cluster
        self.dice = dice
        self.tolerance = TOLERANCE
        self.outcome = Outcome()
        self.watch = Watch(cluster, self.outcome)

    def schedule(self) -> None:
        """Schedules that fire every second or so."""
        self.cluster.schedule(step)
        self.cluster.schedule(once, missed="each")
        self.cluster.schedule(plain_step, "@every 3s")
        self.cluster.schedule(flaky, "*/2 * * * * *", max_instances=2)

    def fault(self, promise: str, told: str) -> None:
        self.outcome.faults.append((promise, told))

    def wait(self, seconds: float) -> None:
        """Let time pass, with an eye on the jobs of the dead."""
        end = time.monotonic() + seconds
        while True:
            self.watch.look()
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, LOOK_SECONDS))

    def node_ids(self) -> dict[str, UUID]:
        """The nodes that are not declared lost, by name."""
        return {node.name: node.id for node in self.cluster.app.wait(self.cluster.app.nodes.list())}

    def held(self, node: UUID) -> list[HeldClaim]:
        return self.cluster.ask(lambda store: store.jobs.held(node))

    def finish(self, crew: list[Process]) -> None:
        """Everything must come to its end: what the dead held, what was enqueued, and then the workers."""
        end = time.monotonic() + DRAIN_SECONDS
        while self.watch.waiting and time.monotonic() < end:
            self.wait(LOOK_SECONDS)
        for schedule in self.cluster.schedules():
            self.cluster.app.wait(self.cluster.app.schedules.toggle(schedule.name, False))
        self.cluster.silent(*self.cluster.gone)  # else a job of theirs may be written when nobody works any more
        try:
            self.cluster.until_done(seconds=DRAIN_SECONDS)
        except Refused as error:
            self.fault("everything ends", str(error))
        self.cluster.stop(*crew)
        self._judge()

    def _judge(self) -> None:
        jobs = self.cluster.jobs()
        self.outcome.done["jobs"] += len(jobs)
        self.outcome.done["slots"] += sum(job.schedule_id is not None for job in jobs)
        self.outcome.done["events"] += len(self.cluster.events)
        self.outcome.done["poison"] += sum(job.reason == "poison" for job in jobs)
        for job in jobs:
            if not _is_rightful(job):
                self.fault(
                    "a job ends as it may", f"job {job.id} ({job.task}) is {job.state}: {job.reason} {job.error}"
                )
        for violation in self.cluster.violations(tolerance=self.tolerance):
            self.fault(violation.promise, str(violation))
        for line in self.stumbles():
            self.fault("no worker stumbles", line)

    def stumbles(self) -> list[str]:
        return [line for line in self.cluster.logs.splitlines() if "Traceback" in line or "CRITICAL" in line]


def _is_rightful(job: Any) -> bool:
    """Jobs succeed, but for those at most once that were interrupted, and those that killed their processes.

    One that was sent again while another had its key is only there to say so.
    """
    if (job.state, job.reason) == ("skipped", "duplicate"):
        return bool(job.key is not None and job.attempt == 0)
    if job.task == once.name and job.state == "skipped":
        return job.reason in ("skipped_timeout", "interrupted")
    if job.state == "failed":
        return (job.reason, job.crashes) == ("poison", DEFAULTS.max_crashes)
    return bool(job.state == "succeeded")


@contextmanager
def staged(url: str, folder: Path, dice: Random, line: str | None = None, *, schedules: bool = True) -> Iterator[Stage]:
    cluster = Cluster(url, folder, line)
    try:
        stage = Stage(cluster, dice)
        if schedules:
            stage.schedule()
        yield stage
    finally:
        cluster.close()


def kept(folder: Path, place: Path) -> Path:
    """Keep what the processes wrote, for whoever looks for the cause."""
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(folder, place)
    return place


def insisted(ask: Any, seconds: float = 20.0) -> Any:
    """Ask a database that may be away for a moment."""
    end = time.monotonic() + seconds
    while True:
        try:
            return ask()
        except StoreUnavailable:
            if time.monotonic() > end:
                raise
            time.sleep(LOOK_SECONDS)
