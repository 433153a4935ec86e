"""Jobs on PostgreSQL. The statements are in jobs.sql."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from oncue.errors import Conflict, IdTaken, RowLocked, StoreError, StoreRefused, StoreUnavailable
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
from oncue.store.postgres import values
from oncue.store.postgres.connections import undone_by_deadlock
from oncue.store.postgres.database import Database
from oncue.store.postgres.inserting import (
    Written,
    all_written,
    common,
    insert,
    keys_of,
    receipts_of,
    write_all,
)
from oncue.store.shared import (
    LARGEST_ID,
    NAMED_FOR,
    OWN,
    PLAIN_COLUMNS,
    ROW,
    Endings,
    alike,
    endings,
    listing,
    note_columns,
    note_row,
    plain_columns,
)

MANY_ROWS = 10_000
SLOWEST_ROWS_PER_SECOND = 1000
"""A slow database writes so many at least: an answer about very many jobs is waited for accordingly."""


APART_CLAIMS = 20
"""While a job is kept apart, so many claims in a row need one trip instead of two."""
MOST_LOCKED = 3
"""After so many locked ones in a row the rest is left for the next pass."""


class PostgresJobs:
    def __init__(self, database: Database) -> None:
        self._db = database
        self._claimed = 0
        """How many jobs were claimed so far."""
        self._apart_for = 0
        """How many claims are asked of `claim_apart` at once."""

    async def reserve(self, count: int) -> list[int]:
        async with self._db.use() as connection:
            ids: list[int] = await connection.fetchval(self._db.sql["reserve"], count)
            return ids

    async def enqueue(self, batches: Sequence[Batch], *, in_doubt: bool = False) -> list[Receipt]:
        collisions = 0
        while True:
            try:
                if len(batches) == 1 and len(batches[0].ids) <= MANY_ROWS and not in_doubt:
                    return await self._enqueue_at_once(batches[0])
                return await self._enqueue_all(batches, in_doubt)
            except StoreUnavailable as error:
                # Two large calls waited for each other's keys: one of them begins again.
                if not undone_by_deadlock(error):
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
        hint = self._db.notifications.take() if batch.state == "queued" else None
        async with self._db.use() as connection:
            written = await insert(self._db.sql, connection, [batch], tell=hint is not None)
            has_told = bool(written)  # a statement that wrote nothing sent no hint, whatever is written after it
            receipts = all_written(batch, written) or await receipts_of(
                self._db.sql, Written(connection), batch, written
            )
        if has_told and hint is not None:
            hint.arrived()
        elif written:
            self._db.notifications.send_for({batch.state})
        return receipts

    async def _enqueue_all(self, batches: Sequence[Batch], in_doubt: bool) -> list[Receipt]:
        """Jobs of several kinds, or very many: one statement writes them, whatever their number.

        What is asked before it and after it needs no transaction around it. In doubt, the rows of the first call are
        there or not, all of them; if that call arrives in between, one of the two finds its ids taken.
        """
        rows = sum(len(batch.ids) for batch in batches)
        async with self._db.use(self._db.patience + rows / SLOWEST_ROWS_PER_SECOND) as connection:
            receipts = await write_all(self._db.sql, connection, batches, in_doubt=in_doubt)
        self._db.notifications.send_for({batch.state for batch in batches})
        return receipts

    async def get(self, job_id: int) -> Job | None:
        rows = await self._db.fetch("job", job_id)
        return values.job(rows[0]) if rows else None

    async def find(self, wanted: JobFilter) -> list[Job]:
        states, before = list(wanted.states or STATES), wanted.before or LARGEST_ID
        match name := listing(wanted):
            case "jobs" | "jobs_short":
                rows = await self._db.fetch(name, wanted.before, wanted.limit, wanted.offset)
            case "jobs_of_kinds" | "jobs_of_kinds_short":
                last = wanted.offset + wanted.limit
                rows = await self._db.fetch(name, states, wanted.queue, wanted.task, before, last, wanted.offset)
            case "job_with_key" | "job_with_key_short":
                rows = await self._db.fetch(name, wanted.task, wanted.key)
            case "jobs_by_rows" | "jobs_by_rows_short":
                part = (before, wanted.limit, wanted.offset)
                rows = await self._db.fetch(name, *_by_rows(wanted), states, wanted.queue, wanted.task, *part)
            case _:
                part = (before, wanted.limit, wanted.offset)
                rows = await self._db.fetch(name, states, wanted.queue, wanted.task, wanted.key, *part)
        return [values.job(row) for row in rows]

    async def newest(self, wanted: JobFilter) -> list[int]:
        before = wanted.before or LARGEST_ID
        if not _has_kinds(wanted):
            rows = await self._db.fetch("newest", before, wanted.limit)
        else:
            states = list(wanted.states or STATES)
            rows = await self._db.fetch("newest_of_kinds", states, wanted.queue, wanted.task, before, wanted.limit)
        return [row[0] for row in rows]

    async def among(self, ids: Sequence[int], wanted: JobFilter) -> list[Job]:
        name = "jobs_among_short" if wanted.short else "jobs_among"
        rows = await self._db.fetch(name, *_by_rows(wanted), list(ids), wanted.limit)
        return [values.job(row) for row in rows]

    async def count(self, wanted: JobFilter, look: int) -> JobCount:
        name = f"count{'_of_kinds' if _has_kinds(wanted) else ''}{'_by_rows' if wanted.reads_rows else ''}"
        sought: list[Any] = [*(_by_rows(wanted) if wanted.reads_rows else ()), wanted.before or LARGEST_ID, look]
        if _has_kinds(wanted):
            sought += [list(wanted.states or STATES), wanted.queue, wanted.task]
        rows = await self._db.fetch(name, *sought)
        looked_at, matching = rows[0]
        return JobCount(matching, looked_at)

    async def attempts(self, job_id: int) -> list[Attempt]:
        return [values.attempt(row) for row in await self._db.fetch("attempts", job_id)]

    async def retries_of(self, job_id: int) -> list[Job]:
        return [values.job(row) for row in await self._db.fetch("retries_of", job_id)]

    async def count_ahead(self, job: Job, limit: int) -> int:
        place = (job.queue, job.priority, job.order_at, job.id, limit)
        if job.group is not None:
            rows = await self._db.fetch("count_ahead_in_group", *place, job.group)
        elif job.address is not None:
            rows = await self._db.fetch("count_ahead_at_address", *place, job.address)
        else:
            rows = await self._db.fetch("count_ahead", *place)
        count: int = rows[0][0]
        return count

    async def promote(self, now: datetime, limit: int) -> datetime | None:
        async with self._db.use() as connection:
            promoted = await connection.fetchval(self._db.sql["promote"], now, limit)
            due: datetime | None
            if promoted < limit:
                due = await connection.fetchval(self._db.sql["next_due_after"], now)
            else:
                due = await connection.fetchval(self._db.sql["next_due"])
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
        epoch: int | None = None,
    ) -> list[Claim]:
        known = rooms or {}
        most = [known.get(queue) for queue in queues]
        asked = (node, queues, tasks, limit, now, most, epoch)
        self._apart_for -= 1
        if known or self._apart_for > 0:
            rows = await self._db.fetch_by_size("claim_apart", self._claimed, *asked, few, alone)
        else:
            rows = await self._db.fetch_by_size("claim", self._claimed, *asked)
            if not rows and (await self._db.fetch("waits_apart", queues))[0][0]:
                self._apart_for = APART_CLAIMS
                rows = await self._db.fetch_by_size("claim_apart", self._claimed, *asked, few, alone)
        self._claimed += len(rows)
        return values.claims(values.in_order(rows), now)

    async def apply(
        self,
        changes: Sequence[Change],
        now: datetime,
        notes: Sequence[Note | None] = (),
        *,
        past_locks: bool = False,
        latest: datetime | None = None,
    ) -> list[Applied]:
        if not changes:
            return []
        latest = now if latest is None else latest
        # In the order of their ids, so that two batches that meet (a result and a rescue) never lock each other up.
        places = sorted(range(len(changes)), key=lambda place: changes[place].id)
        ordered, lines = [changes[place] for place in places], [notes[place] for place in places] if notes else []
        try:
            written = await self._applied(ordered, now, lines, past_locks, latest)
        except RowLocked:
            if notes or (past_locks and not any(map(_brings_keys, changes))):
                raise
            if past_locks:
                return await self._applied_past_keys(changes, now, latest)
            return await self.apply(changes, now, past_locks=True, latest=latest)
        except StoreError as error:
            # The order of ids is that of the index; a plan that reads pages in their own order may meet another batch.
            if undone_by_deadlock(error):
                return await self.apply(changes, now, notes, past_locks=past_locks, latest=latest)
            if getattr(error.__cause__, "constraint_name", None) == "oncue_jobs_key":
                raise Conflict("another unfinished job of this task has the same key") from error
            raise
        if written is None:
            return [True] * len(changes)
        answers: list[Applied] = [False] * len(changes)
        for place, answer in zip(places, written, strict=True):
            answers[place] = answer
        return answers

    async def _applied(
        self,
        changes: Sequence[Change],
        now: datetime,
        notes: Sequence[Note | None],
        past_locks: bool,
        latest: datetime,
    ) -> list[Applied] | None:
        """What became of each change. None: all were written as they stand."""
        plain = None if notes or past_locks else plain_columns(changes, details=True)
        if plain is not None and len(set(plain[0])) == len(changes):  # it wants ids that ascend strictly
            statement = "apply_plain" if len(plain) == len(PLAIN_COLUMNS) else "apply_plain_details"
            ids, fences, begins, ends, *details = plain
            begun, ended = [at.timestamp() for at in begins], [at.timestamp() for at in ends]
            ((took,),) = await self._db.fetch(statement, now, ids, fences, begun, ended, *details)
            return None if len(took) == len(changes) else [number in took for number in range(1, len(changes) + 1)]
        made, name = endings(changes, latest), "apply_free" if past_locks else "apply"
        is_alike = not notes and not past_locks and made.are_alike
        name, columns = ("apply_alike", alike_columns(made)) if is_alike else (name, change_columns(made))
        if notes:
            lines = note_columns([notes[place] for place in made.places])
            name, columns = "apply_noted", [*columns, *lines, None, None]
        ((numbers, *locked),) = await self._db.fetch(name, now, *columns)
        followers = {batch.state for _, batch in made.follow_ups}
        self._db.notifications.send_for(followers.union(row.state for row in made.rows))
        return made.answers((number - 1 for number in numbers), (number - 1 for found in locked for number in found))

    async def _applied_past_keys(self, changes: Sequence[Change], now: datetime, latest: datetime) -> list[Applied]:
        """An open transaction has the key of a job that is to follow.

        The changes that bring no such job are written together. The others are asked for one by one, so that only
        those wait whose key is taken; after a few in a row that had to, the rest is left for the next pass.
        """
        found: list[Applied] = [None] * len(changes)
        if len(changes) == 1:
            return found
        keyed = [place for place, change in enumerate(changes) if _brings_keys(change)]
        others = [place for place, change in enumerate(changes) if not _brings_keys(change)]
        answers = await self.apply([changes[place] for place in others], now, past_locks=True, latest=latest)
        for place, answer in zip(others, answers, strict=True):
            found[place] = answer
        waited = 0
        for place in keyed:
            if waited < MOST_LOCKED:
                # What is refused is refused again when it is asked for by itself: the others have their answers.
                with contextlib.suppress(StoreRefused):
                    (found[place],) = await self.apply([changes[place]], now, past_locks=True, latest=latest)
                waited = waited + 1 if found[place] is None else 0
        return found

    async def mark_started(self, started: Sequence[Started]) -> list[int]:
        if not started:
            return []
        columns = (list(column) for column in zip(*sorted(started), strict=True))
        return [row[0] for row in await self._db.fetch_past_locks("mark_started", *columns)]

    async def begin(self, started: Sequence[Started]) -> list[bool | None]:
        columns = (list(column) for column in zip(*sorted(started), strict=True))
        rows = await self._db.fetch_past_locks("begin", *columns)
        begun = {(job_id, claim_no): None if locked else True for job_id, claim_no, locked in rows}
        return [begun.get((told.id, told.claim_no), False) for told in started]

    async def held(self, node: UUID) -> list[HeldClaim]:
        return [HeldClaim(*row) for row in await self._db.fetch("held", node)]

    async def running(self, ids: Sequence[int]) -> list[Claim]:
        return [Claim(*row) for row in await self._db.fetch("running", ids)]

    async def orphaned(self, now: datetime, limit: int) -> list[Claim]:
        return [Claim(*row) for row in await self._db.fetch("orphaned", now, limit)]

    async def overdue(self, before: datetime, limit: int) -> list[Claim]:
        return [Claim(*row) for row in await self._db.fetch("overdue", before, limit)]

    async def expired(self, now: datetime, limit: int, among: Sequence[int] | None = None) -> list[Job]:
        name, few = ("expired", []) if among is None else ("expired_among", [list(among)])
        return [values.job(row) for row in await self._db.fetch(name, now, limit, *few)]

    async def outlook(self) -> Outlook:
        ((waiting, set_apart, addresses, *rest),) = await self._db.fetch("outlook")
        return Outlook(frozenset(waiting), frozenset(set_apart), frozenset(addresses), *rest)

    async def levels(self) -> list[PriorityLevel]:
        return [PriorityLevel(*row) for row in await self._db.fetch("levels")]

    async def age(
        self, level: PriorityLevel, round_no: int, waiting_since: datetime, gain: int, limit: int, now: datetime
    ) -> int:
        async with self._db.use() as connection:
            status = await connection.execute(
                self._db.sql["age"], round_no, level.queue, level.priority, waiting_since, gain, now, limit
            )
        return int(status.split()[-1])

    async def prune(self, before: datetime, limit: int, *, noted: tuple[Note, datetime] | None = None) -> int:
        note, now = (None, None) if noted is None else noted
        line = [None] * 4 if note is None else note_row(note)[:4]
        gone: int = (await self._db.fetch("prune", now, *line, before, limit))[0][0]
        await self._db.fetch("prune_attempts", before, limit)
        if gone < limit:  # else there are older jobs yet, whose slots will ask for the name of their worker
            await self._db.fetch("forget_nodes", before - NAMED_FOR)
        return gone

    async def prioritize(
        self, job_id: int, known: int, priority: int, now: datetime, *, note: Note | None = None
    ) -> bool:
        return await self._db.noted("prioritize", now, note, job_id, known, priority)

    async def request_cancel(self, job_id: int, claim_no: int, now: datetime, *, note: Note | None = None) -> bool:
        asked = await self._db.noted("request_cancel", now, note, job_id, claim_no)
        self._db.notifications.send()
        return asked

    async def report_details(self, told: Sequence[ToldDetails]) -> list[int]:
        if not told:
            return []
        columns = (list(column) for column in zip(*sorted(told), strict=True))
        return [row[0] for row in await self._db.fetch_past_locks("report_details", *columns)]

    async def report_progress(self, progress: Sequence[Progress]) -> None:
        if progress:
            await self._db.fetch_past_locks(
                "report_progress", *(list(column) for column in zip(*progress, strict=True))
            )


def change_columns(made: Endings) -> list[Any]:
    """The arrays of `apply` and the like, and the jobs that follow as one document."""
    columns = zip(*(row[:ROW] for row in made.rows), strict=True)
    guards, days = zip(*made.guards, strict=True), zip(*made.next_days, strict=True)
    return [*map(list, columns), *map(list, guards), *map(list, days), _following(made)]


def alike_columns(made: Endings) -> list[Any]:
    """The same of changes that are alike: arrays of what is their own, and the rest once."""
    first, days = made.rows[0], made.next_days
    shared: list[Any] = [*first[:ROW], *made.guards[0], None, *days[0][1:]]
    for place in OWN:
        shared[place] = [row[place] for row in made.rows]
    shared[-len(days[0])] = [day[0] for day in days]
    return [*shared, _following(made)]


def _following(made: Endings) -> str | None:
    """The jobs that follow, as one document."""
    jobs = (
        ({"ordinal": number + 1, "id": job_id, "args": args, "key": key}, batch)
        for number, batch in made.follow_ups
        for job_id, args, key in zip(batch.ids, batch.args, keys_of(batch), strict=True)
    )
    return jobs_document(jobs)


def jobs_document(jobs: Iterable[tuple[dict[str, Any], Batch]]) -> str | None:
    """Jobs of few kinds as JSON: what they share, then what each has of its own. None: there are no jobs."""
    kinds = [{**_shared_fields(batch), "jobs": own} for own, batch in alike(jobs)]
    return json.dumps(kinds, default=str) if kinds else None


def _shared_fields(batch: Batch) -> dict[str, Any]:
    names = (
        *("task", "queue", "priority", "state", "options", "max_retries", "max_runtime", "created_at", "visible_at"),
        *("deadline_at", "enqueued_by", "retry_of", "order_at", "group_name", "address"),
    )
    longest = None if batch.max_runtime is None else f"{batch.max_runtime:.6f} seconds"
    return {**dict(zip(names, common(batch), strict=True)), "max_runtime": longest}


def _brings_keys(change: Change) -> bool:
    brought = [batch for one in (change, change.late, change.released) if one is not None for batch in one.follow_ups]
    return any(batch.keys for batch in brought)


def _by_rows(wanted: JobFilter) -> tuple[Any, ...]:
    """What no index tells of a job."""
    return wanted.key, wanted.group, wanted.address, wanted.since, wanted.until


def _has_kinds(wanted: JobFilter) -> bool:
    """Whether there are jobs that this leaves out for their state, queue or task."""
    return bool(wanted.states or wanted.queue or wanted.task)
