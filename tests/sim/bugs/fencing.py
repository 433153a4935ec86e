"""Writes that do not compare what they know with what is there."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from oncue.model import Claim
from oncue.sim.wire import Delay
from oncue.store.sqlite import values
from oncue.store.sqlite.database import rows_of
from oncue.store.sqlite.jobs import SqliteJobs
from tests.sim.bugs import runs
from tests.sim.bugs.kit import Patch, bug

GUARD = "j.state = c.from_state and j.claim_no = c.claim_no"
PLAIN_GUARD = "and oncue_jobs.state = 'running' and oncue_jobs.claim_no = c.claim_no"
IS_RESCUE = "coalesce(c.error, '') in ('node_lost', 'over its maximum runtime')"


@bug(
    "a rescue that compares nothing",
    seen_in="River: a stuck job was rescued by its id alone, after it had completed (riverqueue/river#1302)",
    run=runs.sleepers,
    caught_by=("only the current claim writes", "a job ends once, and stays as it ended"),
)
def rescue_by_id(patch: Patch) -> None:
    patch.sql("history", "insert into", "insert or ignore into")  # the key of the attempts is a guard of its own
    patch.sql("drop_stale_changes", GUARD, f"(({GUARD}) or {IS_RESCUE})")


@bug(
    "a completion by id alone",
    seen_in="Solid Queue: a worker that had been given up finished its job, which was failed and finished then "
    "(rails/solid_queue#589)",
    run=runs.sleepers,
    caught_by=("only the current claim writes", "a job ends once, and stays as it ended"),
)
def completion_by_id(patch: Patch) -> None:
    patch.sql("history", "insert into", "insert or ignore into")
    patch.sql("apply_plain", PLAIN_GUARD, "")
    patch.sql("drop_stale_changes", GUARD, f"(({GUARD}) or (c.from_state = 'running' and not {IS_RESCUE}))")


@bug(
    "a claim that does not raise its number",
    seen_in="CraneSched: a requeued job kept its identity, so that a late message of the old run can hit the new one "
    "(PKUHPC/CraneSched#945)",
    run=runs.work,
    caught_by=("claim_no grows with every claim", "only the current claim writes"),
)
def claim_without_a_number(patch: Patch) -> None:
    patch.sql("take", "claim_no = claim_no + 1,", "")


@bug(
    "a claim that looks before it takes",
    seen_in="DJJob: two workers selected the same job, and both locked it (seatgeek/djjob#2)",
    run=runs.slow_lines,
    caught_by=("a job is claimed only when it waits", "attempts of one job never overlap under valid leases"),
)
def claim_by_read_then_take(patch: Patch) -> None:
    patch.sql("take", "and state = 'queued'", "")

    async def claim(
        self: SqliteJobs, node: UUID, queues: Sequence[str], tasks: Sequence[str], limit: int, now: datetime,
        *, few: int = 0, alone: datetime | None = None, rooms: Mapping[str, int] | None = None,
        epoch: int | None = None,
    ) -> list[Claim]:  # fmt: skip
        sets = {"queues": list(queues), "tasks": list(tasks), "rooms": rooms or {}}
        asked = {
            "node": str(node),
            "now": values.micros(now),
            "alone": None,
            "epoch": epoch,
            **{name: json.dumps(one) for name, one in sets.items()},
        }
        found = await self._db.read(lambda c: self._best(c, asked, limit, rooms or {}, few))
        await Delay(0.01)

        def take(connection: sqlite3.Connection) -> list[Any]:
            taken = {**asked, "ids": json.dumps(found)}
            connection.execute(self._db.sql["take"], taken)
            return rows_of(connection, self._db.sql["taken"], taken)

        return values.claims(await self._db.write(take)) if found else []

    patch.replace(SqliteJobs, "claim", claim)


@bug(
    "a cancel that compares nothing",
    seen_in="term-llm: a cancel that had read a queued run overwrote it when it was running or done "
    "(SamSaffron/term-llm#918)",
    run=runs.slow_lines,
    caught_by=(
        "only the current claim writes",
        "a job ends once, and stays as it ended",
        "a row is what was written last",
    ),
)
def cancel_by_id(patch: Patch) -> None:
    patch.sql("drop_stale_changes", GUARD, f"(({GUARD}) or (c.state = 'cancelled' and c.from_state <> 'running'))")


@bug(
    "a visibility timeout",
    seen_in="Celery on Redis: what is not acknowledged in time is delivered again, though its worker is fine "
    "(celery/kombu#337)",
    run=runs.sleepers,
    caught_by=("only a lost node's jobs are rescued", "attempts of one job never overlap under valid leases"),
)
def visibility_timeout(patch: Patch) -> None:
    patch.sql("orphaned", "n.lost_at is null and n.expires_at > :now", "claimed_at > :now - 3000000")
