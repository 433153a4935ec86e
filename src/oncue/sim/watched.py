"""The database of a simulated cluster, as the simulator itself looks at it: without a wire in between."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID

from oncue.model import ClusterJob, Lease, LimitedQueue, Outlook
from oncue.sim.history import micros, moment
from oncue.store.contract import Store
from oncue.store.contract.nodes import Leases, Nodes
from oncue.store.sqlite.queues import SqliteQueues
from oncue.store.sqlite.store import SqliteStore

FAR = datetime(9000, 1, 1, tzinfo=UTC)

_ATTEMPTS = "select job_id, claim_no from oncue_attempts order by job_id, claim_no"
_DETAILS = "select job_id, claim_no, details from oncue_attempts"
_GROUPS = "select queue, name, running_limit, rate_count, rate_seconds, paused_until, trips from oncue_groups"
_WAKEUPS = "select count(*) from oncue_group_wakeups"
_CLUSTER_JOBS = "select job_id from oncue_cluster_jobs order by job_id"
_COUNT_JOBS = "select count(*) from oncue_jobs"
_PARTS_OF = """
select job_id from oncue_parts
 where cluster_id in (select value from json_each(?)) and was_open is null and job_id is not null order by job_id
"""
_PART_ADDRESSES = """
select id, address from oncue_jobs where id in (select job_id from oncue_parts where node_id = ? and was_open is null)
 order by id
"""
_NAMES = "select name from oncue_schedules order by name"
_LEASE_ENDS = "select id, expires_at from oncue_nodes where lost_at is null"
_SUBJECTS = "select distinct name from oncue_subjects where schedule_id = ? order by name"
_NEXT_CUTOFF = "select min(cutoff_at) from oncue_subjects where cutoff_at > ? and removed_at is null"
_TALLIES = """
select day, event, sum(subjects) from (
       select day, event, subjects from oncue_window_days where schedule_id = :id
       union all
       select day, event, subjects from oncue_window_deltas where schedule_id = :id)
 group by day, event
"""
_DAYS_WATCHED = """
create temp table finalized (schedule, subject, date, status, reason, was_date, was_status, day, cutoff_at, job)
"""
_WATCH_DAYS = """
create temp trigger watch_days after update on oncue_subjects
  when new.last_date is not old.last_date or new.status is not old.status
begin
    insert into finalized values (new.schedule_id, new.name, new.last_date, new.status, new.reason, old.last_date,
                                  old.status, old.day, old.cutoff_at, old.job_id);
