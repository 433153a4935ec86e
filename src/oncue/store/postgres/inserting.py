"""Writes a batch of jobs on any connection to PostgreSQL: the store's own, or a caller's inside its transaction."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

from oncue.errors import StoreUnavailable
from oncue.model import Batch, Receipt
from oncue.store.shared import duplicate_record, recorded_receipt

LOCK_NOT_AVAILABLE = "55P03"
_NOTHING = (None,) * 5

Statements: TypeAlias = Mapping[str, str]
"""The statements by name, for the schema that the application's tables are in."""


class Asked(Protocol):
    """Answers a statement with its rows. Its parameters are numbered: $1, $2, …"""

    async def fetch(self, query: str, /, *args: Any) -> Any: ...


class Written:
    """A connection on which a part of a call was written already: from here on no lock leaves nothing written.

    So the call is in doubt then, and not merely kept waiting. Asked again as such, it writes what is missing.
    """

    def __init__(self, connection: Asked) -> None:
        self._connection = connection

    async def fetch(self, query: str, /, *args: Any) -> Any:
        try:
            return await self._connection.fetch(query, *args)
        except Exception as error:
            if getattr(error, "sqlstate", None) != LOCK_NOT_AVAILABLE:
                raise
            raise StoreUnavailable(f"another session holds a lock on what is left to write: {error}") from error


async def write_all(sql: Statements, connection: Asked, batches: Sequence[Batch], *, in_doubt: bool) -> list[Receipt]:
    """Write the jobs of several batches, all or none, and tell what became of each."""
    there: dict[int, Receipt | None] = {}
    for batch in batches if in_doubt else ():
        there |= await _touched(sql, connection, batch)
    answered = {job_id: receipt for job_id, receipt in there.items() if receipt is not None}
    written = there.keys() - answered.keys() | await insert(sql, connection, batches, without=there)
    receipts: list[Receipt] = []
    for batch in batches:
        own = written.intersection(batch.ids)
        told = await receipts_of(sql, Written(connection), batch, own, answered=answered)
        if in_doubt and not all(receipt.created for receipt in told):
            await record_duplicates(sql, connection, batch, told, answered)
        receipts += told
    return receipts


async def _touched(sql: Statements, connection: Asked, batch: Batch) -> dict[int, Receipt | None]:
    """Which jobs of a batch are there; and the answer that was given instead, where another one stands for it."""
    rows = await connection.fetch(sql["touch"], batch.ids, batch.created_at, batch.task)
    return {job_id: None if record is None else recorded_receipt(record) for job_id, record in rows}


async def insert(
    sql: Statements,
    connection: Asked,
    batches: Sequence[Batch],
    *,
    without: Container[int] = (),
    tell: bool = False,
) -> set[int]:
    """Write the jobs of these batches but for those that are there, all or none. The ids of those with a free key."""
    if len(batches) == 1 and batches[0].keys is None and not without:
        batch = batches[0]
        if len(batch.ids) == 1 and _is_plain(batch):
            await connection.fetch(sql["enqueue_plain_told" if tell else "enqueue_plain"], *_plain(batch))
        elif len(batch.ids) == 1 and batch.group is None:
            await connection.fetch(sql["enqueue_one"], *_one(batch), tell)
        else:
            await connection.fetch(sql["enqueue_keyless"], batch.ids, batch.args, *common(batch), tell)
        return set(batch.ids)
    rows = [
        (job_id, args, key, number)
        for number, batch in enumerate(batches, 1)
        for job_id, args, key in zip(batch.ids, batch.args, keys_of(batch), strict=True)
        if job_id not in without
    ]
    if not rows:
        return set()
    columns = [list(column) for column in (*zip(*rows, strict=True), *zip(*map(common, batches), strict=True))]
    return {row[0] for row in await connection.fetch(sql["enqueue"], *columns, tell)}


def keys_of(batch: Batch) -> Sequence[str | None]:
    return batch.keys or [None] * len(batch.ids)


def _is_plain(batch: Batch) -> bool:
    """Whether its jobs are due now, may run on any node and belong to no group."""
    told = (batch.group, batch.address, batch.deadline_at, batch.order_at, batch.retry_of)
    return batch.visible_at is batch.created_at and batch.state == "queued" and told == _NOTHING


