"""Jobs on SQLite. The statements are in jobs.sql."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from oncue.errors import Conflict, IdTaken, StoreError, StoreRefused
from oncue.model import (
    STATES,
    Applied,
    Attempt,
    Batch,
    Change,
    Claim,
    HeldClaim,
    Job,
    JobCount,
    JobFilter,
    Note,
    Outlook,
    PriorityLevel,
    Progress,
    Receipt,
    Started,
    ToldDetails,
)
from oncue.store.shared import (
    LARGEST_ID,
    NAMED_FOR,
    Endings,
    alike,
    endings,
    listing,
    loaded,
    plain_columns,
    recorded_receipt,
    sizes,
)
from oncue.store.sqlite import values
from oncue.store.sqlite.database import Database, array_of, rows_of
from oncue.store.statements import SHORTENED


class _Fenced(Exception):
    """A change does not hold any more, so that nothing of its batch is written."""


class SqliteJobs:
    def __init__(self, database: Database) -> None:
        self._db = database
        self._found_some = False

    async def reserve(self, count: int) -> list[int]:
        def work(connection: sqlite3.Connection) -> int:
            (last,) = connection.execute(self._db.sql["reserve"], {"count": count}).fetchall()[0]
            return int(last)

        last = await self._db.write(work)
        return list(range(last - count + 1, last + 1))

    async def enqueue(self, batches: Sequence[Batch], *, in_doubt: bool = False) -> list[Receipt]:
        def work(connection: sqlite3.Connection) -> list[Receipt]:
            return [receipt for batch in batches for receipt in self._enqueued(connection, batch, in_doubt)]

        try:
            return await self._db.write(work)
        except StoreRefused as error:
            if getattr(error.__cause__, "sqlite_errorname", None) == "SQLITE_CONSTRAINT_PRIMARYKEY":
                raise IdTaken(f"a reserved id belongs to another job: {error}") from error
            raise

    def _enqueued(self, connection: sqlite3.Connection, batch: Batch, in_doubt: bool) -> list[Receipt]:
        there: dict[int, Receipt | None] = {}
        if in_doubt:
            connection.execute(self._db.sql["touch"], values.identity(batch))
            there = self._written(connection, batch)
        self.insert(connection, batch, there)
        if batch.keys is None:
            return [Receipt(job_id, batch.created_at, True) for job_id in batch.ids]
        standing = rows_of(connection, self._db.sql["standing"], values.keys(batch))
        receipts = values.receipts(batch, self._written(connection, batch), standing)
        if in_doubt and (duplicates := values.unrecorded_duplicates(batch, receipts, there)) is not None:
            connection.execute(self._db.sql["record_duplicates"], duplicates)
            connection.execute(self._db.sql["count_duplicates"], duplicates)
        return receipts

    def insert(self, connection: sqlite3.Connection, batch: Batch, there: Container[int] = ()) -> None:
        connection.execute(self._db.sql["enqueue"], values.batch(batch, skip=there))
        if values.wakes_group(batch):
            connection.execute(self._db.sql["wake_group"], {"queue": batch.queue, "group_name": batch.group})

    def _written(self, connection: sqlite3.Connection, batch: Batch) -> dict[int, Receipt | None]:
        """Which jobs of a batch are there; and the answer that was given instead, where another one stands for it."""
        found = rows_of(connection, self._db.sql["written"], values.identity(batch))
        return {job_id: None if record is None else recorded_receipt(record) for job_id, record in found}

    async def get(self, job_id: int) -> Job | None:
        rows = await self._db.rows("job", job_id=job_id)
        return values.job(rows[0]) if rows else None

    async def find(self, wanted: JobFilter) -> list[Job]:
        rows = await self._db.read(lambda connection: self._listed(connection, wanted))
        return _jobs(rows, short=wanted.short)

    def _listed(self, connection: sqlite3.Connection, wanted: JobFilter) -> list[Any]:
        last = wanted.offset + wanted.limit
        parameters = {**_sought(wanted), "limit": wanted.limit, "offset": wanted.offset}
        match listing(wanted):
            case "jobs_of_kinds":
                return self._of_kinds(connection, parameters, wanted.offset, last, "jobs_by_ids")
            case "jobs_of_kinds_short":
                return self._of_kinds(connection, parameters, wanted.offset, last, "jobs_by_ids_short")
            case name:
                return connection.execute(self._db.sql[name], parameters).fetchall()

    def _of_kinds(
        self, connection: sqlite3.Connection, parameters: dict[str, Any], first: int, last: int, by_ids: str
    ) -> list[Any]:
        connection.execute("savepoint listing")  # so that both statements see the same
        try:
            kinds = connection.execute(self._db.sql["newest_of_kinds"], {**parameters, "limit": last}).fetchall()
            ids = sorted((job_id for (kind,) in kinds for job_id in json.loads(kind)), reverse=True)[first:last]
            return connection.execute(self._db.sql[by_ids], {"ids": json.dumps(ids)}).fetchall()
        finally:
            connection.execute("release listing")

    async def newest(self, wanted: JobFilter) -> list[int]:
        parameters = {**_sought(wanted), "limit": wanted.limit}
        statement = "newest_of_kinds" if _has_kinds(wanted) else "newest"
        lists = await self._db.rows(statement, **parameters)
        ids = sorted((job_id for (found,) in lists for job_id in json.loads(found)), reverse=True)
        return ids[: wanted.limit]

    async def among(self, ids: Sequence[int], wanted: JobFilter) -> list[Job]:
        parameters = {**_sought(wanted), "ids": json.dumps(list(ids)), "limit": wanted.limit}
        rows = await self._db.rows("jobs_among_short" if wanted.short else "jobs_among", **parameters)
        return _jobs(rows, short=wanted.short)

    async def count(self, wanted: JobFilter, look: int) -> JobCount:
        statement = f"count{'_of_kinds' if _has_kinds(wanted) else ''}{'_by_rows' if wanted.reads_rows else ''}"
        ((looked_at, matching),) = await self._db.rows(statement, **_sought(wanted), look=look)
        return JobCount(matching, looked_at)

    async def attempts(self, job_id: int) -> list[Attempt]:
        rows = await self._db.rows("attempts", job_id=job_id)
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
                loaded(row[8]),
            )
            for row in rows
        ]

    async def retries_of(self, job_id: int) -> list[Job]:
        return [values.job(row) for row in await self._db.rows("retries_of", job_id=job_id)]

    async def count_ahead(self, job: Job, limit: int) -> int:
        place = {"order_at": values.micros(job.order_at), "id": job.id, "limit": limit}
        if job.group is not None:
            name, among = "count_ahead_in_group", {"group": job.group}
        elif job.address is not None:
            name, among = "count_ahead_at_address", {"address": job.address}
        else:
            name, among = "count_ahead", {}
        rows = await self._db.rows(name, queue=job.queue, priority=job.priority, **place, **among)
        count: int = rows[0][0]
        return count

    async def promote(self, now: datetime, limit: int) -> datetime | None:
        due = await self._db.value("next_due")
        if due is None or due > values.micros(now):
            return values.instant_or_none(due)

        def work(connection: sqlite3.Connection) -> int | None:
            parameters = {"now": values.micros(now), "limit": limit}
            connection.execute(self._db.sql["wake_due"], parameters)
            connection.execute(self._db.sql["promote"], parameters)
            left: int | None = connection.execute(self._db.sql["next_due"]).fetchone()[0]
            return left

        return values.instant_or_none(await self._db.write(work))

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
        epoch: int | None = None,
    ) -> list[Claim]:
        if not self._found_some and not await self._db.read(self._is_any_queued):
            return []
        rooms = rooms or {}
        lookup = {
            "node": str(node),
            "now": values.micros(now),
            "queues": json.dumps(list(queues)),
            "tasks": json.dumps(list(tasks)),
            "rooms": json.dumps(rooms),
            "alone": values.micros_or_none(alone),
            "epoch": epoch,
        }
        # Looking costs no lock: an idle worker writes nothing. While claims find something, it need not look first.
        if not self._found_some:
            self._found_some = bool(
                await self._db.read(lambda connection: self._best(connection, lookup, limit, rooms, few))
            )
        if not self._found_some:
            return []

        def work(connection: sqlite3.Connection) -> str:
            taken = {**lookup, "ids": json.dumps(self._best(connection, lookup, limit, rooms, few))}
            connection.execute(self._db.sql["take"], taken)
            return array_of(connection, self._db.sql["taken"], taken)

        claims = values.claims(json.loads(await self._db.write(work)))
        self._found_some = bool(claims)
        return claims

    def _is_any_queued(self, connection: sqlite3.Connection) -> bool:
        """The cheapest of all questions: most looks of an idle worker end here."""
        return bool(connection.execute(self._db.sql["any_queued"]).fetchone()[0])

    def _best(
        self,
        connection: sqlite3.Connection,
        lookup: dict[str, Any],
        limit: int,
        rooms: Mapping[str, int],
        few: int,
    ) -> list[int]:
        found = connection.execute(self._db.sql["best"], {**lookup, "limit": limit}).fetchall()
        apart: list[tuple[int, int, int, str]] = []
        if any(restricted for _, _, restricted, _ in found):
            if alone := self._ranked(connection, "alone", lookup, {queue: 1 for queue, *_ in found}):
                return [job_id for _, _, job_id, _ in alone[:1]]
            apart = self._ranked(
                connection, "few", lookup, {queue: min(few, rooms.get(queue, few)) for queue, *_ in found}
            )
            apart = apart[: min(few, limit)]
        taken = Counter(queue for *_, queue in apart)
        limit -= len(apart)
        best: list[tuple[int, int, int]] = []
        for queue, jobs, _, is_addressed in found:
            room = max(min(limit, rooms[queue] - taken[queue]) if queue in rooms else limit, 0)
            mine = self._addressed(connection, lookup, queue, room) if is_addressed else []
            # Where a queue has little room, what only this node can run has it first.
            best += [*mine, *map(tuple, json.loads(jobs)[: room - len(mine) if queue in rooms else room])]
        ranked = sorted([job[:3] for job in apart] + sorted(best)[:limit])
        return [job_id for _, _, job_id in ranked]

    def _addressed(
        self, connection: sqlite3.Connection, lookup: dict[str, Any], queue: str, limit: int
    ) -> list[tuple[int, int, int]]:
        """The best of what is addressed to this node in a queue."""
        found: list[tuple[int, int, int]] = []
        for (address,) in connection.execute(self._db.sql["mine"], lookup).fetchall():
            asked = {**lookup, "queue": queue, "address": address, "limit": limit}
            found += map(tuple, rows_of(connection, self._db.sql["addressed"], asked))
        return sorted(found)[:limit]

    def _ranked(
        self, connection: sqlite3.Connection, name: str, lookup: dict[str, Any], most: Mapping[str, int]
    ) -> list[tuple[int, int, int, str]]:
        """The best of each queue, so many at most, best first: priority (less it), age, id and queue."""
        found: list[tuple[int, int, int, str]] = []
        for queue, limit in most.items():
            if limit > 0:
                rows = rows_of(connection, self._db.sql[name], {**lookup, "queue": queue, "limit": limit})
                found += [(priority, order_at, job_id, queue) for priority, order_at, job_id in rows]
        return sorted(found)

    async def apply(
        self,
        changes: Sequence[Change],
        now: datetime,
        notes: Sequence[Note | None] = (),
        *,
        past_locks: bool = False,  # here no row is ever locked: a writer has the whole file, or waits for it
        latest: datetime | None = None,
    ) -> list[Applied]:
        if not changes:
            return []

        if not notes and (columns := plain_columns(changes)) is not None:
            plain = values.plain_changes(columns, now)
            with contextlib.suppress(_Fenced):
                await self._db.write(lambda connection: self._apply_plain(connection, plain, len(changes)))
                return [True] * len(changes)

        made = endings(changes, now if latest is None else latest)

        def work(connection: sqlite3.Connection) -> set[int]:
            took = self.write_changes(connection, made, now)
            if notes:
                self._db.add_notes(connection, [notes[made.places[number]] for number in sorted(took)], now)
            return took

        try:
            took = await self._db.write(work)
        except StoreError as error:
            if getattr(error.__cause__, "sqlite_errorname", None) == "SQLITE_CONSTRAINT_UNIQUE":
                raise Conflict("another unfinished job of this task has the same key") from error
            raise
        return made.answers(took)

    def _apply_plain(self, connection: sqlite3.Connection, parameters: dict[str, Any], count: int) -> None:
        """Write plain successes, all of them or, if one was fenced, none: which one it is, is told by the long way."""
        has_groups = connection.execute(self._db.sql["any_grouped"]).fetchone()[0]
        if connection.execute(self._db.sql["apply_plain"], parameters).rowcount != count:
            raise _Fenced
        connection.execute(self._db.sql["count_plain"], parameters)
        if has_groups:
            connection.execute(self._db.sql["wake_plain"], parameters)

    def write_changes(self, connection: sqlite3.Connection, made: Endings, now: datetime) -> set[int]:
        """Write changes inside a transaction, with the jobs that follow; the numbers of the rows that took."""
        connection.execute(self._db.sql["forget_changes"])
        is_alike = made.are_alike
        if is_alike:
            connection.execute(self._db.sql["load_alike_changes"], values.alike_changes(made))
        else:
            connection.executemany(self._db.sql["load_changes"], values.change_rows(made))
        if any(row.leader is not None for row in made.rows):
            connection.execute(self._db.sql["drop_unled_changes"])
        connection.execute(self._db.sql["drop_stale_changes"])
        if not is_alike:  # there are no two for one job among those that are
            connection.execute(self._db.sql["drop_second_changes"])
        connection.execute(self._db.sql["history"])
        connection.execute(self._db.sql["count_changes"])
        connection.execute(self._db.sql["wake_changed"])
        connection.execute(self._db.sql["apply"], {"now": values.micros(now)})
        if connection.execute(self._db.sql["any_closing"]).fetchone()[0]:
            for statement in ("leave_parts_open", "count_parts", "end_parts", "stop_parts"):
                connection.execute(self._db.sql[statement], {"now": values.micros(now)})
        if any(row.day_status is not None for row in made.rows):
            connection.execute(self._db.sql["tally_finalized"])
            connection.execute(self._db.sql["finalize"], {"now": values.micros(now)})
        took = set(rows_of(connection, self._db.sql["took"], {}))
        for _, batch in alike((number, batch) for number, batch in made.follow_ups if number in took):
            self.insert(connection, batch)
        return took

    async def mark_started(self, started: Sequence[Started]) -> list[int]:
        rows = [(mark.id, mark.claim_no, values.micros(mark.started_at)) for mark in started]
        await self._db.execute("mark_started", started=json.dumps(rows))
        return []

    async def begin(self, started: Sequence[Started]) -> list[bool | None]:
        rows = [(told.id, told.claim_no, values.micros(told.started_at)) for told in started]

        def work(connection: sqlite3.Connection) -> set[tuple[int, int]]:
            return set(connection.execute(self._db.sql["begin"], {"started": json.dumps(rows)}).fetchall())

        begun = await self._db.write(work)
        return [(told.id, told.claim_no) in begun for told in started]

    async def report_details(self, told: Sequence[ToldDetails]) -> list[int]:
        await self._db.execute("report_details", told=json.dumps(told))
        return []

    async def held(self, node: UUID) -> list[HeldClaim]:
        return [HeldClaim(row[0], row[1], bool(row[2])) for row in await self._db.rows("held", node=str(node))]

    async def running(self, ids: Sequence[int]) -> list[Claim]:
        return await self._claims("running", ids=json.dumps(list(ids)))

    async def orphaned(self, now: datetime, limit: int) -> list[Claim]:
        return await self._claims("orphaned", now=values.micros(now), limit=limit)

    async def overdue(self, before: datetime, limit: int) -> list[Claim]:
        return await self._claims("overdue", before=values.micros(before), limit=limit)

    async def expired(self, now: datetime, limit: int, among: Sequence[int] | None = None) -> list[Job]:
        name, few = ("expired", {}) if among is None else ("expired_among", {"ids": json.dumps(list(among))})
        return [values.job(row) for row in await self._db.rows(name, now=values.micros(now), limit=limit, **few)]

    async def _claims(self, name: str, **parameters: Any) -> list[Claim]:
        rows = await self._db.read(lambda connection: rows_of(connection, self._db.sql[name], parameters))
        return values.claims(rows)

    async def outlook(self) -> Outlook:
        ((waiting, set_apart, addresses, orphaned, parked, *instants),) = await self._db.rows("outlook")
        due, deadline, start_by, overdue = map(values.instant_or_none, instants)
        expires_at = min((limit for limit in (deadline, start_by) if limit is not None), default=None)
        queues, apart, wanted = (frozenset(json.loads(names)) for names in (waiting, set_apart, addresses))
        return Outlook(queues, apart, wanted, bool(orphaned), bool(parked), due, expires_at, overdue)

    async def levels(self) -> list[PriorityLevel]:
        return [PriorityLevel(*row) for row in await self._db.rows("levels")]

    async def age(
        self, level: PriorityLevel, round_no: int, waiting_since: datetime, gain: int, limit: int, now: datetime
    ) -> int:
        return await self._db.execute(
            "age",
            round_no=round_no,
            waiting_since=values.micros(waiting_since),
            gain=gain,
            limit=limit,
            now=values.micros(now),
            queue=level.queue,
            priority=level.priority,
        )

    async def prune(self, before: datetime, limit: int, *, noted: tuple[Note, datetime] | None = None) -> int:
        def work(connection: sqlite3.Connection) -> int:
            parameters = {"before": values.micros(before), "limit": limit}
            old = {"ids": json.dumps(rows_of(connection, self._db.sql["pick_old"], parameters))}
            connection.execute(self._db.sql["keep_outcomes"], old)
            gone = connection.execute(self._db.sql["prune"], old).rowcount
            if connection.execute(self._db.sql["forget_cluster_jobs"], old).rowcount:
                connection.execute(self._db.sql["prune_part_jobs"], old)
                connection.execute(self._db.sql["forget_parts"], old)
            if gone and noted is not None:
                self._db.add_notes(connection, [noted[0]._replace(after={"jobs": gone})], noted[1])
            connection.execute(self._db.sql["prune_attempts"], {"before": values.micros(before), "limit": limit})
            if gone < limit:  # else there are older jobs yet, whose slots will ask for the name of their worker
                connection.execute(self._db.sql["forget_nodes"], {"before": values.micros(before - NAMED_FOR)})
            return gone

        return await self._db.write(work)

    async def prioritize(
        self, job_id: int, known: int, priority: int, now: datetime, *, note: Note | None = None
    ) -> bool:
        return await self._db.noted(
            "prioritize", now, note, job_id=job_id, known=known, priority=priority, now=values.micros(now)
        )

    async def request_cancel(self, job_id: int, claim_no: int, now: datetime, *, note: Note | None = None) -> bool:
        return await self._db.noted(
            "request_cancel", now, note, job_id=job_id, claim_no=claim_no, now=values.micros(now)
        )

    async def report_progress(self, progress: Sequence[Progress]) -> None:
        if progress:
            rows = [(*told[:4], values.micros(told.told_at)) for told in progress]
            await self._db.execute("report_progress", progress=json.dumps(rows))


def _sought(wanted: JobFilter) -> dict[str, Any]:
    return {
        "states": json.dumps(wanted.states or STATES),
        "queue": wanted.queue,
        "task": wanted.task,
        "key": wanted.key,
        "group": wanted.group,
        "address": wanted.address,
        "since": values.micros_or_none(wanted.since),
        "until": values.micros_or_none(wanted.until),
        "before": wanted.before or LARGEST_ID,
    }


def _has_kinds(wanted: JobFilter) -> bool:
    """Whether there are jobs that this leaves out for their state, queue or task."""
    return bool(wanted.states or wanted.queue or wanted.task)


def _jobs(rows: Sequence[Any], *, short: bool) -> list[Job]:
    if not short:
        return [values.job(row) for row in rows]
    few = -len(SHORTENED)
    return [replace(values.job(row[:few]), shortened=sizes(*row[few:])) for row in rows]
