"""Schedules, slots and leases on SQLite. The statements are in sqlite_ledger.sql."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from oncue.errors import Conflict, NameClash, StoreRefused
from oncue.model import (
    LONGEST_LISTING,
    PARKED,
    Change,
    Decided,
    Due,
    DuePosition,
    Job,
    Lease,
    Node,
    Note,
    Revised,
    Revision,
    Schedule,
    Slot,
    Step,
)
from oncue.store import sqlite_values as values
from oncue.store import statements
from oncue.store.lanes import Lane
from oncue.store.tables import BEGINNING

_PARKED = values.micros(PARKED)


class SqliteLedger:
    """The half of the store that keeps schedules, their slots, and who may do what alone."""

    _writer: Lane
    _reader: Lane
    _sql: Mapping[str, str]

    # --- schedules ----------------------------------------------------------------------------------------------

    async def schedule(self, name: str) -> Schedule | None:
        rows = await self._rows("schedule", name=name)
        return values.schedule(rows[0]) if rows else None

    async def schedule_by_id(self, schedule_id: int) -> Schedule | None:
        rows = await self._rows("schedule_by_id", schedule_id=schedule_id)
        return values.schedule(rows[0]) if rows else None

    async def schedules(self, after: str = "", limit: int = 100) -> list[Schedule]:
        return [values.schedule(row) for row in await self._rows("schedules", after=after, limit=limit)]

    async def declared(self, application: str) -> list[Schedule]:
        return [values.schedule(row) for row in await self._rows("declared", application=application)]

    async def revise(self, changes: Sequence[Revised], now: datetime, notes: Sequence[Note | None] = ()) -> list[bool]:
        def work(connection: sqlite3.Connection) -> list[bool]:
            took = [self._revised(connection, change, now) for change in changes]
            if notes:
                self._add_notes(connection, [note for note, wrote in zip(notes, took, strict=True) if wrote], now)
            return took

        return await self._writer.write(work)

    def _revised(self, connection: sqlite3.Connection, change: Revised, now: datetime) -> bool:
        statement = "change_schedule" if change.version else "create_schedule"
        parameters = {**values.fields(change.schedule), "id": change.schedule.id, "expected": change.version}
        if not connection.execute(self._sql[statement], parameters).rowcount:
            return False
        name = change.schedule.name
        if change.revision is not None:
            connection.execute(self._sql["add_revision"], {**values.fields(change.revision), "name": name})
        revision = change.schedule.revision - (change.revision is not None)
        decided = json.dumps([_decided_row(decided) for decided in change.decided])
        parameters = {"name": name, "revision": revision, "now": values.micros(now), "decided": decided}
        connection.execute(self._sql["give_up_slots"], parameters)
        return True

    async def revisions(self, schedule_id: int) -> list[Revision]:
        return [values.revision(row) for row in await self._rows("revisions", schedule_id=schedule_id)]

    # --- slots --------------------------------------------------------------------------------------------------

    async def due(self, now: datetime, limit: int, after: DuePosition | None = None) -> list[Due]:
        instant, number = after or BEGINNING
        rows = await self._rows(
            "due", now=values.micros(now), limit=limit, parked=_PARKED, instant=values.micros(instant), number=number
        )
        return [values.due(row) for row in rows]

    async def next_run(self) -> datetime | None:
        return values.instant_or_none(await self._value("next_run"))

    async def decide(
        self,
        steps: Sequence[Step],
        now: datetime,
        *,
        by: str,
        node: UUID | None = None,
        epoch: int | None = None,
        parked: bool = False,
        notes: Sequence[Note | None] = (),
        past_locks: bool = False,
    ) -> list[bool | None]:
        if not steps:
            return []

        common = {
            "now": values.micros(now),
            "by": by,
            "node": None if node is None else str(node),
            "epoch": epoch,
            "state": "scheduled" if parked else "queued",
            "visible_at": _PARKED if parked else values.micros(now),
        }

        def work(connection: sqlite3.Connection) -> set[int]:
            won = self._decided(connection, steps, common)
            if notes:
                written = [note for step, note in zip(steps, notes, strict=True) if step.schedule_id in won]
                self._add_notes(connection, written, now)
            return won

        won = await self._writer.write(work)
        return [step.schedule_id in won for step in steps]

    def _decided(self, connection: sqlite3.Connection, steps: Sequence[Step], common: dict[str, Any]) -> set[int]:
        if common["epoch"] is not None and not connection.execute(self._sql["leads"], common).fetchall():
            return set()
        connection.execute(self._sql["tide"], {"now": common["now"]})  # no later process is told an earlier time
        moves = {**common, "steps": json.dumps([_move_row(step) for step in steps])}
        won = set(rows_of(connection, self._sql["current_steps"], moves))
        rows = [
            [step.schedule_id, *_decided_row(decided)]
            for step in steps
            if step.schedule_id in won
            for decided in step.decided
        ]
        connection.execute(
            self._sql["move"], {**moves, "steps": json.dumps([_move_row(s) for s in steps if s.schedule_id in won])}
        )
        connection.execute(self._sql["decide"], {**common, "decided": json.dumps(rows)})
        connection.execute(self._sql["make_jobs"], {**common, "decided": json.dumps([r for r in rows if r[4]])})
        return won

    async def unfinished(self, schedule_id: int, limit: int) -> list[int]:
        rows = await self._rows("unfinished", schedule_id=schedule_id, parked=_PARKED, limit=limit)
        return [row[0] for row in rows]

    async def release_parked(self, now: datetime, limit: int) -> int:
        with_room = self._sql["with_room"], {"limit": limit}
        if not await self._reader.read(lambda connection: rows_of(connection, *with_room)):
            return 0

        def work(connection: sqlite3.Connection) -> int:
            schedules, released = rows_of(connection, *with_room), 0
            connection.execute(self._sql["hold_schedules"], {"ids": json.dumps(schedules)})
            for schedule in schedules:
                parameters = {"schedule_id": schedule, "now": values.micros(now), "limit": limit - released}
                released += connection.execute(self._sql["release_parked"], parameters).rowcount
            return released

        return await self._writer.write(work)

    async def rerun(
        self, schedule: Schedule, job: Job, again: Change | int, now: datetime, *, by: str, note: Note | None = None
    ) -> bool:
        def made(connection: sqlite3.Connection) -> bool:
            guard = {"id": schedule.id, "version": schedule.version}
            if not connection.execute(self._sql["hold_version"], guard).rowcount:
                return False
            if not isinstance(again, int):
                return bool(self._applied(connection, [again], now))
            parameters = {"id": job.id, "state": job.state, "claim_no": job.claim_no}
            new = {"new_id": again, "now": values.micros(now), "by": by}
            return connection.execute(self._sql["repeat"], {**parameters, **new}).rowcount == 1

        def work(connection: sqlite3.Connection) -> bool:
            took = made(connection)
            if took:
                self._add_notes(connection, [note], now)
            return took

        try:
            return await self._writer.write(work)
        except StoreRefused as error:
            if getattr(error.__cause__, "sqlite_errorname", None) == "SQLITE_CONSTRAINT_UNIQUE":
                raise Conflict("another unfinished job of this task has the same key") from error
            raise

    def _applied(self, connection: sqlite3.Connection, changes: Sequence[Change], now: datetime) -> set[int]:
        raise NotImplementedError

    def _add_notes(self, connection: sqlite3.Connection, notes: Sequence[Note | None], now: datetime) -> None:
        raise NotImplementedError

    async def retries(self, job_id: int) -> list[Job]:
        return [values.job(row) for row in await self._rows("retries", job_id=job_id)]

    async def slots(self, schedule_id: int, start: datetime, end: datetime, limit: int = LONGEST_LISTING) -> list[Slot]:
        rows = await self._rows(
            "slots", schedule_id=schedule_id, start=values.micros(start), end=values.micros(end), limit=limit
        )
        return [values.slot(row) for row in rows]

    async def latest_slots(self, schedule_id: int, limit: int) -> list[Slot]:
        rows = await self._rows("latest_slots", schedule_id=schedule_id, limit=limit)
        return [values.slot(row) for row in reversed(rows)]

    async def doubled(self, schedule_id: int, start: datetime, end: datetime) -> list[datetime]:
        rows = await self._rows("doubled", schedule_id=schedule_id, start=values.micros(start), end=values.micros(end))
        return [values.instant(row[0]) for row in rows]

    async def prune_slots(self, before: datetime, limit: int) -> int:
        old_slots = self._sql["old_slots"], {"before": values.micros(before), "limit": limit}
        if not await self._reader.read(lambda connection: rows_of(connection, *old_slots)):
            return 0

        def work(connection: sqlite3.Connection) -> int:
            parameters = {"before": values.micros(before), "slots": json.dumps(rows_of(connection, *old_slots))}
            connection.execute(self._sql["raise_horizon"], parameters)
            return connection.execute(self._sql["prune_slots"], parameters).rowcount

        return await self._writer.write(work)

    # --- leases -------------------------------------------------------------------------------------------------

    async def acquire(
        self, name: str, holder: UUID, holder_name: str, now: datetime, expires_at: datetime, *, respect: str | None
    ) -> Lease | None:
        # While somebody holds it, looking costs no lock.
        standing = await self.lease(name)
        if standing is not None and standing.expires_at > now:
            return standing
        parameters = {
            "name": name,
            "holder": str(holder),
            "holder_name": holder_name,
            "now": values.micros(now),
            "expires_at": values.micros(expires_at),
            "respect": respect,
        }

        def work(connection: sqlite3.Connection) -> list[Any]:
            connection.execute(self._sql["acquire"], parameters)
            return connection.execute(self._sql["lease"], {"name": name}).fetchall()

        rows = await self._writer.write(work)
        return values.lease(rows[0]) if rows else None

    async def renew(
        self, name: str, holder: UUID, epoch: int, now: datetime, expires_at: datetime, *, respect: str | None
    ) -> bool:
        renewed = await self._write(
            "renew",
            name=name,
            holder=str(holder),
            epoch=epoch,
            now=values.micros(now),
            expires_at=values.micros(expires_at),
            respect=respect,
        )
        return renewed == 1

    async def yield_lease(self, name: str, holder: UUID, epoch: int, now: datetime) -> None:
        await self._write("yield_lease", name=name, holder=str(holder), epoch=epoch, now=values.micros(now))

    async def lease(self, name: str) -> Lease | None:
        rows = await self._rows("lease", name=name)
        return values.lease(rows[0]) if rows else None

    # --- the dead -----------------------------------------------------------------------------------------------

    async def namesakes(self, node: Node) -> list[Node]:
        return [values.node(row) for row in await self._rows("namesakes", name=node.name, node=str(node.id))]

    async def node_names(self, ids: Sequence[UUID]) -> dict[UUID, str]:
        rows = await self._rows("node_names", ids=json.dumps([str(node) for node in ids]))
        return {UUID(node): name for node, name in rows}

    async def declare_lost(self, node: UUID, now: datetime) -> bool:
        parameters = {"node": str(node), "now": values.micros(now)}

        def work(connection: sqlite3.Connection) -> bool:
            if not connection.execute(self._sql["declare_lost"], parameters).rowcount:
                return False
            connection.execute(self._sql["free_leases"], parameters)
            return True

        return await self._writer.write(work)

    # --- looking ------------------------------------------------------------------------------------------------

    async def ahead(self, job: Job, limit: int) -> int:
        rows = await self._rows(
            "ahead",
            queue=job.queue,
            priority=job.priority,
            order_at=values.micros(job.order_at),
            id=job.id,
            limit=limit,
        )
        count: int = rows[0][0]
        return count

    async def create_views(self) -> list[str]:
        views = statements.views("sqlite")

        def work(connection: sqlite3.Connection) -> list[str]:
            for name, script in views.items():
                look = "select type, sql from sqlite_master where name = ? collate nocase"
                standing = connection.execute(look, (name,)).fetchall()
                if any(kind != "view" or "made by oncue" not in sql for kind, sql in standing):
                    raise NameClash(f"{name}: the database has a table or view of this name that is not oncue's")
                connection.execute(f"drop view if exists {name}")
                connection.execute(script)
            return list(views)

        return await self._writer.write(work)

    # --- plumbing -----------------------------------------------------------------------------------------------

    async def _rows(self, statement: str, **parameters: Any) -> list[Any]:
        return await self._reader.read(
            lambda connection: connection.execute(self._sql[statement], parameters).fetchall()
        )

    async def _value(self, name: str) -> Any:
        return (await self._rows(name))[0][0]

    async def _write(self, statement: str, **parameters: Any) -> int:
        return await self._writer.write(
            lambda connection: connection.execute(self._sql[statement], parameters).rowcount
        )


def rows_of(connection: sqlite3.Connection, sql: str, parameters: dict[str, Any]) -> list[Any]:
    """The rows of a statement that returns them as one JSON array."""
    rows: list[Any] = json.loads(array_of(connection, sql, parameters))
    return rows


def array_of(connection: sqlite3.Connection, sql: str, parameters: dict[str, Any]) -> str:
    """The same, not parsed yet: the writer is what everybody waits for, so a caller parses large ones itself."""
    text: str = connection.execute(sql, parameters).fetchone()[0]
    return text


def _move_row(step: Step) -> list[Any]:
    fires = any(decided.job_id is not None for decided in step.decided)
    next_run_at = values.micros_or_none(step.next_run_at)
    return [step.schedule_id, step.version, values.micros(step.cursor), next_run_at, fires]


def _decided_row(decided: Decided) -> list[Any]:
    return [values.micros(decided.scheduled_for), *decided[1:5], values.micros_or_none(decided.until), decided.slots]