def _plain(batch: Batch) -> tuple[Any, ...]:
    """The only job of a plain batch, in the order of its statement."""
    return (
        *(batch.ids[0], batch.args[0], batch.task, batch.queue, batch.priority, batch.options, batch.max_retries),
        *(batch.max_runtime, batch.created_at, batch.enqueued_by),
    )


def _one(batch: Batch) -> tuple[Any, ...]:
    """The only job of a batch, in the order of its statement."""
    due = None if batch.visible_at is batch.created_at else batch.visible_at
    return (
        *(batch.ids[0], batch.args[0], batch.task, batch.queue, batch.priority, batch.state, batch.options),
        *(batch.max_retries, batch.max_runtime, batch.created_at, batch.order_at, due, batch.deadline_at),
        *(batch.enqueued_by, batch.retry_of, batch.address),
    )


def all_written(batch: Batch, written: set[int]) -> list[Receipt]:
    """The receipts of a batch of which every job was written; none if some were not."""
    if len(written) < len(batch.ids):
        return []
    return [Receipt(job_id, batch.created_at, True) for job_id in batch.ids]


async def receipts_of(
    sql: Statements,
    connection: Asked,
    batch: Batch,
    written: set[int],
    *,
    tell: bool = False,
    answered: Mapping[int, Receipt] = MappingProxyType({}),
) -> list[Receipt]:
    """What became of each job of a batch, when these were written, and these were answered for by another before."""
    return all_written(batch, written) or await _receipts_of_duplicates(sql, connection, batch, written, tell, answered)


async def _receipts_of_duplicates(
    sql: Statements,
    connection: Asked,
    batch: Batch,
    written: set[int],
    tell: bool,
    answered: Mapping[int, Receipt],
) -> list[Receipt]:
    keys = batch.keys or []
    standing: dict[str, tuple[int, datetime]] = {}
    open_ids = [(n, job_id) for n, job_id in enumerate(batch.ids) if job_id not in answered]
    while True:
        left = [n for n, job_id in open_ids if job_id not in written and keys[n] not in standing]
        if not left:
            break
        rows = await connection.fetch(sql["standing"], batch.task, [keys[n] for n in left])
        standing |= {row[2]: (row[0], row[1].astimezone(UTC)) for row in rows}
        # The job in the way may have finished between the two statements: then the way is free.
        for n in left:
            if keys[n] not in standing:
                written |= await insert(sql, connection, [_one_of(batch, n)], tell=tell)
    # In doubt, the job that stands may be the very one that the lost call has written meanwhile.
    made = written.union(job_id for job_id, _ in standing.values())

    def receipt(n: int, job_id: int) -> Receipt:
        if job_id in answered:
            return answered[job_id]
        return Receipt(job_id, batch.created_at, True) if job_id in made else Receipt(*standing[keys[n]], False)

    return [receipt(n, job_id) for n, job_id in enumerate(batch.ids)]


def _one_of(batch: Batch, n: int) -> Batch:
    keys = None if batch.keys is None else [batch.keys[n]]
    return batch._replace(ids=[batch.ids[n]], args=[batch.args[n]], keys=keys)


async def record_duplicates(
    sql: Statements, connection: Asked, batch: Batch, receipts: Sequence[Receipt], answered: Container[int]
) -> None:
    """Take the ids of the jobs for which others stand, unless that was done before."""
    rows = [
        (job_id, args, key, duplicate_record(receipt))
        for job_id, args, key, receipt in zip(batch.ids, batch.args, batch.keys or (), receipts, strict=True)
        if not receipt.created and job_id not in answered
    ]
    if rows:
        columns = (list(column) for column in zip(*rows, strict=True))
        await connection.fetch(sql["record_duplicates"], *columns, *_unwaiting(batch))


def _unwaiting(batch: Batch) -> tuple[Any, ...]:
    """What all jobs of a batch share, but for the state that they would wait in."""
    task, queue, priority, _, *rest = common(batch)
    return (task, queue, priority, *rest)


def common(batch: Batch) -> tuple[Any, ...]:
    """What all jobs of a batch share, in the order of the statements."""
    max_runtime = None if batch.max_runtime is None else timedelta(seconds=batch.max_runtime)
    return (
        *(batch.task, batch.queue, batch.priority, batch.state, batch.options, batch.max_retries, max_runtime),
        *(batch.created_at, batch.visible_at, batch.deadline_at, batch.enqueued_by, batch.retry_of),
        *(batch.order_at or batch.created_at, batch.group, batch.address),
    )
