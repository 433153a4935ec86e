"""The store on PostgreSQL. The statements are in postgres.sql; here they only get their parameters and rows."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from oncue.control import PEEK_LIMIT, Note
from oncue.errors import Conflict, IdTaken, StoreError, StoreRefused, StoreUnavailable
from oncue.model import (
    STATES,
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
from oncue.store.postgres_batches import common, insert, leave_word, receipts_of
from oncue.store.postgres_desk import PostgresDesk
from oncue.store.postgres_ledger import job_of, node_of
from oncue.store.tables import LARGEST_ID, NAMED_FOR, found_word, is_plain, listing, queue_rows

ROWS_PER_STATEMENT = 10_000
CHANNEL = "oncue"
NOW, LATER = "", "later"  # what a notification says; the statements send the first
LATER_GAP = 0.1
ANSWER_SECONDS = 15.0
MIGRATION_SECONDS = 3600.0
# One migration at a time, whoever starts it; the number is arbitrary and only ours.
MIGRATION_LOCK = 0x6F6E637565


_log = logging.getLogger("oncue.store")


class PostgresStore(PostgresDesk):
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
                await connection.execute(self._sql["enqueue_one"], batch.ids[0], batch.args[0], *common(batch))
                written = set(batch.ids)
            else:
                written = await insert(connection, batch, 0, len(batch.ids), tell=tell)
            receipts = await receipts_of(connection, batch, written)
        if written and not tell:
            (self._hints if batch.state == "queued" else self._later_hints).send()
        return receipts

    async def _enqueue_in_transaction(self, batches: Sequence[Batch], in_doubt: bool) -> list[Receipt]:
        receipts: list[Receipt] = []
        async with self._connections.use() as connection, connection.transaction():
            for batch in batches:
                receipts += await self._enqueue_batch(connection, batch, in_doubt)
            await connection.execute("select pg_notify($1, $2)", CHANNEL, LATER)
        return receipts

    async def _enqueue_batch(self, connection: Connection, batch: Batch, in_doubt: bool) -> list[Receipt]:
        there = await self._touched(connection, batch) if in_doubt else {}
        answered = {job_id: receipt for job_id, receipt in there.items() if receipt is not None}
        written = there.keys() - answered.keys()
        for start in range(0, len(batch.ids), ROWS_PER_STATEMENT):
            written |= await insert(connection, batch, start, start + ROWS_PER_STATEMENT, skip=there)
        receipts = await receipts_of(connection, batch, written, answered=answered)
        if in_doubt and len(written) < len(batch.ids):
            await leave_word(connection, batch, receipts, answered)
        return receipts

    async def _touched(self, connection: Connection, batch: Batch) -> dict[int, Receipt | None]:
        """Which jobs of a batch are there; and the answer that was given instead, where another one stands for it."""
        rows = await connection.fetch(self._sql["touch"], batch.ids, batch.created_at, batch.task)
        return {job_id: None if word is None else found_word(word) for job_id, word in rows}

    async def job(self, job_id: int) -> Job | None:
        rows = await self._fetch("job", job_id)
        return job_of(rows[0]) if rows else None

    async def jobs(self, wanted: JobFilter) -> list[Job]:
        states, before = list(wanted.states or STATES), wanted.before or LARGEST_ID
        match listing(wanted):
            case "jobs":
                rows = await self._fetch("jobs", wanted.before, wanted.limit, wanted.offset)
            case "jobs_of_kinds":
                last = wanted.offset + wanted.limit
                rows = await self._fetch(
                    "jobs_of_kinds", states, wanted.queue, wanted.task, before, last, wanted.offset
                )
            case "job_with_key":
                rows = await self._fetch("job_with_key", wanted.task, wanted.key)
            case name:
                sought = (states, wanted.queue, wanted.task, wanted.key, before, wanted.limit, wanted.offset)
                rows = await self._fetch(name, *sought)
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
        few: int = 0,
        alone: datetime | None = None,
        rooms: Mapping[str, int] | None = None,
    ) -> list[Claim]:
        known = rooms or {}
        rows = await self._fetch(
            "claim", node, queues, tasks, limit, now, few, [known.get(queue) for queue in queues], alone
        )
        return [Claim(*row) for row in rows]

    async def apply(self, changes: Sequence[Change], now: datetime, notes: Sequence[Note | None] = ()) -> list[bool]:
        if not changes:
            return []
        # In the order of their ids, so that two batches that meet (a result and a rescue) never lock each other up.
        places = sorted(range(len(changes)), key=lambda place: changes[place].id)
        ordered = [changes[place] for place in places]
        name, columns = _columns(ordered)
        took: list[int]
        try:
            async with self._connections.use() as connection:
                if not notes:
                    took = await connection.fetchval(self._sql[name], now, *columns)
                else:
                    async with connection.transaction():
                        took = await connection.fetchval(self._sql[name], now, *columns)
                        await self._add_notes(connection, [notes[places[ordinal - 1]] for ordinal in sorted(took)], now)
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

    async def begin(self, started: Sequence[Started]) -> list[bool]:
        rows = await self._fetch("begin", *(list(column) for column in zip(*sorted(started), strict=True)))
        begun = {tuple(row) for row in rows}
        return [(told.id, told.claim_no) in begun for told in started]

    async def held(self, node: UUID) -> list[Holding]:
        return [Holding(*row) for row in await self._fetch("held", node)]

    async def running(self, ids: Sequence[int]) -> list[Claim]:
        return [Claim(*row) for row in await self._fetch("running", ids)]

    # --- upkeep -------------------------------------------------------------------------------------------------

    async def stranded(self, now: datetime, limit: int) -> list[Claim]:
        return [Claim(*row) for row in await self._fetch("stranded", now, limit)]

    async def overdue(self, before: datetime, limit: int) -> list[Claim]:
        return [Claim(*row) for row in await self._fetch("overdue", before, limit)]

    async def expired(self, now: datetime, limit: int, among: Sequence[int] | None = None) -> list[Job]:
        name, few = ("expired", []) if among is None else ("expired_among", [list(among)])
        return [job_of(row) for row in await self._fetch(name, now, limit, *few)]

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

    async def prune(self, before: datetime, limit: int, *, noted: tuple[Note, datetime] | None = None) -> int:
        async with self._connections.use() as connection:
            gone = await self._pruned(connection, before, limit, noted)
            await connection.execute(self._sql["prune_attempts"], before, limit)
            if gone < limit:  # else there are older jobs yet, whose slots will ask for the name of their worker
                await connection.execute(self._sql["forget_nodes"], before - NAMED_FOR)
        return gone

    async def _pruned(
        self, connection: Connection, before: datetime, limit: int, noted: tuple[Note, datetime] | None
    ) -> int:
        async with connection.transaction():
            old = await connection.fetch(self._sql["pick_old"], before, limit)
            of_slots = [job_id for job_id, scheduled in old if scheduled]
            if of_slots:
                await connection.execute(self._sql["keep_outcomes"], of_slots)
            status = await connection.execute(self._sql["prune"], [job_id for job_id, _ in old])
            gone = int(status.split()[-1])
            if gone and noted is not None:
                await self._add_notes(connection, [noted[0]._replace(after={"jobs": gone})], noted[1])
        return gone

    async def fold_counters(self, limit: int) -> int:
        async with self._connections.use() as connection:
            folded: int = await connection.fetchval(self._sql["fold_counters"], limit)
            return folded

    async def depth(self) -> list[Depth]:
        return [Depth(*row) for row in await self._fetch("depth", DEPTH_LIMIT)]

    async def kept_apart(self) -> dict[int, int]:
        return dict(map(tuple, await self._fetch("kept_apart", DEPTH_LIMIT)))

    # --- operators ----------------------------------------------------------------------------------------------

    async def prioritize(
        self, job_id: int, known: int, priority: int, now: datetime, *, note: Note | None = None
    ) -> bool:
        return await self._noted("prioritize", now, note, job_id, known, priority, now)

    async def request_cancel(self, job_id: int, claim_no: int, now: datetime, *, note: Note | None = None) -> bool:
        asked = await self._noted("request_cancel", now, note, job_id, claim_no, now)
        self._hints.send()
        return asked

    async def pause(self, queue: str, now: datetime, *, note: Note | None = None) -> bool:
        return await self._noted("pause", now, note, queue, now)

    async def resume(self, queue: str, now: datetime, *, note: Note | None = None) -> bool:
        opened = await self._noted("resume", now, note, queue)
        self._hints.send()
        return opened

    async def queues(self, *, peek: bool = False) -> list[Queue]:
        return queue_rows(
            await self._fetch("queues"),
            await self.count(PEEK_LIMIT if peek else DEPTH_LIMIT),
            await self._fetch("totals"),
            await self.last_sample() if peek else None,
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
            node.beat_no,
        )

    async def beat(self, node: UUID, now: datetime, expires_at: datetime, number: int = 0) -> bool:
        return bool(await self._fetch("beat", node, now, expires_at, number))

    async def bury(self, now: datetime) -> list[Node]:
        return [node_of(row) for row in await self._fetch("bury", now)]

    async def next_lease_end(self) -> datetime | None:
        rows = await self._fetch("next_lease_end")
        found: datetime | None = rows[0][0]
        return found

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


def _columns(changes: Sequence[Change]) -> tuple[str, list[list[Any]]]:
    """The statement for these changes, and its arrays. `apply_plain` wants ids that ascend strictly."""
    ids = [change.id for change in changes]
    if all(map(is_plain, changes)) and len(set(ids)) == len(ids):
        fences = [change.claim_no for change in changes]
        return "apply_plain", [ids, fences, [c.started_at for c in changes], [c.ended_at for c in changes]]
    return "apply", [list(column) for column in zip(*changes, strict=True)]
