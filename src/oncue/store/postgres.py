"""The store on PostgreSQL. The statements are in postgres.sql; here they only get their parameters and rows."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from oncue.errors import Conflict, IdTaken, StoreError, StoreRefused, StoreUnavailable
from oncue.model import (
    TERMINAL,
    Attempt,
    Batch,
    Change,
    Claim,
    Depth,
    Holding,
    Job,
    JobFilter,
    Lane,
    Node,
    Queue,
    Receipt,
    Started,
    State,
)
from oncue.store import statements
from oncue.store.connections import Connection, Connections
from oncue.store.contract import DEPTH_LIMIT, Wake
from oncue.store.hints import Debounce
from oncue.store.postgres_ledger import PostgresLedger, job_of, node_of
from oncue.store.tables import NAMED_FOR, is_plain, queue_rows

ROWS_PER_STATEMENT = 10_000
CHANNEL = "oncue"
NOW, LATER = "", "later"  # what a notification says; the statements send the first
LATER_GAP = 0.1
ANSWER_SECONDS = 15.0
MIGRATION_SECONDS = 3600.0
# One migration at a time, whoever starts it; the number is arbitrary and only ours.
MIGRATION_LOCK = 0x6F6E637565


_log = logging.getLogger("oncue.store")


class PostgresStore(PostgresLedger):
    dialect = "postgres"

    def __init__(
        self, dsn: str, *, size: int = 6, prepare: bool = True, listen: bool = True, patience: float | None = None
    ) -> None:
        self._connections = Connections(dsn, size, prepare=prepare, timeout=patience or ANSWER_SECONDS)
        self._sql = statements.load(self.dialect)
        self._hints = Debounce(lambda: self._notify(NOW))
        self._later_hints = Debounce(lambda: self._notify(LATER), gap=LATER_GAP)
        self._listen = listen
        self._watcher: asyncio.Task[None] | None = None

    # --- life ---------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        statements.check_version(self.dialect, await self.version())

    async def close(self) -> None:
        await self._hints.close()
        await self._later_hints.close()
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)
        await self._connections.close()

    async def version(self) -> int:
        """The number of the last migration, 0 on an empty database."""
        async with self._connections.use() as connection:
            return await self._version(connection)

    async def _version(self, connection: Connection) -> int:
        if not await connection.fetchval("select to_regclass('oncue_migrations') is not null"):
            return 0
        number: int = await connection.fetchval("select coalesce(max(number), 0) from oncue_migrations")
        return number

    async def migrate(self) -> list[str]:
        async with self._connections.use() as connection, connection.transaction():
            await connection.execute("select pg_advisory_xact_lock($1)", MIGRATION_LOCK)
            await connection.execute(
                "create table if not exists oncue_migrations "
                "(number integer primary key, name text not null, applied_at timestamptz not null)"
            )
            done = await self._version(connection)
            missing = [step for step in statements.migrations(self.dialect) if step.number > done]
            applied_at = await self._time(connection)
            for step in missing:
                await connection.execute(step.script, timeout=MIGRATION_SECONDS)
                await connection.execute(
                    "insert into oncue_migrations values ($1, $2, $3)", step.number, step.name, applied_at
                )
            return [step.name for step in missing]

    async def time(self) -> datetime:
        async with self._connections.use() as connection:
            return await self._time(connection)

    async def _time(self, connection: Connection) -> datetime:
        # The one place where the database's clock is read: everything else gets its time from here.
        told: datetime = await connection.fetchval("select clock_timestamp()")
        return told

    # --- making and reading jobs --------------------------------------------------------------------------------

    async def reserve(self, count: int) -> list[int]:
        async with self._connections.use() as connection:
            ids: list[int] = await connection.fetchval(self._sql["reserve"], count)
            return ids

    async def enqueue(self, batches: Sequence[Batch], *, in_doubt: bool = False) -> list[Receipt]:
        collisions = 0
        while True:
            try:
                if len(batches) == 1 and len(batches[0].ids) <= ROWS_PER_STATEMENT and not in_doubt:
                    return await self._enqueue_at_once(batches[0])
                return await self._enqueue_in_transaction(batches, in_doubt)
            except StoreUnavailable as error:
                # Two large calls waited for each other's keys: one of them was undone, and begins again.
                if not isinstance(error.__cause__, asyncpg.DeadlockDetectedError):
                    raise
            except StoreRefused as error:
                if getattr(error.__cause__, "constraint_name", None) != "oncue_jobs_pkey":
                    raise
                # In doubt, the first call may have been committing while the second looked: then look once more.
                collisions += 1
                if not in_doubt or collisions > 1:
                    raise IdTaken(f"a reserved id belongs to another job: {error}") from error

    async def _enqueue_at_once(self, batch: Batch) -> list[Receipt]:
        """One statement is one transaction: no BEGIN, no COMMIT, one trip."""
        tell = batch.state == "queued" and self._hints.take()
        async with self._connections.use() as connection:
            if len(batch.ids) == 1 and batch.keys is None and not tell:
                await connection.execute(self._sql["enqueue_one"], batch.ids[0], batch.args[0], *_common(batch))
                written = set(batch.ids)
            else:
                written = await self._insert(connection, batch, 0, len(batch.ids), tell=tell)
            receipts = await self._receipts(connection, batch, written)
        if written and not tell:
            (self._hints if batch.state == "queued" else self._later_hints).send()
        return receipts

    async def _enqueue_in_transaction(self, batches: Sequence[Batch], in_doubt: bool) -> list[Receipt]:
        receipts: list[Receipt] = []
        async with self._connections.use() as connection, connection.transaction():
            for batch in batches:
                written = await self._touched(connection, batch) if in_doubt else set()
                for start in range(0, len(batch.ids), ROWS_PER_STATEMENT):
                    end = start + ROWS_PER_STATEMENT
                    written |= await self._insert(connection, batch, start, end, skip=written)
                receipts += await self._receipts(connection, batch, written)
            await connection.execute("select pg_notify($1, $2)", CHANNEL, LATER)
        return receipts

    async def _insert(
        self,
        connection: Connection,
        batch: Batch,
        start: int,
        end: int,
        *,
        tell: bool = False,
        skip: set[int] | None = None,
    ) -> set[int]:
        ids, args = batch.ids[start:end], batch.args[start:end]
        keys: Sequence[str | None] = batch.keys[start:end] if batch.keys else [None] * len(ids)
        if skip:
            kept = [row for row in zip(ids, args, keys, strict=True) if row[0] not in skip]
            if not kept:
                return set()
            ids, args, keys = (list(column) for column in zip(*kept, strict=True))
        rows = await connection.fetch(
            self._sql["enqueue"],
            ids,
            args,
            keys,
            *_common(batch)[:-1],
            tell,
            batch.retry_of,
        )
        return {row[0] for row in rows}

    async def _touched(self, connection: Connection, batch: Batch) -> set[int]:
        rows = await connection.fetch(self._sql["touch"], batch.ids, batch.created_at, batch.task)
        return {row[0] for row in rows}

    async def _receipts(self, connection: Connection, batch: Batch, written: set[int]) -> list[Receipt]:
        if len(written) == len(batch.ids):
            return [Receipt(job_id, batch.created_at, True) for job_id in batch.ids]
        return await self._receipts_of_duplicates(connection, batch, written)

    async def _receipts_of_duplicates(self, connection: Connection, batch: Batch, written: set[int]) -> list[Receipt]:
        keys = batch.keys or []
        standing: dict[str, tuple[int, datetime]] = {}
        while True:
            left = [n for n, job_id in enumerate(batch.ids) if job_id not in written and keys[n] not in standing]
            if not left:
                break
            rows = await connection.fetch(self._sql["standing"], batch.task, [keys[n] for n in left])
            standing |= {row[2]: (row[0], row[1]) for row in rows}
            # The job in the way may have finished between the two statements: then the way is free.
            for n in left:
                if keys[n] not in standing:
                    written |= await self._insert(connection, batch, n, n + 1)
        # In doubt, the job that stands may be the very one that the lost call has written meanwhile.
        made = written.union(job_id for job_id, _ in standing.values())
        return [
            Receipt(job_id, batch.created_at, True) if job_id in made else Receipt(*standing[keys[n]], False)
            for n, job_id in enumerate(batch.ids)
        ]

    async def job(self, job_id: int) -> Job | None:
        rows = await self._fetch("job", job_id)
        return job_of(rows[0]) if rows else None

    async def jobs(self, wanted: JobFilter) -> list[Job]:
        states = list(wanted.states) or None
        rows = await self._fetch("jobs", states, wanted.queue, wanted.task, wanted.key, wanted.before, wanted.limit)
        return [job_of(row) for row in rows]

    async def attempts(self, job_id: int) -> list[Attempt]:
        return [Attempt(*row) for row in await self._fetch("attempts", job_id)]

    # --- the hot path -------------------------------------------------------------------------------------------

    async def promote(self, now: datetime, limit: int) -> datetime | None:
        async with self._connections.use() as connection:
            status = await connection.execute(self._sql["promote"], now, limit)
            due: datetime | None
            if int(status.split()[-1]) < limit:
                due = await connection.fetchval(self._sql["next_due_after"], now)
            else:
                due = await connection.fetchval(self._sql["next_due"])
            return due

    async def claim(
        self,
        node: UUID,
        queues: Sequence[str],
        tasks: Sequence[str],
        limit: int,
        now: datetime,
        *,
        suspect: bool,
    ) -> list[Claim]:
        rows = await self._fetch("claim", node, queues, tasks, limit, now, suspect)
        return [Claim(*row) for row in rows]

    async def apply(self, changes: Sequence[Change], now: datetime) -> list[bool]:
        if not changes:
            return []
        # In the order of their ids, so that two batches that meet (a result and a rescue) never lock each other up.
        places = sorted(range(len(changes)), key=lambda place: changes[place].id)
        ordered = [changes[place] for place in places]
        name, columns = _columns(ordered)
        try:
            async with self._connections.use() as connection:
                took: list[int] = await connection.fetchval(self._sql[name], now, *columns)
        except StoreError as error:
            if getattr(error.__cause__, "constraint_name", None) == "oncue_jobs_key":
                raise Conflict("another unfinished job of this task has the same key") from error
            raise
        if name == "apply":
            self._hint({change.state for change in changes})
        if len(took) == len(changes):
            return [True] * len(changes)
        taken = {places[ordinal - 1] for ordinal in took}
        return [place in taken for place in range(len(changes))]

    def _hint(self, states: set[State]) -> None:
        """Jobs took these states: tell whoever may claim them, now or later."""
        if "queued" in states:
            self._hints.send()
        if not states.isdisjoint(("scheduled", "retrying")):
            self._later_hints.send()

    async def mark_started(self, started: Sequence[Started]) -> None:
        if started:
            await self._fetch("mark_started", *(list(column) for column in zip(*sorted(started), strict=True)))

    async def held(self, node: UUID) -> list[Holding]:
        return [Holding(*row) for row in await self._fetch("held", node)]

    async def running(self, ids: Sequence[int]) -> list[Claim]:
        return [Claim(*row) for row in await self._fetch("running", ids)]

    # --- upkeep -------------------------------------------------------------------------------------------------

    async def stranded(self, now: datetime, limit: int) -> list[Claim]:
        return [Claim(*row) for row in await self._fetch("stranded", now, limit)]

    async def overdue(self, before: datetime, limit: int) -> list[Claim]:
        return [Claim(*row) for row in await self._fetch("overdue", before, limit)]

    async def lanes(self) -> list[Lane]:
        return [Lane(*row) for row in await self._fetch("lanes")]

    async def age(
        self, lane: Lane, round_no: int, waiting_since: datetime, gain: int, limit: int, now: datetime
    ) -> int:
        async with self._connections.use() as connection:
            status = await connection.execute(
                self._sql["age"], round_no, lane.queue, lane.priority, waiting_since, gain, now, limit
            )
        return int(status.split()[-1])

    async def prune(self, before: datetime, limit: int) -> int:
        gone = 0
        async with self._connections.use() as connection:
            for state in sorted(TERMINAL):
                gone += await self._pruned(connection, state, before, limit - gone)
            await connection.execute(self._sql["prune_attempts"], before, limit)
            if gone < limit:  # else there are older jobs yet, whose slots will ask for the name of their worker
                await connection.execute(self._sql["forget_nodes"], before - NAMED_FOR)
        return gone

    async def _pruned(self, connection: Connection, state: State, before: datetime, limit: int) -> int:
        async with connection.transaction():
            old = await connection.fetch(self._sql["pick_old"], state, before, limit)
            of_slots = [job_id for job_id, scheduled in old if scheduled]
            if of_slots:
                await connection.execute(self._sql["keep_outcomes"], of_slots)
            status = await connection.execute(self._sql["prune"], [job_id for job_id, _ in old])
        return int(status.split()[-1])

    async def fold_counters(self, limit: int) -> int:
        async with self._connections.use() as connection:
            folded: int = await connection.fetchval(self._sql["fold_counters"], limit)
            return folded

    async def depth(self) -> list[Depth]:
        return [Depth(*row) for row in await self._fetch("depth", DEPTH_LIMIT)]

    # --- operators ----------------------------------------------------------------------------------------------

    async def prioritize(self, job_id: int, priority: int, *, add: bool, now: datetime) -> int | None:
        rows = await self._fetch("prioritize", job_id, priority, add, now)
        return rows[0][0] if rows else None

    async def request_cancel(self, job_id: int, claim_no: int, now: datetime) -> bool:
        asked = bool(await self._fetch("request_cancel", job_id, claim_no, now))
        self._hints.send()
        return asked

    async def pause(self, queue: str, now: datetime) -> None:
        await self._fetch("pause", queue, now)

    async def resume(self, queue: str, now: datetime) -> None:
        await self._fetch("resume", queue)
        self._hints.send()

    async def queues(self) -> list[Queue]:
        return queue_rows(
            await self._fetch("queues"),
            await self._fetch("live_counts", DEPTH_LIMIT),
            await self._fetch("totals"),
        )

    # --- nodes --------------------------------------------------------------------------------------------------

    async def register(self, node: Node) -> None:
        await self._fetch(
            "register",
            node.id,
            node.name,
            node.host,
            node.pid,
            node.boot_id,
            node.version,
            list(node.queues),
            list(node.tasks),
            node.concurrency,
            node.address,
            node.started_at,
            node.beat_at,
            node.expires_at,
            node.process_start,
            node.exclusive,
            list(node.schedules),
        )

    async def beat(self, node: UUID, now: datetime, expires_at: datetime) -> bool:
        return bool(await self._fetch("beat", node, now, expires_at))

    async def bury(self, now: datetime) -> list[Node]:
        return [node_of(row) for row in await self._fetch("bury", now)]

    async def leave(self, node: UUID, now: datetime) -> None:
        await self._fetch("leave", node, now)
        self._hints.send()

    async def nodes(self) -> list[Node]:
        return [node_of(row) for row in await self._fetch("nodes")]

    # --- waking -------------------------------------------------------------------------------------------------

    async def watch(self, wake: Wake) -> None:
        if self._listen and self._watcher is None:
            self._watcher = asyncio.get_running_loop().create_task(self._keep_listening(wake))

    async def _keep_listening(self, wake: Wake) -> None:
        """Hold one connection that listens, for as long as the store is open."""
        heard = True
        while True:
            try:
                await self._listen_once(wake)
                heard = True
            except (StoreError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                if heard:
                    _log.warning(
                        "nobody tells this process of new jobs, so it polls until it can listen again: %s", error
                    )
                heard = False
            await asyncio.sleep(1.0)

    async def _listen_once(self, wake: Wake) -> None:
        connection = await self._connections.connect()
        cut = asyncio.Event()
        connection.add_termination_listener(lambda _: cut.set())
        try:
            await connection.add_listener(CHANNEL, lambda *told: wake(told[-1] == LATER))
            wake(True)  # whatever was said while nobody listened
            await cut.wait()
        finally:
            connection.terminate()

    async def _notify(self, what: str) -> None:
        with contextlib.suppress(StoreUnavailable):
            async with self._connections.use() as connection:
                await connection.execute("select pg_notify($1, $2)", CHANNEL, what)


def _common(batch: Batch) -> tuple[Any, ...]:
    """What all jobs of a batch share, in the order of the statements."""
    max_runtime = None if batch.max_runtime is None else timedelta(seconds=batch.max_runtime)
    return (
        *(batch.task, batch.queue, batch.priority, batch.state, batch.options, batch.max_retries, max_runtime),
        *(batch.created_at, batch.visible_at, batch.deadline_at, batch.enqueued_by, batch.retry_of),
    )


def _columns(changes: Sequence[Change]) -> tuple[str, list[list[Any]]]:
    """The statement for these changes, and its arrays. `apply_plain` wants ids that ascend strictly."""
    ids = [change.id for change in changes]
    if all(map(is_plain, changes)) and len(set(ids)) == len(ids):
        fences = [change.claim_no for change in changes]
        return "apply_plain", [ids, fences, [c.started_at for c in changes], [c.ended_at for c in changes]]
    return "apply", [list(column) for column in zip(*changes, strict=True)]
