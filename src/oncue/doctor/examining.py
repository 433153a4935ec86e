"""Asks every question that the state of the database allows."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from oncue.app import Oncue
from oncue.application.tables import unmigrated
from oncue.clock import DatabaseClock, wall
from oncue.doctor import checks, cluster, webhooks
from oncue.doctor.findings import Check, Snapshot
from oncue.engine.survey import next_due
from oncue.errors import OncueError, SchemaMismatch
from oncue.model import Job, JobFilter, State
from oncue.policy.secrets import VARIABLE_PREFIX
from oncue.settings import Settings
from oncue.store import SqliteStore
from oncue.store.contract import LEADER
from oncue.store.sqlite import identity

if TYPE_CHECKING:
    from datetime import datetime

    from oncue.store import PostgresStore

PATIENCE_SECONDS = 20
PAGE, SAMPLE = 1000, 10_000
"""Of the jobs that wait, and of those that run, so many are looked at."""
LISTED = 1000


async def examine(app: Oncue, *, sample: int = SAMPLE) -> list[Check]:
    """Every check that the state of the database allows. A connection of its own shows what a new process would see."""
    store = unmigrated(app)
    missing = _missing_file(store)
    if missing is not None:
        return [missing]
    found = []
    if isinstance(store, SqliteStore):
        found = [checks.sqlite_version(), await asyncio.to_thread(checks.deleted_file, store.path)]
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return found + await _examined(store, app, sample)
    except SchemaMismatch as error:
        text = str(error)
        return [Check("database", "ok", "reachable"), *found, Check("schema", "fail", text, "run `oncue migrate`")]
    except OncueError as error:
        return [*found, Check("database", "fail", str(error), "check DATABASE_URL, and that the server runs")]
    except TimeoutError:
        late = f"no answer within {PATIENCE_SECONDS} s"
        return [*found, Check("database", "fail", late, "check the network and the server")]


def unknown_variables(environ: Mapping[str, str]) -> list[Check]:
    """Variables that look like settings and are none: typing errors, mostly."""
    known = {f"ONCUE_{name.upper()}" for name in Settings.names()} | {"ONCUE_CONFIG", "ONCUE_DEBUG"}
    names = (name for name in environ if name.startswith("ONCUE_") and not name.startswith(VARIABLE_PREFIX))
    unknown = sorted(name for name in names if name not in known)
    return [Check("environment", "warn", f"{name} is no setting", "see `oncue doctor --all`") for name in unknown]


def _missing_file(store: SqliteStore | PostgresStore) -> Check | None:
    if isinstance(store, SqliteStore) and not Path(store.path).exists():
        held = checks.deleted_file(store.path)
        if held.status != "ok":
            return held
        if (log := identity.log_of(store.path)) is not None:
            text = f"there is no file {store.path}, but its log {log} is there, with jobs in it"
            return Check("file", "fail", text, "put the file back; if it was deleted on purpose, delete the log too")
        return Check("database", "warn", f"there is no file {store.path} yet", "the first job or worker makes it")
    return None


async def _examined(store: SqliteStore | PostgresStore, app: Oncue, sample: int) -> list[Check]:
    sessions = []
    try:
        await store.open()
        if not isinstance(store, SqliteStore):
            sessions += [checks.session_limits(*await store.session_limits()), *checks.pooler(store.pooled)]
        clock = DatabaseClock()
        sent, asked_at = clock.sent(), wall()
        told = await store.time()
        clock.learn(told, sent)
        snapshot = await _snapshot(store, clock.now(), app.settings.alert_webhook, sample=sample)
        owner = await store.application.owner()
    finally:
        await store.close()
    return [
        Check("database", "ok", f"{store.dialect} answers"),
        checks.tables(store),
        checks.owned(owner, app, store.dialect),
        *sessions,
        checks.clock_difference(told, asked_at),
        checks.live_nodes(snapshot),
        checks.unserved_queues(snapshot),
        checks.unknown_tasks(snapshot),
        checks.paused_queues(snapshot),
        *checks.stuck(snapshot),
        *webhooks.checked(snapshot, app.settings, os.environ),
        checks.leader(snapshot),
        *cluster.checked(snapshot),
        checks.tokens(snapshot),
    ]


async def _snapshot(
    store: SqliteStore | PostgresStore, now: datetime, alerts_to: str | None = None, *, sample: int = SAMPLE
) -> Snapshot:
    queues, told = await store.queues.all(), [] if alerts_to is None else await store.webhooks.get([alerts_to])
    waiting, running = sum(queue.queued + queue.later for queue in queues), sum(queue.running for queue in queues)
    return Snapshot(
        now=now,
        nodes=await store.nodes.alive(),
        queues=queues,
        waiting=await _jobs(store, ("queued", "retrying", "scheduled"), min(waiting, sample)),
        running=await _jobs(store, ("running",), min(running, sample)),
        stranded=len(await store.jobs.orphaned(now, LISTED)),
        overdue=len(await store.jobs.overdue(now - checks.LONG_WAIT, LISTED)),
        leader=await store.leases.get(LEADER),
        next_run=await next_due(store),
        tokens=tuple(await store.tokens.all()),
        webhooks=tuple(await store.webhooks.page(limit=sample)),
        held_back=tuple(await store.groups.held_back(now, LISTED)),
        alert_webhook=next((webhook for webhook in told if not webhook.deleted), None),
    )


async def _jobs(store: SqliteStore | PostgresStore, states: tuple[State, ...], count: int) -> list[Job]:
    """The newest in these states. No more is asked for than there are: a search for one more would read everything."""
    found: list[Job] = []
    while len(found) < count:
        before = found[-1].id if found else None
        page = await store.jobs.find(JobFilter(states, before=before, limit=min(count - len(found), PAGE), short=True))
        if not page:
            break
        found += page
    return found
