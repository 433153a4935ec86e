"""What an outcome leads to: retries, crashes, keys, limits."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from random import Random
from typing import Any

from oncue.engine import claimer
from oncue.engine.in_flight import InFlight
from oncue.engine.pending_starts import PendingStarts, RecordedStarts
from oncue.engine.rescue import Rescue
from oncue.model import Batch, Change, Failed, Lost, Receipt, Released
from oncue.policy import lifecycle, options, suspicion
from oncue.policy.lifecycle import Ended
from oncue.sim.wire import Delay
from oncue.store.sqlite import values
from oncue.store.sqlite.database import rows_of
from oncue.store.sqlite.jobs import SqliteJobs
from tests.sim.bugs import runs
from tests.sim.bugs.kit import Patch, bug

UNFINISHED = "state in ('scheduled', 'queued', 'running', 'retrying')"
ONE_PER_KEY = f"on conflict (task, key) where key is not null and {UNFINISHED}\n    do nothing"


@bug(
    "a release that charges a retry",
    seen_in="refine.bio: every deploy stopped what was running, and used up its retries (AlexsLemonade/refinebio#708)",
    run=runs.shutdowns,
    caught_by=("retries keep to their policy", "what an attempt came to is what is written"),
)
def release_charged(patch: Patch) -> None:
    def failed(ended: Ended, outcome: Released, dice: Random) -> Change:
        return lifecycle._failed(ended, Failed(outcome.cause), dice)

    patch.replace(lifecycle._SETTLERS, Released, failed)


@bug(
    "an at-most-once job that is run again after a crash",
    seen_in="queues with late acknowledgements: whatever its worker died under is delivered again, also what must "
    "not run twice",
    run=runs.sleepers,
    caught_by="an at-most-once attempt is not repeated",
)
def once_and_again(patch: Patch) -> None:
    def again(ended: Ended, outcome: Lost, dice: Random) -> Change:
        at_least_once = dataclasses.replace(options.read(ended.claim.options), delivery="at_least_once")
        claim = ended.claim._replace(options=at_least_once.stored())
        change: Change = lost(ended._replace(claim=claim), outcome, dice)
        return change

    lost = patch.replace(lifecycle._SETTLERS, Lost, again)


@bug(
    "crashes that nobody counts",
    seen_in="Faktory: a job that kills its worker came back whenever its reservation ended, for ever "
    "(contribsys/faktory#99)",
    run=runs.killers,
    caught_by=("once faults stop, everything ends in time", "a death is charged to those that had begun"),
)
def poison_for_ever(patch: Patch) -> None:
    def uncounted(ended: Ended, outcome: Lost, dice: Random) -> Change:
        change: Change = lost(ended, outcome, dice)
        return change._replace(crashes=ended.claim.crashes, isolation=0)

    lost = patch.replace(lifecycle._SETTLERS, Lost, uncounted)


@bug(
    "suspects side by side",
    seen_in="Sidekiq Pro: the jobs of a crashed process were recovered and run again, the guilty one among the others "
    "(sidekiq/sidekiq#4633)",
    run=runs.crowd_of_suspects,
    caught_by="cohorts are small",
)
def suspects_together(patch: Patch) -> None:
    patch.replace(claimer, "COHORT", 1000)


@bug(
    "a suspect that is alone in its seat only",
    seen_in="queues that give each job a process of its own: where memory is counted for the whole container, its "
    "neighbours die with it",
    run=runs.killers_in_traffic,
    caught_by="alone means alone",
)
def alone_in_company(patch: Patch) -> None:
    patch.replace(RecordedStarts, "_ready", lambda self: list(self))
    patch.replace(InFlight, "closed", False)


@bug(
    "a suspect that begins before that is on record",
    seen_in="queues that note in memory what they run: after a crash nobody knows who had begun",
    run=runs.killers,
    caught_by="what may have killed its process begins on record",
)
def begun_off_the_record(patch: Patch) -> None:
    patch.replace(RecordedStarts, "request", PendingStarts.request)


@bug(
    "a death that is charged to all that were claimed",
    seen_in="oncue itself: what waited in the buffer of a process was a suspect like what ran in it",
    run=runs.waiting_suspects,
    caught_by="a death is charged to those that had begun",
)
def charged_when_claimed(patch: Patch) -> None:
    patch.replace(suspicion, "began_at", lambda claim: claim.started_at or claim.claimed_at)


@bug(
    "an innocent that pays for others",
    seen_in="oncue itself: a long job that shared its processes with three different killers was poison",
    run=runs.killers,
    caught_by="poison takes two deaths alone",
)
def poison_in_company(patch: Patch) -> None:
    def counted(ended: Ended, outcome: Lost, dice: Random) -> Change:
        change: Change = lost(ended, outcome, dice)
        if ended.claim.crashes < 2:
            return change._replace(isolation=0)
        return change._replace(state="failed", reason="poison", crashes=ended.claim.crashes + 1)

    lost = patch.replace(lifecycle._SETTLERS, Lost, counted)


@bug(
    "a rescue that waits for its next look",
    seen_in="oncue itself: rescuers looked every third of a lease, whenever the leases of others ended",
    run=runs.one_death,
    caught_by="a rescue is prompt",
)
def rescue_by_interval(patch: Patch) -> None:
    patch.replace(Rescue, "_by", lambda self, wanted, now: now + self._interval)


@bug(
    "a retry without back-off",
    seen_in="pg-boss: the back-off multiplied a delay of nothing, so that retries came at once (timgit/pg-boss#839)",
    run=runs.work,
    caught_by="retries keep to their policy",
)
def no_back_off(patch: Patch) -> None:
    def at_once(ended: Ended, state: Any, outcome: str, delay: float, **kept: Any) -> Change:
        change: Change = again(ended, state, outcome, 0.0 if state == "retrying" else delay, **kept)
        return change

    again = patch.replace(lifecycle, "_again", at_once)


@bug(
    "a retry that collides with its own key",
    seen_in="River and Oban Pro: a key did not count in every unfinished state, so that the way back to the queue was "
    "barred, and with it everybody else's (riverqueue/river#619, oban-bg/oban#1416)",
    run=runs.same_keys,
    caught_by=(
        "a key has one unfinished job",
        "once faults stop, everything ends in time",
        "no step fails but for the database",
    ),
)
def retry_against_its_key(patch: Patch) -> None:
    waiting = "state in ('scheduled', 'queued', 'retrying')"
    patch.schema(f"where key is not null and {UNFINISHED}", f"where key is not null and {waiting}")
    patch.sql("enqueue", f"where key is not null and {UNFINISHED}", f"where key is not null and {waiting}")
    patch.sql("standing", UNFINISHED, waiting)


@bug(
    "a key that is looked up before the insert",
    seen_in="Agenda: two clients that saved the same unique job at once both found none (agenda/agenda#535)",
    run=runs.slow_lines,
    caught_by="a key has one unfinished job",
)
def key_by_read_then_insert(patch: Patch) -> None:
    patch.schema("create unique index oncue_jobs_key", "create index oncue_jobs_key")
    patch.sql("enqueue", ONE_PER_KEY, "")

    async def looked_up(self: SqliteJobs, batches: Sequence[Batch], *, in_doubt: bool = False) -> list[Receipt]:
        (batch,) = batches
        if batch.keys is not None:
            standing = await self._db.read(lambda c: rows_of(c, self._db.sql["standing"], values.keys(batch)))
            await Delay(0.05)
            if standing:
                return values.receipts(batch, set(), standing)
        receipts: list[Receipt] = await enqueue(self, batches, in_doubt=in_doubt)
        return receipts

    enqueue = patch.replace(SqliteJobs, "enqueue", looked_up)


@bug(
    "a limit that is read before it is taken",
    seen_in="GoodJob: two processes that counted at the same moment both went ahead (bensheldon/good_job#378)",
    run=runs.limited_sleepers,
    caught_by="a limited queue keeps its limit",
)
def limit_by_read_then_claim(patch: Patch) -> None:
    patch.sql("take_turn", "and version = :version", "")


@bug(
    "a job that hangs keeps its seat",
    seen_in="an application on Oban, whose default is no time limit: jobs that hung held every seat of two queues "
    "(engram-app/Engram#1496)",
    run=runs.hanging,
    caught_by="once faults stop, everything ends in time",
)
def no_time_limit(patch: Patch) -> None:
    patch.replace(options, "longest", lambda text: None)
    patch.sql("overdue", "run_until < :before", "run_until < 0")
