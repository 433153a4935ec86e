"""Leaders that are killed, stopped or cut off while cluster jobs run: one verdict for each, and one recorded action.

A blow ends the lead of the leader: `kill -9`, SIGSTOP for longer than the lease, or a line that reaches nothing for as
long. The takeover is measured from the blow to the election of the next leader, both by the database's clock. Half of
the dead come back under their own names, in the middle of what they had begun.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from signal import SIGCONT, SIGSTOP
from typing import Any

from chaos.stage import DRAIN_SECONDS, Stage
from chaos.witness import Witness, elected, stale_ends, wrong_ends, wrong_epochs
from oncue import Job
from oncue.model import UNFINISHED, ClusterJob
from oncue.policy import quorum
from tests.process.cluster import Process
from tests.process.cluster_program import maintain
from tests.process.load import Load
from tests.process.maintenance import PROGRAM, create
from tests.process.processes import Refused
from tests.process.wire import Wire

CREW = 5
KINDS = ("killed", "killed", "stopped", "cut off")
PAUSE = (0.1, 1.0)
AFTERWARDS = (0.0, 0.6)
"""How long a leader stands still, or is cut off, after the next one was elected."""
ORDER_SECONDS = 0.25
WORK = (0.0, 0.0, 0.2, 0.6)
"""How long parts and actions of a job take."""
REASONS: dict[str, set[str | None]] = {
    "succeeded": {None, "no_quorum"},
    "failed": {"poison", "parts_failed"},
}
"""What a cluster job may come to here. One whose action was there at three deaths is poison; a node that was restarted
in the middle of its part has failed it."""


class Blows:
    """What is done to the leaders of a crew."""

    def __init__(self, stage: Stage, wire: Wire, witness: Witness) -> None:
        self._stage = stage
        self._wire = wire
        self._witness = witness
        self.crew: list[Process] = []

    def start(self, called: str | None = None) -> Process:
        worker = self._stage.cluster.start("--concurrency", "8", program=PROGRAM, called=called)
        self.crew.append(worker)
        return worker

    def strike(self) -> None:
        """End the lead of the present leader, wait until another node leads, and let the crew be whole again."""
        cluster, dice = self._stage.cluster, self._stage.dice
        cluster.ready(*self.crew[: CREW // 2])
        leader, lease = cluster.led()
        kind, done = dice.choice(KINDS), self._stage.outcome.done
        done["leaders struck in the middle of a part or an action"] += bool(leader.in_the_middle)
        before = next(lead for lead in reversed(self._witness.leads()) if lead.epoch <= lease.epoch)
        began = self._witness.time()
        getattr(self, f"_{kind.replace(' ', '_')}")(leader)
        found = cluster.until(lambda: elected(self._witness.leads(), before), f"another node than {leader.name} leads")
        assert found is not None
        self._stage.outcome.takeovers.append((found.at - began).total_seconds())
        done["leaders struck"] += 1
        done[f"leaders struck: {kind}"] += 1
        self._restore(kind, leader)

    def _killed(self, leader: Process) -> None:
        self._stage.cluster.kill(leader)

    def _stopped(self, leader: Process) -> None:
        leader.send(SIGSTOP)

    def _cut_off(self, leader: Process) -> None:
        self._wire.cut_off = {leader.name}

    def _restore(self, kind: str, leader: Process) -> None:
        dice = self._stage.dice
        if kind == "killed":
            self.crew.remove(leader)
            self.start(leader.node_name if dice.random() < 0.5 else None)
            return
        self._stage.wait(dice.uniform(*AFTERWARDS))
        if kind == "stopped":
            leader.send(SIGCONT)
        self._wire.cut_off = set()


def run(stage: Stage, amount: int, wire: Wire) -> None:
    """Strike so many leaders."""
    witness = Witness(stage.cluster.url)
    witness.install()
    blows = Blows(stage, wire, witness)
    for _ in range(CREW):
        blows.start()
    stage.cluster.ready(*blows.crew)
    orders = ordering(stage)
    orders.start()
    try:
        for _ in range(amount):
            stage.wait(stage.dice.uniform(*PAUSE))
            blows.strike()
    finally:
        orders.finish()
    finish(stage, blows.crew, orders.ids, witness)


def ordering(stage: Stage) -> Load:
    """One cluster job after the other, as a process orders them that is no node."""
    dice = Random(stage.dice.random())

    def order(_task: Any, _seconds: float, times: int) -> list[int]:
        return [create(stage.cluster, seconds=dice.choice(WORK)) for _ in range(times)]

    return Load(order, [maintain], ORDER_SECONDS, 1, 0.0)


# --- the verdict ------------------------------------------------------------------------------------------------------


def finish(stage: Stage, crew: list[Process], ordered: Sequence[int], witness: Witness) -> None:
    """Every job must come to its verdict, and every part to its end; then the workers are stopped."""
    cluster = stage.cluster
    cluster.silent(*cluster.gone)
    cluster.ready(*crew)
    try:
        cluster.until_done(seconds=DRAIN_SECONDS)
    except Refused as error:
        stage.fault("everything ends", str(error))
    cluster.stop(*crew)
    judge(stage, ordered, witness)


def judge(stage: Stage, ordered: Sequence[int], witness: Witness) -> None:
    app, done = stage.cluster.app, stage.outcome.done
    jobs = {job.id: job for job in stage.cluster.jobs()}
    found = [app.wait(app.cluster.get(number)) for number in ordered if number in jobs]
    leads, steps = witness.leads(), witness.steps()
    done["cluster jobs"] += len(found)
    done["cluster jobs without a quorum"] += sum(one.job.reason == "no_quorum" for one in found)
    failed = [one.job.reason for one in found if one.job.state == "failed"]
    done.update(f"cluster jobs that failed: {reason}" for reason in failed)
    done["leader actions begun again"] += sum(one.job.state == "succeeded" and one.job.attempt > 1 for one in found)
    for promise, told in (
        *(("nothing acknowledged is lost", f"job {number}") for number in ordered if number not in jobs),
        *(("every cluster job has one verdict", told) for told in wrong_verdicts(found)),
        *(("every cluster job has one verdict", told) for told in wrong_ends(steps)),
        *(("epochs only grow, and each has one holder", told) for told in wrong_epochs(leads)),
        *(("a leader action counts under the epoch that leads", told) for told in stale_ends(steps)),
        *(("a recorded action has run to its end", told) for told in unproved(stage, found)),
        *(("no worker stumbles", line) for line in stage.stumbles()),
    ):
        stage.fault(promise, told)


def wrong_verdicts(found: Sequence[ClusterJob]) -> Iterator[str]:
    for cluster in found:
        job = cluster.job
        if job.state in UNFINISHED:
            yield f"job {job.id} is {job.state}: {quorum.missing(cluster)}"
        elif job.state not in REASONS or job.reason not in REASONS[job.state]:
            yield f"job {job.id} is {job.state}: {job.reason} {job.error}"
        elif quorum.OPEN.intersection(quorum.statuses_of(cluster)):
            yield f"job {job.id} is {job.state}, and its parts {quorum.statuses_of(cluster)}"


def unproved(stage: Stage, found: Sequence[ClusterJob]) -> Iterator[str]:
    """The handlers tell the same: the attempt that counted came to its end, on the node that its result names."""
    names = {process.name: process.node_name for process in stage.cluster.processes}
    ends = {(mark.job, mark.attempt): names[mark.worker] for mark in stage.cluster.marks if mark.what == "end"}
    for cluster in found:
        job = cluster.job
        if job.state == "succeeded" and ends.get((job.id, job.attempt)) != job.result["by"]:
            yield told_of(job, ends.get((job.id, job.attempt)))
        done = {part.node_name for part in cluster.parts if part.job_id is not None and part.state == "succeeded"}
        if job.state == "succeeded" and not set(job.result["completed"]) <= done:
            yield f"job {job.id}: its action was told of {job.result['completed']}, done are {sorted(done)}"


def told_of(job: Job, by: str | None) -> str:
    return f"job {job.id}, attempt {job.attempt}: its result is of {job.result['by']}, the mark of {by}"
