"""The store on PostgreSQL. The statements are in postgres.sql; here they only get their parameters and rows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from oncue.errors import Conflict, IdTaken, RowLocked, StoreError, StoreRefused, StoreUnavailable
from oncue.model import (
    PEEK_LIMIT,
    STATES,
    Attempt,
    Batch,
    Change,
    Claim,
    Depth,
    HeldClaim,
    Job,
    JobFilter,
    Node,
    Note,
    PriorityLevel,
    Queue,
    Receipt,
    Started,
    State,
)
from oncue.store import statements
from oncue.store.connections import Connection, Connections
from oncue.store.contract import DEPTH_LIMIT, Wake
from oncue.store.hints import Debounce
from oncue.store.postgres_batches import Patient, Written, insert, receipts_of, write_all
from oncue.store.postgres_desk import PostgresDesk
from oncue.store.postgres_ledger import job_of, node_of
from oncue.store.tables import LARGEST_ID, NAMED_FOR, is_plain, listing, note_columns, note_row, queue_rows

MANY_ROWS = 10_000
SLOWEST_ROWS_PER_SECOND = 1000
"""A slow database writes so many at least: an answer about very many jobs is waited for accordingly."""
CHANNEL = "oncue"
NOW, LATER = "", "later"  # what a notification says; the statements send the first
LATER_GAP = 0.1
ANSWER_SECONDS = 15.0
MANY_COUNTS = 2000
"""Of more rows than that, values are made in a thread: the event loop has others to serve."""
MIGRATION_SECONDS = 3600.0
MIGRATION_LOCK_SECONDS = 60
# One migration at a time, whoever starts it; the number is arbitrary and only ours.
MIGRATION_LOCK = 0x6F6E637565


_log = logging.getLogger("oncue.store")


class PostgresStore(PostgresDesk):
    dialect = "postgres"

    def __init__(
        self, dsn: str, *, size: int = 6, prepare: bool = True, listen: bool = True, patience: float | None = None
    ) -> None:
        self._patience = patience or ANSWER_SECONDS
        self._connections = Connections(dsn, size, prepare=prepare, timeout=self._patience)
        self._sql = statements.load(self.dialect)
        self._hints = Debounce(lambda: self._notify(NOW))
        self._later_hints = Debounce(lambda: self._notify(LATER), gap=LATER_GAP)
        self._listen = listen
        self._can_notify = True
        self._watcher: asyncio.Task[None] | None = None

    # --- life ---------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        statements.check_version(self.dialect, await self.version())

    async def close(self) -> None:
        try:
            await self._hints.close()
            await self._later_hints.close()
            if self._watcher is not None:
                self._watcher.cancel()
                await asyncio.gather(self._watcher, return_exceptions=True)
        finally:  # also when the caller is cut off
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
            await connection.execute(f"set local lock_timeout = '{MIGRATION_LOCK_SECONDS}s'")
            await connection.execute(
                "select pg_advisory_xact_lock($1)", MIGRATION_LOCK, timeout=MIGRATION_LOCK_SECONDS + ANSWER_SECONDS
            )
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
                if len(batches) == 1 and len(batches[0].ids) <= MANY_ROWS and not in_doubt:
                    return await self._enqueue_at_once(batches[0])
                return await self._enqueue_all(batches, in_doubt)
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
            written = await insert(connection, batch, 0, len(batch.ids), tell=tell)
            receipts = await receipts_of(Written(connection), batch, written)
        if written and not tell:
            (self._hints if batch.state == "queued" else self._later_hints).send()
        return receipts

    async def _enqueue_all(self, batches: Sequence[Batch], in_doubt: bool) -> list[Receipt]:
        """Jobs of several kinds, or very many: one statement writes them, whatever their number.

        What is asked before it and after it needs no transaction around it. In doubt, the rows of the first call are
        there or not, all of them; if that call arrives in between, one of the two finds its ids taken.
        """
        rows = sum(len(batch.ids) for batch in batches)
        async with self._connections.use() as connection:
            patient = Patient(connection, self._patience + rows / SLOWEST_ROWS_PER_SECOND)
            receipts = await write_all(patient, batches, in_doubt=in_doubt)
        self._hint({batch.state for batch in batches})
        return receipts

    async def job(self, job_id: int) -> Job | None:
        rows = await self._fetch("job", job_id)
        return job_of(rows[0]) if rows else None

    async def jobs(self, wanted: JobFilter) -> list[Job]:
        states, before = list(wanted.states or STATES), wanted.before or LARGEST_ID
        match name := listing(wanted):
            case "jobs" | "jobs_short":
                rows = await self._fetch(name, wanted.before, wanted.limit, wanted.offset)
            case "jobs_of_kinds" | "jobs_of_kinds_short":
                last = wanted.offset + wanted.limit
                rows = await self._fetch(name, states, wanted.queue, wanted.task, before, last, wanted.offset)
            case "job_with_key" | "job_with_key_short":
                rows = await self._fetch(name, wanted.task, wanted.key)
            case _:
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

    async def apply(
        self,
        changes: Sequence[Change],
        now: datetime,
        notes: Sequence[Note | None] = (),
        *,
        past_locks: bool = False,
    ) -> list[bool | None]:
        if not changes:
            return []
        # In the order of their ids, so that two batches that meet (a result and a rescue) never lock each other up.
        places = sorted(range(len(changes)), key=lambda place: changes[place].id)
        ordered, lines = [changes[place] for place in places], [notes[place] for place in places] if notes else []
        try:
            took, locked = await self._applied(ordered, now, lines, past_locks)
        except RowLocked:
            if notes or past_locks:
                raise
            return await self.apply(changes, now, past_locks=True)
        except StoreError as error:
            if getattr(error.__cause__, "constraint_name", None) == "oncue_jobs_key":
                raise Conflict("another unfinished job of this task has the same key") from error
            raise
        if len(took) == len(changes):
            return [True] * len(changes)
        answers: list[bool | None] = [False] * len(changes)
        for answer, ordinals in ((True, took), (None, locked)):
            for ordinal in ordinals:
                answers[places[ordinal - 1]] = answer
        return answers

    async def _applied(
        self, changes: Sequence[Change], now: datetime, notes: Sequence[Note | None], past_locks: bool
    ) -> tuple[list[int], list[int]]:
        """The places, counted from 1, of the changes that took, and of those whose rows another session holds."""
        name, columns = _columns(changes, plainly=not (notes or past_locks))
        if notes:
            name, columns = "apply_noted", [*columns, *note_columns(notes), None, None]
        elif past_locks:
            name = "apply_free"
        (answer,) = await self._fetch(name, now, *columns)
        if name != "apply_plain":
            self._hint({change.state for change in changes})
        return answer[0], answer[1] if past_locks else []

    def _hint(self, states: set[State]) -> None:
        """Jobs took these states: tell whoever may claim them, now or later."""
        if "queued" in states:
            self._hints.send()
        if not states.isdisjoint(("scheduled", "retrying")):
            self._later_hints.send()

    async def mark_started(self, started: Sequence[Started]) -> list[int]:
        if not started:
            return []
        columns = (list(column) for column in zip(*sorted(started), strict=True))
        return [row[0] for row in await self._fetch_past_locks("mark_started", *columns)]

    async def begin(self, started: Sequence[Started]) -> list[bool | None]:
        columns = (list(column) for column in zip(*sorted(started), strict=True))
        rows = await self._fetch_past_locks("begin", *columns)
        begun = {(job_id, claim_no): None if locked else True for job_id, claim_no, locked in rows}
        return [begun.get((told.id, told.claim_no), False) for told in started]

    async def held(self, node: UUID) -> list[HeldClaim]:
        return [HeldClaim(*row) for row in await self._fetch("held", node)]

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

    async def lanes(self) -> list[PriorityLevel]:
        return [PriorityLevel(*row) for row in await self._fetch("lanes")]

    async def age(
        self, lane: PriorityLevel, round_no: int, waiting_since: datetime, gain: int, limit: int, now: datetime
    ) -> int:
        async with self._connections.use() as connection:
            status = await connection.execute(
                self._sql["age"], round_no, lane.queue, lane.priority, waiting_since, gain, now, limit
            )
        return int(status.split()[-1])

    async def prune(self, before: datetime, limit: int, *, noted: tuple[Note, datetime] | None = None) -> int:
        note, now = (None, None) if noted is None else noted
        line = [None] * 4 if note is None else note_row(note)[:4]
        gone: int = (await self._fetch("prune", now, *line, before, limit))[0][0]
        await self._fetch("prune_attempts", before, limit)
        if gone < limit:  # else there are older jobs yet, whose slots will ask for the name of their worker
            await self._fetch("forget_nodes", before - NAMED_FOR)
        return gone

    async def fold_counters(self, limit: int) -> int:
        folded: int = (await self._fetch_past_locks("fold_counters", limit))[0][0]
        return folded

    async def depth(self) -> list[Depth]:
        return [Depth(*row) for row in await self._fetch("depth", DEPTH_LIMIT)]

    async def kept_apart(self) -> dict[int, int]:
        return dict(map(tuple, await self._fetch("kept_apart", DEPTH_LIMIT)))

    # --- operators ----------------------------------------------------------------------------------------------

    async def prioritize(
        self, job_id: int, known: int, priority: int, now: datetime, *, note: Note | None = None
    ) -> bool:
        return await self._noted("prioritize", now, note, job_id, known, priority)

    async def request_cancel(self, job_id: int, claim_no: int, now: datetime, *, note: Note | None = None) -> bool:
        asked = await self._noted("request_cancel", now, note, job_id, claim_no)
        self._hints.send()
        return asked

    async def pause(self, queue: str, now: datetime, *, note: Note | None = None) -> bool:
        return await self._noted("pause", now, note, queue)

    async def resume(self, queue: str, now: datetime, *, note: Note | None = None) -> bool:
        opened = await self._noted("resume", now, note, queue)
        self._hints.send()
        return opened

    async def queues(self, *, peek: bool = False) -> list[Queue]:
        rows, live = await self._fetch("queues"), await self.count(PEEK_LIMIT if peek else DEPTH_LIMIT)
        totals, sample = await self._fetch("totals"), await self.last_sample() if peek else None
        if len(live) + len(totals) < MANY_COUNTS:
            return queue_rows(rows, live, totals, sample)
        return await asyncio.to_thread(queue_rows, rows, live, totals, sample)

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
        return [node_of(row) for row in await self._fetch_past_locks("bury", now)]

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
        """Send a hint in the background. While the database is away, the others tell of that."""
        try:
            async with self._connections.use() as connection:
                await connection.execute("select pg_notify($1, $2)", CHANNEL, what)
            self._can_notify = True
        except StoreUnavailable:
            pass
        except StoreError as error:
            if self._can_notify:
                _log.warning("this process cannot tell others of new jobs, so they find them by polling: %s", error)
            self._can_notify = False


def _columns(changes: Sequence[Change], *, plainly: bool) -> tuple[str, list[Any]]:
    """The statement for these changes, and its arrays. `apply_plain` wants ids that ascend strictly."""
    ids = [change.id for change in changes]
    if plainly and all(map(is_plain, changes)) and len(set(ids)) == len(ids):
        fences = [change.claim_no for change in changes]
        return "apply_plain", [ids, fences, [c.started_at for c in changes], [c.ended_at for c in changes]]
    return "apply", [list(column) for column in zip(*changes, strict=True)]