end
"""
_FINALIZED = ("schedule", "subject", "date", "status", "reason", "was_date", "was_status", "day", "cutoff_at", "job")
_BEAT = """
update oncue_nodes set beat_at = ?, expires_at = max(expires_at, ?) where id = ? and lost_at is null
returning expires_at
"""
_RENEW = """
update oncue_leases set renewed_at = ?, expires_at = max(expires_at, ?) where name = ? and epoch = ?
returning expires_at
"""


class WatchedQueues(SqliteQueues):
    seats_changed = 0
    """How often a node took or gave back seats of a limited queue."""

    async def take_seats(self, queue: str, version: int, node: UUID, seats: int, wanted: int) -> bool:
        took = await super().take_seats(queue, version, node, seats, wanted)
        self.seats_changed += took
        return took


class WatchedStore(SqliteStore):
    """The database of a simulated cluster. It can be looked at as a whole."""

    def __init__(self, path: str, *, wall: Callable[[], datetime]) -> None:
        super().__init__(path, inline=True, wall=wall)
        self.queues: WatchedQueues = WatchedQueues(self.database, self.counters)
        self.has_cluster_jobs = False
        """Whether any has got its parts: without them their ends need no look."""

    async def open(self) -> None:
        await super().open()

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(_DAYS_WATCHED)
            connection.execute(_WATCH_DAYS)

        await self.database.write(work)

    async def finalized(self) -> list[dict[str, Any]]:
        """The outcomes of subjects' days that were written since it was last asked."""

        def work(connection: sqlite3.Connection) -> list[Any]:
            return connection.execute("delete from temp.finalized returning *").fetchall()

        is_any = await self.database.read(
            lambda connection: connection.execute("select exists (select 1 from temp.finalized)").fetchone()[0]
        )
        return [dict(zip(_FINALIZED, row, strict=True)) for row in await self.database.write(work)] if is_any else []

    async def next_cutoff(self, after: datetime) -> datetime | None:
        """The first cutoff of a subject after an instant, of those that the rows tell."""
        (found,) = await self.database.read(
            lambda connection: connection.execute(_NEXT_CUTOFF, (micros(after),)).fetchone()
        )
        return None if found is None else moment(found)

    async def all_subjects(self, schedule_id: int) -> list[str]:
        """The names of a window's subjects, of removed ones too."""
        rows = await self.database.read(lambda connection: connection.execute(_SUBJECTS, (schedule_id,)).fetchall())
        return [name for (name,) in rows]

    async def all_tallies(self, schedule_id: int) -> dict[tuple[str, str], int]:
        """How many subjects came to what, by the day and the event."""
        rows = await self.database.read(lambda connection: connection.execute(_TALLIES, {"id": schedule_id}).fetchall())
        return {(day, event): count for day, event, count in rows}

    async def whole_record(self) -> dict[int, list[int]]:
        """Job by job the claims whose attempts are on record."""
        found: dict[int, list[int]] = {}
        for job_id, number in await self.database.read(lambda connection: connection.execute(_ATTEMPTS).fetchall()):
            found.setdefault(job_id, []).append(number)
        return found

    async def all_details(self) -> dict[tuple[int, int], str | None]:
        """What the attempts on record have told, by job and claim."""
        rows = await self.database.read(lambda connection: connection.execute(_DETAILS).fetchall())
        return {(job_id, number): details for job_id, number, details in rows}

    async def all_names(self) -> list[str]:
        """Of every schedule that there was, also of those that were deleted."""
        return [name for (name,) in await self.database.read(lambda connection: connection.execute(_NAMES).fetchall())]

    async def all_cluster_jobs(self, now: datetime) -> list[ClusterJob]:
        """Every cluster job whose parts were written, with what is known of these."""
        rows = await self.database.read(lambda connection: connection.execute(_CLUSTER_JOBS).fetchall())
        return await self.cluster.get([job_id for (job_id,) in rows], now)

    async def parts_of(self, job_ids: Sequence[int]) -> list[int]:
        """The jobs of the parts of these cluster jobs, of those that have not ended."""
        asked = (json.dumps(job_ids),)
        rows = await self.database.read(lambda connection: connection.execute(_PARTS_OF, asked).fetchall())
        return [job_id for (job_id,) in rows]

    async def count_jobs(self) -> int:
        count: int = await self.database.read(lambda connection: connection.execute(_COUNT_JOBS).fetchone()[0])
        return count

    async def part_addresses(self, node: UUID) -> list[tuple[int, str]]:
        """Where the parts of a node are to run whose cluster jobs have not ended."""
        return await self.database.read(lambda connection: connection.execute(_PART_ADDRESSES, (str(node),)).fetchall())

    async def all_groups(self) -> dict[tuple[str, str], dict[str, Any]]:
        """What is set for each group that has a row."""
        rows = await self.database.read(lambda connection: connection.execute(_GROUPS).fetchall())
        return {
            (queue, name): {
                "limit": limit,
                "rate": None if count is None else (count, seconds),
                "paused_until": paused_until,
                "trips": trips,
            }
            for queue, name, limit, count, seconds, paused_until, trips in rows
        }

    async def unread_wakeups(self) -> int:
        count: int = await self.database.read(lambda connection: connection.execute(_WAKEUPS).fetchone()[0])
        return count

    async def lease_ends(self) -> dict[str, int]:
        """The nodes that were not declared lost, and when their leases end."""
        return dict(await self.database.read(lambda connection: connection.execute(_LEASE_ENDS).fetchall()))

    async def sustain(
        self, nodes: Sequence[str], leases: Sequence[tuple[str, int]], renewed_at: datetime, expires_at: datetime
    ) -> tuple[list[int], list[int]]:
        """Renew all of these leases at once; when they end now. The caller knows that they are not over."""
        renewed, expires = micros(renewed_at), micros(expires_at)

        def work(connection: sqlite3.Connection) -> tuple[list[int], list[int]]:
            return (
                [connection.execute(_BEAT, (renewed, expires, node)).fetchone()[0] for node in nodes],
                [connection.execute(_RENEW, (renewed, expires, name, epoch)).fetchone()[0] for name, epoch in leases],
            )

        return await self.database.write(work)


class Foreseen:
    """The database as it will be while the nodes only renew leases: those of live nodes do not end.

    Everybody asks much the same at one instant, so that the common answers are kept. The rest goes to the store.
    """

    def __init__(self, store: WatchedStore, living: Collection[UUID], next_end: datetime | None) -> None:
        """`next_end`: when the first lease of a node ends that is not alive."""
        self._store = store
        self.jobs = _Jobs(store.jobs)
        self.queues = _Queues(store.queues)
        self.nodes = _Nodes(store.nodes, next_end)
        self.leases = _Leases(store.leases, living)

    def as_store(self) -> Store:
        return cast(Store, self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class _Noun:
    def __init__(self, noun: Any) -> None:
        self._noun = noun
        self._answers: dict[object, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._noun, name)


class _Jobs(_Noun):
    async def outlook(self) -> Outlook:
        found: Outlook | None = self._answers.get("outlook")
        if found is None:
            found = self._answers["outlook"] = await self._noun.outlook()
        return found


class _Queues(_Noun):
    async def seating(
        self, queues: Sequence[str], tasks: Sequence[str], addresses: Sequence[str] = ()
    ) -> list[LimitedQueue]:
        key = *queues, *tasks, *addresses
        found: list[LimitedQueue] | None = self._answers.get(key)
        if found is None:
            found = self._answers[key] = await self._noun.seating(queues, tasks, addresses)
        return found


class _Nodes(_Noun):
    def __init__(self, nodes: Nodes, next_end: datetime | None) -> None:
        super().__init__(nodes)
        self._next_end = next_end

    async def next_lease_end(self) -> datetime | None:
        return self._next_end


class _Leases(_Noun):
    def __init__(self, leases: Leases, living: Collection[UUID]) -> None:
        super().__init__(leases)
        self._living = living

    async def get(self, name: str) -> Lease | None:
        if name not in self._answers:
            lease: Lease | None = await self._noun.get(name)
            lives = lease is not None and lease.holder in self._living
            self._answers[name] = replace(lease, expires_at=FAR) if lease is not None and lives else lease
        found: Lease | None = self._answers[name]
        return found
