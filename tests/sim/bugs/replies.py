"""Acknowledgements that come too early, and replies that do not come."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from oncue.engine.reconciler import Reconciler
from oncue.engine.settler import Settler
from oncue.errors import StoreUnavailable
from oncue.model import Batch, Receipt
from oncue.policy.lifecycle import Ended
from oncue.sim.client import SimulatedClient
from oncue.sim.history import Answer, History, Operation
from oncue.store import SqliteStore
from oncue.store.sqlite import values
from oncue.store.sqlite.jobs import SqliteJobs
from tests.sim.bugs import runs
from tests.sim.bugs.kit import Patch, bug


@bug(
    "an acknowledgement before the commit",
    seen_in="Celery: without publisher confirms the first message after the broker is gone is lost without an error "
    "(celery/celery#3957)",
    run=runs.work,
    caught_by="nothing acknowledged is lost",
)
def acknowledged_before_commit(patch: Patch) -> None:
    """What is acknowledged waits for the next write; the last of it goes with the process."""
    unwritten: dict[SqliteStore, Sequence[Batch]] = {}

    async def hasty(self: SqliteJobs, batches: Sequence[Batch], *, in_doubt: bool = False) -> list[Receipt]:
        before, unwritten[self] = unwritten.get(self), batches
        if before is not None:
            await enqueue(self, before, in_doubt=True)
        return [Receipt(job_id, batch.created_at, True) for batch in batches for job_id in batch.ids]

    enqueue = patch.replace(SqliteJobs, "enqueue", hasty)


@bug(
    "a lost reply that is taken for a failure",
    seen_in="Sidekiq: a push that timed out may have arrived, and its caller is told that it failed "
    "(sidekiq/sidekiq#3303)",
    run=runs.bad_clients,
    caught_by=("an answer tells the truth", "nothing acknowledged is lost"),
)
def unknown_taken_for_failed(patch: Patch) -> None:
    """The client does not ask again, and says what it does not know."""

    def ask(self: SimulatedClient, batch: Batch, operation: Operation, give_up: datetime, *, in_doubt: bool) -> None:
        real_ask(self, batch, operation, self._clock.now(), in_doubt=in_doubt)

    def answer(self: History, operation: Operation, result: Answer, /, **fields: Any) -> None:
        doubtful = operation.verb == "enqueue" and result == "unknown"
        real_answer(self, operation, "fail" if doubtful else result, **fields)

    real_ask = patch.replace(SimulatedClient, "_ask", ask)
    real_answer = patch.replace(History, "answer", answer)


@bug(
    "an outcome that is dropped when its reply is lost",
    seen_in="Celery: a task whose acknowledgement failed was run again, though it had succeeded (celery/celery#4671)",
    run=runs.bad_lines,
    caught_by=("what an attempt came to is what is written", "attempts are counted as they begin"),
)
def outcome_dropped(patch: Patch) -> None:
    async def forgetful(self: Settler, batch: list[Ended], now: datetime, **options: bool) -> list[Ended]:
        try:
            locked: list[Ended] = await settle(self, batch, now, **options)
            return locked
        except StoreUnavailable:
            self._in_flight.settled(self.name, [])
            self._in_flight.remove([ended.claim for ended in batch])
            raise

    settle = patch.replace(Settler, "_settle", forgetful)


@bug(
    "an outcome that is dropped because its row is locked",
    seen_in="oncue itself: one job was held in psql, and a hundred finished ones were lost when their worker stopped",
    run=runs.locked_rows,
    caught_by=("what an attempt came to is what is written", "attempts are counted as they begin"),
)
def locked_outcome_dropped(patch: Patch) -> None:
    async def forgetful(self: Settler, batch: list[Ended], now: datetime, **options: bool) -> list[Ended]:
        locked: list[Ended] = await settle(self, batch, now, **options)
        self._in_flight.remove([ended.claim for ended in locked])
        return []

    settle = patch.replace(Settler, "_settle", forgetful)


@bug(
    "a lost claim that nobody gives back",
    seen_in="OpenFn Lightning: a claim outlasted the worker's patience, and its runs stayed claimed by nobody "
    "(OpenFn/lightning#3565)",
    run=runs.bad_lines,
    caught_by="once faults stop, everything ends in time",
)
def claim_lost(patch: Patch) -> None:
    async def trusting(self: Reconciler, rows: Any, now: datetime) -> None:
        return None

    patch.replace(Reconciler, "_release_unknown", trusting)


@bug(
    "an enqueue that is sent again under a new id",
    seen_in="Sidekiq: a write that timed out may have arrived, and was done again: one explanation of many copies of a "
    "job at once (sidekiq/sidekiq#6770)",
    run=runs.bad_clients,
    caught_by=("nothing happens that nobody asked for", "nothing acknowledged is lost"),
)
def sent_again_as_another(patch: Patch) -> None:
    async def anew(self: SqliteJobs, batches: Sequence[Batch], *, in_doubt: bool = False) -> list[Receipt]:
        if in_doubt:
            batches = [batch._replace(ids=await self.reserve(len(batch.ids))) for batch in batches]
        receipts: list[Receipt] = await enqueue(self, batches)
        return receipts

    enqueue = patch.replace(SqliteJobs, "enqueue", anew)


@bug(
    "a duplicate that is written after all",
    seen_in="oncue itself: an enqueue was given up, asked again and answered as a duplicate; then the job of that key "
    "ended, and the first call arrived",
    run=runs.late_duplicates,
    caught_by="an answer tells the truth",
)
def duplicate_written_late(patch: Patch) -> None:
    patch.replace(values, "unrecorded_duplicates", lambda *_: None)


@bug(
    "a delay that is lost when the job is sent again",
    seen_in="Sidekiq Pro: a scheduled job that could not be pushed at first went straight to its queue "
    "(sidekiq/sidekiq#4267)",
    run=runs.bad_clients,
    caught_by="a job is claimed only when it waits",
)
def delay_lost(patch: Patch) -> None:
    async def at_once(self: SqliteJobs, batches: Sequence[Batch], *, in_doubt: bool = False) -> list[Receipt]:
        if in_doubt:
            batches = [batch._replace(state="queued") for batch in batches]
        receipts: list[Receipt] = await enqueue(self, batches, in_doubt=in_doubt)
        return receipts

    enqueue = patch.replace(SqliteJobs, "enqueue", at_once)


@bug(
    "totals that count what was only tried",
    seen_in="Dataset viewer: counters that each worker moved by itself went wrong, and below zero "
    "(huggingface/dataset-viewer#1698)",
    run=runs.bad_lines,
    caught_by="the totals are what ended",
)
def totals_of_tries(patch: Patch) -> None:
    """They are counted before anybody looks whether the write still holds."""
    patch.reorder(
        drop_stale_changes="count_changes",
        drop_second_changes="drop_stale_changes",
        count_changes="drop_second_changes",
    )  # fmt: skip
