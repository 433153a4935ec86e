"""What the rows say: whose arguments a job has, what its attempts came to, and until when it may wait."""

from __future__ import annotations

from collections.abc import Sequence

from oncue.model import Batch, Receipt
from oncue.store.sqlite.jobs import SqliteJobs
from tests.sim.bugs import runs
from tests.sim.bugs.kit import Patch, bug


@bug(
    "jobs of a batch that change places",
    seen_in="Graphile Worker for Rust: a batch was paired with the rows that came back, in whatever order that was "
    "(leo91000/graphile_worker_rs#349)",
    run=runs.work,
    caught_by="a row is what was asked for",
)
def changed_places(patch: Patch) -> None:
    async def shuffled(self: SqliteJobs, batches: Sequence[Batch], *, in_doubt: bool = False) -> list[Receipt]:
        moved = [batch._replace(args=[*batch.args[1:], *batch.args[:1]]) for batch in batches]
        receipts: list[Receipt] = await enqueue(self, moved, in_doubt=in_doubt)
        return receipts

    enqueue = patch.replace(SqliteJobs, "enqueue", shuffled)


@bug(
    "a retry that overwrites what was before",
    seen_in="Oban Web: a job that was retried by hand lost what its earlier run had come to (oban-bg/oban#193)",
    run=runs.work,
    caught_by="every attempt is on record",
)
def overwritten(patch: Patch) -> None:
    patch.sql("history", "where c.outcome is not null", "where c.from_state = 'running' and c.outcome is not null")


@bug(
    "a deadline that every attempt puts off",
    seen_in="queues whose messages have a time to live that begins anew with each delivery: what keeps failing is "
    "never too late",
    run=runs.work,
    caught_by="a row is what was asked for",
)
def put_off(patch: Patch) -> None:
    patch.sql("apply", "when finished_at is null then deadline_at else", "when false then deadline_at else")
