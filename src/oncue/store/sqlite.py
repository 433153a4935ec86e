"""The store on SQLite. The statements are in sqlite.sql; here they only get their parameters and rows."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from oncue import model
from oncue.clock import wall
from oncue.errors import Conflict, IdTaken, StoreError, StoreRefused
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
    Queue,
    Receipt,
    Started,
)
from oncue.store import sqlite_file, statements
from oncue.store import sqlite_values as values
from oncue.store.contract import DEPTH_LIMIT, Wake
from oncue.store.lanes import InlineLane, Lane, ThreadLane
from oncue.store.sqlite_desk import SqliteDesk
from oncue.store.sqlite_identity import MEMORY, check_files
from oncue.store.sqlite_ledger import array_of, rows_of
from oncue.store.tables import LARGEST_ID, NAMED_FOR, is_plain, listing, queue_rows, recorded_receipt, sizes

OLDEST_SQLITE = (3, 38, 0)
BUSY_SECONDS = 30.0
NOTICE_SECONDS = 0.02


class _Fenced(Exception):
    """A change does not hold any more, so that nothing of its batch is written."""


class SqliteStore(SqliteDesk):
    """One file, any number of processes on one host. `inline` keeps everything in the caller's thread."""

    dialect = "sqlite"

    def __init__(
        self,
        path: str,
        *,
        inline: bool = False,
        wall: Callable[[], datetime] = wall,
        migrate: bool = True,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        self.path = path
        self._file = path if path == MEMORY else os.path.abspath(path)  # the process may change its folder
        self._inline = inline
        self._wall = wall
        self._migrate = migrate
        self._busy_seconds = busy_seconds
        self._rounds = (
            1 if inline or busy_seconds >= BUSY_SECONDS else max(1, round(busy_seconds / sqlite_file.HURRY_SECONDS))
        )
        self._sql = statements.load(self.dialect)
        self._writer: Lane
        self._reader: Lane
        self._lanes: list[Lane] = []
        self._found_some = False
        self._watch: asyncio.Task[None] | None = None

    # --- life ---------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            wanted = ".".join(map(str, OLDEST_SQLITE))
            raise StoreError(f"oncue needs SQLite {wanted} or newer, this Python has {sqlite3.sqlite_version}")
        if self._inline:
            self._writer = self._reader = InlineLane(self._connect())
            self._lanes.append(self._writer)
        else:
            self._writer = await self._opened("oncue-writer", checkpoints=True)
            self._reader = await self._opened("oncue-reader", checkpoints=False)
        if self._migrate:
            await self.migrate()
        statements.check_version(self.dialect, await self.version())

    async def _opened(self, name: str, *, checkpoints: bool) -> ThreadLane:
        lane = ThreadLane(lambda: self._connect(checkpoints), name, self._rounds, check_files)
        await lane.open()
        self._lanes.append(lane)
        return lane

    def _connect(self, checkpoints: bool = True) -> sqlite3.Connection:
        return sqlite_file.connect(self._file, self._busy_seconds, checkpoints=checkpoints, hurried=self._rounds > 1)

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        while self._lanes:
            await self._lanes.pop().close()

    async def version(self) -> int:
        """The number of the last migration, 0 on an empty database."""
        return await self._reader.read(sqlite_file.version)

    async def migrate(self) -> list[str]:
        known = statements.migrations(self.dialect)
        if await self.version() >= known[-1].number:
            return []
        return await self._writer.write(lambda connection: sqlite_file.migrated(connection, known))

    async def time(self) -> datetime:
        mark = await self._value("high_water")
        return max(self._wall(), values.instant(mark))

    # --- making and reading jobs --------------------------------------------------------------------------------

    async def reserve(self, count: int) -> list[int]:
        def work(connection: sqlite3.Connection) -> int:
            (last,) = connection.execute(self._sql["reserve"], {"count": count}).fetchall()[0]
            return int(last)

        last = await self._writer.write(work)
        return list(range(last - count + 1, last + 1))

    async def enqueue(self, batches: Sequence[Batch], *, in_doubt: bool = False) -> list[Receipt]:
        def work(connection: sqlite3.Connection) -> list[Receipt]:
            return [receipt for batch in batches for receipt in self._enqueued(connection, batch, in_doubt)]

        try:
            return await self._writer.write(work)
        except StoreRefused as error:
            if getattr(error.__cause__, "sqlite_errorname", None) == "SQLITE_CONSTRAINT_PRIMARYKEY":
                raise IdTaken(f"a reserved id belongs to another job: {error}") from error
            raise

    def _enqueued(self, connection: sqlite3.Connection, batch: Batch, in_doubt: bool) -> list[Receipt]:
        there: dict[int, Receipt | None] = {}
        if in_doubt:
            connection.execute(self._sql["touch"], values.identity(batch))
            there = self._written(connection, batch)
        connection.execute(self._sql["enqueue"], values.batch(batch, skip=there))
        if batch.keys is None:
            return [Receipt(job_id, batch.created_at, True) for job_id in batch.ids]
        standing = rows_of(connection, self._sql["standing"], values.keys(batch))
        receipts = values.receipts(batch, self._written(connection, batch), standing)
        if in_doubt and (duplicates := values.unrecorded_duplicates(batch, receipts, there)) is not None:
            connection.execute(self._sql["record_duplicates"], duplicates)
            connection.execute(self._sql["count_duplicates"], duplicates)
        return receipts

    def _written(self, connection: sqlite3.Connection, batch: Batch) -> dict[int, Receipt | None]:
        """Which jobs of a batch are there; and the answer that was given instead, where another one stands for it."""
        found = rows_of(connection, self._sql["written"], values.identity(batch))
        return {job_id: None if record is None else recorded_receipt(record) for job_id, record in found}

    async def job(self, job_id: int) -> Job | None:
        rows = await self._rows("job", job_id=job_id)
        return values.job(rows[0]) if rows else None

    async def jobs(self, wanted: JobFilter) -> list[Job]:
        rows = await self._reader.read(lambda connection: self._listed(connection, wanted))
        if not wanted.short:
            return [values.job(row) for row in rows]
        return [replace(values.job(row[:-3]), shortened=sizes(*row[-3:])) for row in rows]

    def _listed(self, connection: sqlite3.Connection, wanted: JobFilter) -> list[Any]:
        last = wanted.offset + wanted.limit
        parameters = {
            "states": json.dumps(wanted.states or STATES),
            "queue": wanted.queue,
            "task": wanted.task,
            "key": wanted.key,
            "before": wanted.before or LARGEST_ID,
            "limit": wanted.limit,
            "offset": wanted.offset,
        }
        match listing(wanted):
            case "jobs_of_kinds":
                return self._of_kinds(connection, parameters, wanted.offset, last, "jobs_by_ids")
            case "jobs_of_kinds_short":
                return self._of_kinds(connection, parameters, wanted.offset, last, "jobs_by_ids_short")
            case name:
                return connection.execute(self._sql[name], parameters).fetchall()

    def _of_kinds(
        self, connection: sqlite3.Connection, parameters: dict[str, Any], first: int, last: int, by_ids: str
    ) -> list[Any]:
        connection.execute("savepoint listing")  # so that both statements see the same
        try:
            kinds = connection.execute(self._sql["newest_of_kinds"], {**parameters, "limit": last}).fetchall()
            ids = sorted((job_id for (kind,) in kinds for job_id in json.loads(kind)), reverse=True)[first:last]
            return connection.execute(self._sql[by_ids], {"ids": json.dumps(ids)}).fetchall()
        finally:
            connection.execute("release listing")

    async def attempts(self, job_id: int) -> list[Attempt]:
        rows = await self._rows("attempts", job_id=job_id)
        return [
            Attempt(
                row[0],
                row[1],
                row[2],
                values.uuid(row[3]),
                values.instant(row[4]),
                values.instant_or_none(row[5]),
                row[6],
                row[7],
            )
            for row in rows
        ]

    # --- the hot path -------------------------------------------------------------------------------------------

    async def promote(self, now: datetime, limit: int) -> datetime | None:
        due = await self._value("next_due")
        if due is None or due > values.micros(now):
            return values.instant_or_none(due)

        def work(connection: sqlite3.Connection) -> int | None:
            connection.execute(self._sql["promote"], {"now": values.micros(now), "limit": limit})
            left: int | None = connection.execute(self._sql["next_due"]).fetchone()[0]
            return left

        return values.instant_or_none(await self._writer.write(work))

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
        if not self._found_some and not await self._reader.read(self._is_any_queued):
            return []
        rooms = rooms or {}
        lookup = {
            "node": str(node),
            "now": values.micros(now),
            "queues": json.dumps(list(queues)),
            "tasks": json.dumps(list(tasks)),
            "rooms": json.dumps(rooms),
            "alone": values.micros_or_none(alone),
        }
        # Looking costs no lock: an idle worker writes nothing. While claims find something, it need not look first.
        if not self._found_some:
            self._found_some = bool(
                await self._reader.read(lambda connection: self._best(connection, lookup, limit, rooms, few))
            )
        if not self._found_some:
            return []

        def work(connection: sqlite3.Connection) -> str:
            taken = {**lookup, "ids": json.dumps(self._best(connection, lookup, limit, rooms, few))}
            connection.execute(self._sql["take"], taken)
            return array_of(connection, self._sql["taken"], taken)

        claims = values.claims(json.loads(await self._writer.write(work)))
        self._found_some = bool(claims)
        return claims

    def _is_any_queued(self, connection: sqlite3.Connection) -> bool:
        """The cheapest of all questions: most looks of an idle worker end here."""
        return bool(connection.execute(self._sql["any_queued"]).fetchone()[0])

    def _best(
        self,
        connection: sqlite3.Connection,
        lookup: dict[str, Any],
        limit: int,
        rooms: Mapping[str, int],
        few: int,
    ) -> list[int]:
        found = connection.execute(self._sql["best"], {**lookup, "limit": limit}).fetchall()
        apart: list[tuple[int, int, int, str]] = []
        if any(restricted for *_, restricted in found):
            if alone := self._ranked(connection, "alone", lookup, {queue: 1 for queue, *_ in found}):
                return [job_id for _, _, job_id, _ in alone[:1]]
            apart = self._ranked(
                connection, "few", lookup, {queue: min(few, rooms.get(queue, few)) for queue, *_ in found}
            )
            apart = apart[: min(few, limit)]
        taken = Counter(queue for *_, queue in apart)
        limit -= len(apart)
        best: list[tuple[int, int, int]] = []
        for queue, jobs, _ in found:
            room = min(limit, rooms[queue] - taken[queue]) if queue in rooms else limit
            best += map(tuple, json.loads(jobs)[: max(room, 0)])
        ranked = sorted([job[:3] for job in apart] + sorted(best)[:limit])
        return [job_id for _, _, job_id in ranked]

    def _ranked(
        self, connection: sqlite3.Connection, name: str, lookup: dict[str, Any], most: Mapping[str, int]
    ) -> list[tuple[int, int, int, str]]:
        """The best of each queue, so many at most, best first: priority (less it), age, id and queue."""
        found: list[tuple[int, int, int, str]] = []
        for queue, limit in most.items():
            if limit > 0:
                rows = rows_of(connection, self._sql[name], {**lookup, "queue": queue, "limit": limit})
                found += [(priority, order_at, job_id, queue) for priority, order_at, job_id in rows]
        return sorted(found)

    async def apply(
        self,
        changes: Sequence[Change],
        now: datetime,
        notes: Sequence[Note | None] = (),
        *,
        past_locks: bool = False,  # here no row is ever locked: a writer has the whole file, or waits for it
    ) -> list[bool | None]:
        if not changes:
            return []

        if all(map(is_plain, changes)) and not notes:
            plain = values.plain_changes(changes, now)
            with contextlib.suppress(_Fenced):
                await self._writer.write(lambda connection: self._apply_plain(connection, plain, len(changes)))
                return [True] * len(changes)

        def work(connection: sqlite3.Connection) -> set[int]:
            took = self._applied(connection, changes, now)
            if notes:
                self._add_notes(connection, [notes[ordinal] for ordinal in sorted(took)], now)
            return took

        try:
            took = await self._writer.write(work)
        except StoreError as error:
            if getattr(error.__cause__, "sqlite_errorname", None) == "SQLITE_CONSTRAINT_UNIQUE":
                raise Conflict("another unfinished job of this task has the same key") from error
            raise
        return [ordinal in took for ordinal in range(len(changes))]

    def _apply_plain(self, connection: sqlite3.Connection, parameters: dict[str, Any], count: int) -> None:
        """Write plain successes, all of them or, if one was fenced, none: which one it is, is told by the long way."""
        if connection.execute(self._sql["apply_plain"], parameters).rowcount != count:
            raise _Fenced
        connection.execute(self._sql["count_plain"], parameters)

    def _applied(self, connection: sqlite3.Connection, changes: Sequence[Change], now: datetime) -> set[int]:
        connection.execute(self._sql["forget_changes"])
        rows = json.dumps([values.change_row(change) for change in changes])
        connection.execute(self._sql["load_changes"], {"changes": rows})
        connection.execute(self._sql["drop_stale_changes"])
        connection.execute(self._sql["drop_second_changes"])
        connection.execute(self._sql["history"])
        connection.execute(self._sql["count"])
        connection.execute(self._sql["apply"], {"now": values.micros(now)})
        return set(rows_of(connection, self._sql["took"], {}))

    async def mark_started(self, started: Sequence[Started]) -> list[int]:
        rows = [(mark.id, mark.claim_no, values.micros(mark.started_at)) for mark in started]
        await self._write("mark_started", started=json.dumps(rows))
        return []

    async def begin(self, started: Sequence[Started]) -> list[bool | None]:
        rows = [(told.id, told.claim_no, values.micros(told.started_at)) for told in started]

        def work(connection: sqlite3.Connection) -> set[tuple[int, int]]:
            return set(connection.execute(self._sql["begin"], {"started": json.dumps(rows)}).fetchall())

        begun = await self._writer.write(work)
        return [(told.id, told.claim_no) in begun for told in started]

    async def held(self, node: UUID) -> list[HeldClaim]:
        return [HeldClaim(row[0], row[1], bool(row[2])) for row in await self._rows("held", node=str(node))]

    async def running(self, ids: Sequence[int]) -> list[Claim]:
        return await self._claims("running", ids=json.dumps(list(ids)))

    # --- upkeep -------------------------------------------------------------------------------------------------

    async def stranded(self, now: datetime, limit: int) -> list[Claim]:
        return await self._claims("stranded", now=values.micros(now), limit=limit)

    async def overdue(self, before: datetime, limit: int) -> list[Claim]:
        return await self._claims("overdue", before=values.micros(before), limit=limit)

    async def expired(self, now: datetime, limit: int, among: Sequence[int] | None = None) -> list[Job]:
        name, few = ("expired", {}) if among is None else ("expired_among", {"ids": json.dumps(list(among))})
        return [values.job(row) for row in await self._rows(name, now=values.micros(now), limit=limit, **few)]

    async def _claims(self, name: str, **parameters: Any) -> list[Claim]:
        rows = await self._reader.read(lambda connection: rows_of(connection, self._sql[name], parameters))
        return values.claims(rows)

    async def lanes(self) -> list[model.PriorityLevel]:
        return [model.PriorityLevel(*row) for row in await self._rows("lanes")]

    async def age(
        self, lane: model.PriorityLevel, round_no: int, waiting_since: datetime, gain: int, limit: int, now: datetime
    ) -> int:
        return await self._write(
            "age",
            round_no=round_no,
            waiting_since=values.micros(waiting_since),
            gain=gain,
            limit=limit,
            now=values.micros(now),
            queue=lane.queue,
            priority=lane.priority,
        )

    async def prune(self, before: datetime, limit: int, *, noted: tuple[Note, datetime] | None = None) -> int:
        def work(connection: sqlite3.Connection) -> int:
            parameters = {"before": values.micros(before), "limit": limit}
            old = {"ids": json.dumps(rows_of(connection, self._sql["pick_old"], parameters))}
            connection.execute(self._sql["keep_outcomes"], old)
            gone = connection.execute(self._sql["prune"], old).rowcount
            if gone and noted is not None:
                self._add_notes(connection, [noted[0]._replace(after={"jobs": gone})], noted[1])
            connection.execute(self._sql["prune_attempts"], {"before": values.micros(before), "limit": limit})
            if gone < limit:  # else there are older jobs yet, whose slots will ask for the name of their worker
                connection.execute(self._sql["forget_nodes"], {"before": values.micros(before - NAMED_FOR)})
            return gone

        return await self._writer.write(work)

    async def fold_counters(self, limit: int) -> int:
        def work(connection: sqlite3.Connection) -> int:
            connection.execute(self._sql["fold_into_totals"], {"limit": limit})
            return connection.execute(self._sql["drop_folded"], {"limit": limit}).rowcount

        return await self._writer.write(work)

    async def depth(self) -> list[Depth]:
        return [Depth(*row) for row in await self._rows("depth", limit=DEPTH_LIMIT)]

    async def kept_apart(self) -> dict[int, int]:
        return dict(await self._rows("kept_apart", limit=DEPTH_LIMIT))

    # --- operators ----------------------------------------------------------------------------------------------

    async def prioritize(
        self, job_id: int, known: int, priority: int, now: datetime, *, note: Note | None = None
    ) -> bool:
        return await self._noted(
            "prioritize", now, note, job_id=job_id, known=known, priority=priority, now=values.micros(now)
        )

    async def request_cancel(self, job_id: int, claim_no: int, now: datetime, *, note: Note | None = None) -> bool:
        return await self._noted("request_cancel", now, note, job_id=job_id, claim_no=claim_no, now=values.micros(now))

    async def pause(self, queue: str, now: datetime, *, note: Note | None = None) -> bool:
        return await self._noted("pause", now, note, queue=queue, now=values.micros(now))

    async def resume(self, queue: str, now: datetime, *, note: Note | None = None) -> bool:
        return await self._noted("resume", now, note, queue=queue)

    async def queues(self, *, peek: bool = False) -> list[Queue]:
        rows, live = await self._rows("queues"), await self.count(PEEK_LIMIT if peek else DEPTH_LIMIT)
        totals, sample = await self._rows("totals"), await self.last_sample() if peek else None
        settings = [(name, values.instant_or_none(paused_at), *limits) for name, paused_at, *limits in rows]
        # In the lane's thread: of twenty thousand queues it takes a tenth of a second.
        return await self._reader.read(lambda _: queue_rows(settings, live, totals, sample))

    # --- nodes --------------------------------------------------------------------------------------------------

    async def register(self, node: Node) -> None:
        parameters = values.registration(node)

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(self._sql["free_own_seats"], parameters)
            connection.execute(self._sql["register"], parameters)

        await self._writer.write(work)

    async def beat(self, node: UUID, now: datetime, expires_at: datetime, number: int = 0) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            times = {"now": values.micros(now), "expires_at": values.micros(expires_at)}
            connection.execute(self._sql["tide"], {"now": values.micros(now)})
            return connection.execute(self._sql["beat"], {"node": str(node), "number": number, **times}).rowcount == 1

        return await self._writer.write(work)

    async def bury(self, now: datetime) -> list[Node]:
        # Most passes find nobody: look first, without a lock.
        if all(node.expires_at > now for node in await self.nodes()):
            return []

        def work(connection: sqlite3.Connection) -> list[Any]:
            return connection.execute(self._sql["bury"], {"now": values.micros(now)}).fetchall()

        return [values.node(row) for row in await self._writer.write(work)]

    async def next_lease_end(self) -> datetime | None:
        return values.instant_or_none(await self._value("next_lease_end"))

    async def leave(self, node: UUID, now: datetime) -> None:
        parameters = {"node": str(node), "now": values.micros(now)}

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(self._sql["tide"], {"now": values.micros(now)})
            connection.execute(self._sql["leave"], parameters)

        await self._writer.write(work)

    async def nodes(self) -> list[Node]:
        return [values.node(row) for row in await self._rows("nodes")]

    # --- waking -------------------------------------------------------------------------------------------------

    async def watch(self, wake: Wake) -> None:
        if not self._inline and self._watch is None:
            self._watch = asyncio.get_running_loop().create_task(self._notice(wake))

    async def _notice(self, wake: Wake) -> None:
        """SQLite counts the commits of other connections. Reading that count takes microseconds and no lock."""
        seen = None
        while True:
            with contextlib.suppress(StoreError):  # whoever writes will hear of it; here it only delays a hint
                version = await self._reader.read(sqlite_file.data_version)
                if version != seen:
                    seen = version
                    wake(True)
            await asyncio.sleep(NOTICE_SECONDS)
