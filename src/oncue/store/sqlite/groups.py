"""Groups on SQLite. The statements are in groups.sql."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import zip_longest
from math import ceil
from typing import Any, NamedTuple
from uuid import UUID

from oncue.model import Claim, Group, GroupSettings, GroupsLook, HeldBack, Note
from oncue.store.shared import group_of, group_settings, settings_row
from oncue.store.sqlite import values
from oncue.store.sqlite.database import Database, array_of, rows_of
from oncue.store.sqlite.rates import allowed, burst


class _Turn(NamedTuple):
    """A group whose turn it is. Instants and durations are in microseconds."""

    queue: str
    name: str
    ready_at: int
    rate_at: int | None
    most: int | None
    every: float | None
    is_set: int
    running: int

    @property
    def burst(self) -> int:
        return 0 if self.every is None else burst(self.every)

    def used_until(self, now: int) -> int:
        return max(self.rate_at or 0, now - self.burst)

    def room(self, share: int, now: int) -> int:
        """How many of its jobs may start now."""
        if self.most is not None:
            share = min(share, self.most - self.running)
        if self.every is not None:
            share = min(share, allowed(self.every, self.used_until(now), now))
        return max(share, 0)

    def afterwards(self, taken: int, has_more: bool, now: int) -> tuple[str, str, int | None, int | None, bool]:
        """Its row once so many have started: when it is ready, when its rate lets one more start, or that it goes."""
        rate_at = None if self.every is None else self.used_until(now) + round(self.every * taken)
        pending = rate_at is not None and rate_at > now - self.burst
        if not has_more:
            ready_at = rate_at + self.burst if rate_at is not None and not self.is_set else None
            return self.queue, self.name, ready_at, rate_at, not self.is_set and not pending
        is_full = self.most is not None and self.running + taken >= self.most
        return self.queue, self.name, None if is_full else max(now, rate_at or now), rate_at, False


class SqliteGroups:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def wake(self, queues: Sequence[str], limit: int, now: datetime) -> GroupsLook:
        wanted = {"queues": json.dumps(list(queues))}

        def look(connection: sqlite3.Connection) -> tuple[int, int | None]:
            some = connection.execute(self._db.sql["any_wakeups"]).fetchone()[0]
            return some, connection.execute(self._db.sql["next_ready"], wanted).fetchone()[0]

        some, ready_at = await self._db.read(look)
        if not some:  # looking costs no lock
            return GroupsLook(0, values.instant_or_none(ready_at))

        def work(connection: sqlite3.Connection) -> int:
            found = rows_of(connection, self._db.sql["wakeups"], {"limit": limit})
            parameters = {"ids": json.dumps(found), "now": values.micros(now)}
            connection.execute(self._db.sql["wake_groups"], parameters)
            connection.execute(self._db.sql["forget_wakeups"], parameters)
            return len(found)

        return GroupsLook(await self._db.write(work), values.instant_or_none(ready_at))

    async def next_ready(self, queues: Sequence[str]) -> datetime | None:
        if await self._db.value("any_wakeups"):
            return values.instant(0)
        rows = await self._db.rows("next_ready", queues=json.dumps(list(queues)))
        return values.instant_or_none(rows[0][0])

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
        rooms = rooms or {}
        parameters = {
            "node": str(node),
            "now": values.micros(now),
            "queues": json.dumps([queue for queue in queues if rooms.get(queue, 1) > 0]),
            "tasks": json.dumps(list(tasks)),
            "rooms": json.dumps(rooms),
            "alone": values.micros_or_none(alone),
            "few": few,
            "limit": limit,
        }
        if not (await self._db.rows("any_ready", **parameters))[0][0]:
            return []

        def work(connection: sqlite3.Connection) -> str:
            taken = {**parameters, "ids": json.dumps(self._taken(connection, parameters, limit, rooms))}
            return array_of(connection, self._db.sql["taken"], taken)

        return values.claims(json.loads(await self._db.write(work)))

    def _taken(
        self, connection: sqlite3.Connection, parameters: dict[str, Any], limit: int, rooms: Mapping[str, int]
    ) -> list[int]:
        """Take the best of the groups whose turn it is, and say when they are ready again; the jobs that were taken."""
        apart = connection.execute(self._db.sql["grouped_apart"], parameters).fetchone()
        turns, now = _first_of_each_queue(self._turns(connection, parameters, apart), rooms), parameters["now"]
        counts = Counter(turn.queue for turn in turns)
        shares = [turn.room(ceil(min(limit, rooms.get(turn.queue, limit)) / counts[turn.queue]), now) for turn in turns]
        if apart is None:
            found = self._best(connection, turns, shares, parameters)
            chosen = _in_turn(turns, found, limit, rooms)
        else:
            chosen = [[apart[0]] if share else [] for share in shares]
        ids = [job_id for of_group in chosen for job_id in of_group]
        connection.execute(self._db.sql["take"], {**parameters, "ids": json.dumps(ids)})
        names = json.dumps([(turn.queue, turn.name) for turn in turns])
        has_more = rows_of(connection, self._db.sql["more_in_groups"], {"groups": names})
        after = [
            turn.afterwards(len(of_group), bool(more), now)
            for turn, of_group, more in zip(turns, chosen, has_more, strict=True)
        ]
        for statement in ("keep_groups", "forget_groups"):
            connection.execute(self._db.sql[statement], {"groups": json.dumps(after)})
        return ids

    def _turns(
        self, connection: sqlite3.Connection, parameters: dict[str, Any], apart: Sequence[Any] | None
    ) -> list[_Turn]:
        """The groups that have waited longest, of all queues; or that of a job that is kept apart."""
        if apart is not None:
            queues, only = [apart[1]], apart[2]
        else:
            queues, only = rows_of(connection, self._db.sql["open_with_groups"], parameters), None
        found: list[_Turn] = []
        for queue in queues:
            asked = {**parameters, "queue": queue, "only": only}
            found += (_Turn(*row) for row in connection.execute(self._db.sql["groups_in_turn"], asked))
        return sorted(found, key=lambda turn: (turn.ready_at, turn.queue, turn.name))[: parameters["limit"]]

    def _best(
        self, connection: sqlite3.Connection, turns: list[_Turn], shares: list[int], parameters: dict[str, Any]
    ) -> list[list[int]]:
        names = json.dumps([(turn.queue, turn.name) for turn in turns])
        asked = {"groups": names, "tasks": parameters["tasks"], "limit": max(shares, default=0)}
        found = connection.execute(self._db.sql["best_of_groups"], asked).fetchall()
        return [json.loads(ids)[:share] for (ids,), share in zip(found, shares, strict=True)]

    async def all(self, queue: str, limit: int, *, after: str | None = None) -> list[Group]:
        rows = await self._db.rows("groups", queue=queue, limit=limit, after=after or "")
        return [_group(queue, row) for row in rows]

    async def get(self, queue: str, group: str) -> Group:
        return _group(queue, (await self._db.rows("group", queue=queue, name=group))[0])

    async def settings(self, queue: str, group: str) -> GroupSettings:
        rows = await self._db.rows("group_settings", queue=queue, name=group)
        if not rows:
            return GroupSettings()
        *terms, paused_until, trips = rows[0]
        return group_settings((*terms, values.instant_or_none(paused_until), trips))

    async def set(
        self,
        queue: str,
        group: str,
        known: GroupSettings,
        settings: GroupSettings,
        now: datetime,
        *,
        note: Note | None = None,
    ) -> bool:
        return await self._db.noted(
            "set_group", now, note, queue=queue, name=group, **_columns(settings), **_columns(known, "known_")
        )

    async def trip(
        self,
        queue: str,
        group: str,
        known_trips: int,
        trips: int,
        paused_until: datetime | None,
        now: datetime,
        *,
        known_until: datetime | None = None,
    ) -> bool:
        instants = {"paused_until": paused_until, "known_until": known_until, "now": now}
        micros = {name: values.micros_or_none(instant) for name, instant in instants.items()}
        trip = {"queue": queue, "name": group, "known_trips": known_trips, "trips": trips, **micros}
        return await self._db.execute("trip", **trip) > 0

    async def tripped(self, queue: str, groups: Sequence[str]) -> dict[str, tuple[int, datetime | None]]:
        rows = await self._db.rows("tripped", queue=queue, groups=json.dumps(list(groups)))
        return {name: (trips, values.instant_or_none(until)) for name, trips, until in rows}

    async def forget_tripped(self, before: datetime, limit: int) -> int:
        return await self._db.execute("forget_tripped", before=values.micros(before), limit=limit)

    async def held_back(self, now: datetime, limit: int) -> list[HeldBack]:
        rows = await self._db.rows("held_back", now=values.micros(now), limit=limit)
        return [HeldBack(queue, name, trips, values.instant_or_none(until)) for queue, name, trips, until in rows]


def _group(queue: str, row: Sequence[Any]) -> Group:
    rated_until, paused_until = map(values.instant_or_none, row[6:8])
    return group_of(queue, (*row[:6], rated_until, paused_until, *row[8:]))


def _first_of_each_queue(turns: list[_Turn], rooms: Mapping[str, int]) -> list[_Turn]:
    """The groups that this claim looks at: no more of a queue than it has room for. The others keep their turn."""
    counts: Counter[str] = Counter()
    first = []
    for turn in turns:
        counts[turn.queue] += 1
        if counts[turn.queue] <= rooms.get(turn.queue, len(turns)):
            first.append(turn)
    return first


def _in_turn(turns: list[_Turn], found: list[list[int]], limit: int, rooms: Mapping[str, int]) -> list[list[int]]:
    """The first of each group, then the second of each, until there is no room."""
    chosen: list[list[int]] = [[] for _ in turns]
    left = {turn.queue: rooms.get(turn.queue, limit) for turn in turns}
    for rank in zip_longest(*found):
        for place, job_id in enumerate(rank):
            queue = turns[place].queue
            if job_id is not None and limit > 0 and left[queue] > 0:
                chosen[place].append(job_id)
                limit, left[queue] = limit - 1, left[queue] - 1
    return chosen


def _columns(settings: GroupSettings, prefix: str = "") -> dict[str, Any]:
    limit, count, seconds, paused_until = settings_row(settings)
    columns = {"limit": limit, "rate_count": count, "rate_seconds": seconds}
    return {f"{prefix}{name}": value for name, value in columns.items()} | {
        f"{prefix}paused_until": values.micros_or_none(paused_until)
    }
