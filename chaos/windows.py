"""Daily windows whose cutoffs come while workers and leaders are killed: every day has one outcome all the same.

Some users' jobs succeed at once, some when their gate is opened, which is about when their window ends, and some never.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from chaos.stage import DRAIN_SECONDS, Stage
from oncue import Job
from oncue.model import Subject
from tests.process.cluster import Process
from tests.process.days import PROGRAM, enrol, marks, subjects
from tests.process.processes import Refused

CREW = 5
PAUSE = (0.3, 1.2)
USERS = 6
CUTOFF = (1.0, 5.0)
"""Seconds until the windows of a wave of users are over."""
OF_LEADERS = 0.4
WINDOW, HOOK = "digest", "reset"
OF_ALL_JOBS = (
    "nothing acknowledged is lost", "a job ends once, and stays as it ended", "only the current claim writes",
    "the totals are those of the rows",
)  # fmt: skip
"""The promises of the checker that are about jobs of any kind. Those of days are looked at here."""
UNOPENED = ("skipped", "cutoff_reached", None)
OUTCOMES: dict[str, set[tuple[str, str | None]]] = {
    "success": {("succeeded", None)},
    "cutoff_reached": {("skipped", "cutoff_reached"), ("failed", "poison")},
}
"""What the job of a day may have come to, by what the day came to."""


class Waves:
    """Users that come in waves, each with its gate."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._shut: list[str] = []
        self.cutoffs: dict[str, datetime] = {}

    def add(self) -> None:
        """Users of each kind, and perhaps the gate of earlier ones is opened."""
        number, dice = len(self.cutoffs), self._stage.dice
        users = [f"{kind}-{number}-{one}" for kind in ("quick", f"gate{number}", "never") for one in range(USERS // 3)]
        cutoff_at = enrol(self._stage.cluster, users, dice.uniform(*CUTOFF))
        self.cutoffs.update(dict.fromkeys(users, cutoff_at))
        self._shut.append(f"gate{number}")
        if len(self._shut) > dice.randint(1, 4):
            self._stage.cluster.open(self._shut.pop(0))

    def open_all(self) -> None:
        self._stage.cluster.open(*self._shut)


def run(stage: Stage, amount: int) -> None:
    """Kill so many workers, each while windows are open, and put others in their place at once."""
    cluster, dice, waves = stage.cluster, stage.dice, Waves(stage)
    crew = [cluster.start("--concurrency", "8", program=PROGRAM) for _ in range(CREW)]
    cluster.ready(*crew)
    for _ in range(amount):
        waves.add()
        stage.wait(dice.uniform(*PAUSE))
        cluster.ready(*crew[: CREW // 2])
        victim = chosen(stage, crew)
        kill(stage, victim)
        crew[:] = [worker for worker in crew if worker is not victim]
        crew.append(cluster.start("--concurrency", "8", program=PROGRAM))
    waves.open_all()
    cluster.ready(*crew)
    finish(stage, crew, waves.cutoffs)


def chosen(stage: Stage, crew: list[Process]) -> Process:
    """The leader, or any worker."""
    lease = stage.cluster.lease()
    leaders = [worker for worker in crew if lease is not None and worker.name == lease.holder_name]
    return leaders[0] if leaders and stage.dice.random() < OF_LEADERS else stage.dice.choice(crew)


def kill(stage: Stage, victim: Process) -> None:
    done, lease = stage.outcome.done, stage.cluster.lease()
    stage.cluster.kill(victim)
    nodes = stage.node_ids()
    held = stage.held(nodes[victim.name]) if victim.name in nodes else []
    stage.watch.add(held)
    done["kills in windows"] += 1
    done["kills of leaders in windows"] += lease is not None and lease.holder_name == victim.name
    done["jobs of days taken from the dead"] += len(held)


# --- the verdict ------------------------------------------------------------------------------------------------------


def finish(stage: Stage, crew: list[Process], cutoffs: dict[str, datetime]) -> None:
    """Every day must come to its outcome, and what follows from it must run; then the workers are stopped."""
    cluster = stage.cluster
    cluster.silent(*cluster.gone)
    try:
        cluster.until(lambda: not undecided(stage), "every day is decided", DRAIN_SECONDS)
        cluster.until_done(seconds=DRAIN_SECONDS)
    except Refused as error:
        stage.fault("everything ends", str(error))
    cluster.stop(*crew)
    judge(stage, cutoffs)


def undecided(stage: Stage) -> list[str]:
    return [one.name for one in subjects(stage.cluster) if one.last_date is None]


def judge(stage: Stage, cutoffs: dict[str, datetime]) -> None:
    jobs, found = stage.cluster.jobs(), {one.name: one for one in subjects(stage.cluster)}
    days = {job.subject: job for job in jobs if job.task == WINDOW and job.subject is not None}
    stage.outcome.done["days"] += len(found)
    stage.outcome.done["days of success"] += sum(one.status == "success" for one in found.values())
    stage.outcome.done["days over at their cutoff"] += sum(one.status == "cutoff_reached" for one in found.values())
    stage.outcome.done["days over before a leader opened them"] += len(found) - len(days)
    stage.outcome.done["days of poison"] += sum(job.reason == "poison" for job in days.values())
    for promise, told in (
        *(("every day has one outcome", told) for told in wrong_days(stage, found, jobs, cutoffs)),
        *(("no success after its cutoff", told) for told in late(found, days, cutoffs)),
        *(("one hook for each cutoff", told) for told in wrong_hooks(stage, found, jobs)),
        *(("the counts of a day are those of its users", told) for told in wrong_counts(stage, found, len(days))),
        *(("no worker stumbles", line) for line in stage.stumbles()),
    ):
        stage.fault(promise, told)
    for violation in stage.cluster.violations(tolerance=stage.tolerance):
        if violation.promise in OF_ALL_JOBS:
            stage.fault(violation.promise, str(violation))


def wrong_days(stage: Stage, found: dict[str, Subject], jobs: list[Job], cutoffs: dict[str, datetime]) -> Iterator[str]:
    """The rows, the ledger, the jobs and the handlers tell the same of each day.

    A day may be over before there was a leader to open it: then it has no job, and the ledger says why.
    """
    made, ended = Counter(job.subject for job in jobs if job.task == WINDOW), marks(stage.cluster.folder, "end")
    states = {job.subject: (job.state, job.reason) for job in jobs if job.task == WINDOW}
    for name, cutoff_at in cutoffs.items():
        one = found[name]
        ledger = stage.cluster.app.wait(stage.cluster.app.windows.ledger(WINDOW, name))
        is_unopened = [(slot.verdict, slot.reason, slot.job_id) for slot in ledger] == [UNOPENED]
        if one.last_date != cutoff_at.date() or one.status not in OUTCOMES:
            yield f"{name}: {one.status} of {one.last_date}, its cutoff: {cutoff_at}"
        elif is_unopened and (made[name] or one.status != "cutoff_reached"):
            yield f"{name}: {one.status} with {made[name]} jobs, and no opening in the ledger"
        elif not is_unopened and (made[name] != 1 or [slot.verdict for slot in ledger] != ["fired"]):
            yield f"{name}: {made[name]} jobs, and in the ledger {ledger}"
        elif not is_unopened and states[name] not in OUTCOMES[one.status]:
            yield f"{name}: {one.status}, and its job: {states[name]}"
        if one.status == "success" and (not ended[name] or name.startswith("never")):
            yield f"{name} succeeded, and its handler has not come to its end"


def late(found: dict[str, Subject], days: dict[str, Job], cutoffs: dict[str, datetime]) -> Iterator[str]:
    for name, cutoff_at in cutoffs.items():
        ended_at = days[name].finished_at if name in days else None
        if found[name].status == "success" and (ended_at is None or ended_at >= cutoff_at):
            yield f"{name}: its success is of {ended_at}, its cutoff was {cutoff_at}"


def wrong_hooks(stage: Stage, found: dict[str, Subject], jobs: list[Job]) -> Iterator[str]:
    """One job for each cutoff. Its handler runs once more if its process is killed before the end is written."""
    missed = Counter(one.name for one in found.values() if one.status == "cutoff_reached")
    hooks = Counter(str(job.args["user"]) for job in jobs if job.task == HOOK)
    ran = marks(stage.cluster.folder, "reset")
    if hooks != missed:
        yield f"{hooks - missed} too many, {missed - hooks} too few"
    if ran.keys() != missed.keys():
        yield f"of {len(missed)} users {sorted(missed.keys() ^ ran.keys())} differ in what ran"


def wrong_counts(stage: Stage, found: dict[str, Subject], opened: int) -> Iterator[str]:
    app, totals = stage.cluster.app, Counter[str]()
    for day in {one.last_date for one in found.values() if one.last_date is not None}:
        for row in app.wait(app.windows.day(WINDOW, day)):
            totals[row.event] += row.subjects
    rows = Counter(one.status or "none" for one in found.values()) + Counter({"opened": opened})
    if totals != rows:
        yield f"{dict(totals)} were counted, {dict(rows)} are there"
