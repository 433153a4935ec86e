"""What can be wrong, one function per question. Each answers with a `Check` and what to do about it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from oncue.app import Oncue
from oncue.application.ownership import OWN_TABLES
from oncue.application.tables import schema_of
from oncue.doctor.findings import Check, Snapshot, Status, few
from oncue.model import Job, Owner, Token
from oncue.policy.ownership import is_owner
from oncue.policy.words import plural, took
from oncue.store import SqliteStore
from oncue.store.sqlite import identity
from oncue.store.statements import migrations
from oncue.verbs.tokens import is_valid

if TYPE_CHECKING:
    from oncue.store import PostgresStore

GOOD_SQLITE = (3, 51, 3)
CLOCK_SECONDS = 2.0
LONG_WAIT = timedelta(hours=1)
CANCEL_PATIENCE = timedelta(minutes=1)
LEADERLESS = timedelta(minutes=1)
LATE_ADVICE = "look at its log for `scheduler`, `planner` and `another session holds a lock`"
EXPIRES_SOON = timedelta(days=7)


def declared(app: Oncue) -> Check:
    """What this process knows of the application."""
    tasks, webhooks = len(app.tasks), len(app.internals.webhooks)
    if app.settings.app is None and not tasks and not webhooks:
        return Check("application", "warn", "none is named", "say --app module:app or set ONCUE_APP")
    if not tasks and not webhooks:
        return Check("application", "warn", f"{app.settings.app} declares no tasks", "declare some with @app.task")
    counts = [plural(count, word) for count, word in ((tasks, "task"), (webhooks, "webhook")) if count]
    return Check("application", "ok", f"{app.settings.app or 'it'} declares {' and '.join(counts)}")


def tables(store: SqliteStore | PostgresStore) -> Check:
    schema, version = schema_of(store), f"version {migrations(store.dialect)[-1].number}"
    return Check("schema", "ok", version if schema is None else f"{version}, in the schema {schema}")


def owned(owner: Owner | None, app: Oncue, dialect: str) -> Check:
    """Whether the tables are this application's. Without tasks of its own there is no application to compare with."""
    if owner is None:
        return Check("owner", "ok", "the tables belong to no application yet: its first worker takes them")
    identity, text = app.internals.identity, f"the tables belong to the application {owner.name}"
    if (app.tasks or identity.given) and not is_owner(owner, identity):
        advice = f"give {identity.name} tables of its own ({OWN_TABLES[dialect]}), or the name {owner.name}"
        return Check("owner", "fail", f"{text}, and this application is called {identity.name}", advice)
    if not owner.given and app.settings.env == "production":
        advice = "name it: ONCUE_NAME or Oncue(name=…)"
        return Check("owner", "warn", f"{text}, which is only the place of its code", advice)
    return Check("owner", "ok", text)


def sqlite_version(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> Check:
    text, good = ".".join(map(str, version)), ".".join(map(str, GOOD_SQLITE))
    if version >= GOOD_SQLITE:
        return Check("sqlite", "ok", f"version {text}")
    return Check(
        "sqlite", "warn", f"version {text} can, very rarely, damage a file when its write-ahead log is reset",
        f"use a Python that is built with SQLite {good} or newer, or PostgreSQL",
    )  # fmt: skip


def session_limits(role: str, lock: int, idle: int) -> Check:
    """Behind a pooler only the role can say for how long a session waits. In milliseconds; 0: for ever."""
    from oncue.store.postgres.connections import IDLE_SECONDS, LOCK_SECONDS

    wanted = {"lock_timeout": (lock, LOCK_SECONDS), "idle_in_transaction_session_timeout": (idle, IDLE_SECONDS)}
    missing = {name: seconds for name, (found, seconds) in wanted.items() if found == 0}
    if not missing:
        return Check("locks", "ok", f"a session waits {took(lock / 1000)} for a locked row")
    text = f"sessions of the role {role} have no {' and no '.join(missing)}: one locked row can stop everything"
    run = "; ".join(f"alter role {_quoted(role)} set {name} = '{seconds:g}s'" for name, seconds in missing.items())
    return Check("locks", "warn", text, f"run `{run}`, then have the pooler open new connections")


def pooler(found: bool) -> list[Check]:
    """A pooler that pools transactions loses prepared statements and notifications."""
    from oncue.store.postgres.connections import POOLER_ADVICE

    text = "a pooler stands before PostgreSQL, and statements are prepared: a pooler of transactions loses them"
    return [Check("pooler", "warn", text, f"unless it pools sessions, {POOLER_ADVICE}")] if found else []


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def deleted_file(path: str) -> Check:
    """Processes go on with a file that was deleted or replaced; what they hold can be copied while they live."""
    holders = identity.holders_of_deleted(path)
    if not holders:
        return Check("file", "ok", "no process has a deleted file open under this name")
    ids = ", ".join(map(str, holders))
    text = f"the file {path} was deleted or replaced, and the old one is still open in the processes {ids}"
    return Check(
        "file", "fail", text, 'put the old file back, then restart them (docs/operations.md, "The file is gone")'
    )


def clock_difference(database: datetime, host: datetime) -> Check:
    difference = (database - host).total_seconds()
    side = "ahead of" if difference > 0 else "behind"
    text = f"the database's clock is {took(abs(difference))} {side} this host's"
    if abs(difference) <= CLOCK_SECONDS:
        return Check("clock", "ok", text)
    return Check("clock", "warn", text, "oncue goes by the database's clock; have both set by NTP all the same")


def live_nodes(snapshot: Snapshot) -> Check:
    silent = len(snapshot.nodes) - len(snapshot.live)
    if not snapshot.live:
        return Check("nodes", "warn", "no node is alive", "start one with `oncue worker`")
    seats = sum(node.concurrency for node in snapshot.live)
    text = f"{plural(len(snapshot.live), 'node')} alive, with {plural(seats, 'seat')}"
    if silent:
        return Check("nodes", "warn", f"{text}; {silent} silent", "their jobs are rescued; see `oncue nodes`")
    return Check("nodes", "ok", text)


def unserved_queues(snapshot: Snapshot) -> Check:
    served = {queue for node in snapshot.live for queue in node.queues}
    unserved = [q for q in snapshot.queues if q.queued + q.later and q.name not in served]
    if not unserved:
        return Check("queues", "ok", "every queue with work is served")
    text = ", ".join(f"{queue.name} ({plural(queue.queued + queue.later, 'job')})" for queue in unserved)
    names = ",".join(queue.name for queue in unserved)
    return Check("queues", "fail", f"no live node serves {text}", f"start `oncue worker --queues {names}`")


def unknown_tasks(snapshot: Snapshot) -> Check:
    known = {task for node in snapshot.live for task in node.tasks}
    if not snapshot.live:
        return Check("tasks", "ok", "there is no live node to ask")
    unknown = sorted({job.task for job in snapshot.waiting} - known)
    if not unknown:
        return Check("tasks", "ok", "every waiting task is known to a live node")
    return Check(
        "tasks", "fail", f"no live node knows {', '.join(unknown)}",
        "deploy a worker that declares them, or `oncue cancel` these jobs",
    )  # fmt: skip


def paused_queues(snapshot: Snapshot) -> Check:
    queues = [queue.name for queue in snapshot.queues if queue.paused_at is not None]
    groups = [f"{group.name} of {group.queue}" for group in snapshot.held_back if group.by_hand]
    if not queues and not groups:
        return Check("paused", "ok", "no queue and no group is paused")
    parts = [f"paused: {', '.join(queues)}"] if queues else []
    if groups:
        parts.append(f"{plural(len(groups), 'group')} paused: {few(groups)}")
    advice = "`oncue queues resume NAME` lets their jobs start; for a group add `--group GROUP`"
    return Check("paused", "warn", "; ".join(parts), advice)


def leader(snapshot: Snapshot) -> Check:
    """Without a leader no schedule fires. Where none is enabled, no leader is needed."""
    lease = snapshot.leader
    is_late = snapshot.next_run is not None and snapshot.next_run <= snapshot.now - LEADERLESS
    if lease is not None and lease.expires_at > snapshot.now:
        led = f"{lease.holder_name} leads"
        if is_late:
            return Check("schedules", "warn", f"{led}; {_next_slot(snapshot)}", LATE_ADVICE)
        return Check("schedules", "ok", led if snapshot.next_run is None else f"{led}; {_next_slot(snapshot)}")
    if snapshot.next_run is None:
        return Check("schedules", "ok", "no node leads, and no schedule needs it")
    status: Status = "fail" if is_late else "warn"
    return Check(
        "schedules", status, f"no node leads: {_next_slot(snapshot)}", "start a worker: it fires the schedules"
    )


def _next_slot(snapshot: Snapshot) -> str:
    assert snapshot.next_run is not None
    if snapshot.next_run <= snapshot.now:
        late = took((snapshot.now - snapshot.next_run).total_seconds())
        return f"a slot, or the day of a window's subject, has been due for {late}"
    return f"the next slot or day comes in {took((snapshot.next_run - snapshot.now).total_seconds())}"


def tokens(snapshot: Snapshot) -> Check:
    """Who may use the API. Until the first token is made, only this machine may."""
    if not snapshot.tokens:
        text = "there are none: the API is open on a loopback address, and closed on any other"
        return Check("tokens", "ok", text)
    valid = [token for token in snapshot.tokens if is_valid(token, snapshot.now)]
    if not valid:
        text = f"none of {plural(len(snapshot.tokens), 'token')} is valid: no request can use the API"
        return Check("tokens", "warn", text, "`oncue token create NAME --scope SCOPE` makes one")
    text = f"{plural(len(valid), 'token')} valid"
    first = min((token for token in valid if token.expires_at is not None), key=_expiry, default=None)
    if first is None:
        return Check("tokens", "ok", text)
    left = _expiry(first) - snapshot.now
    text = f"{text}; {first.name} ({first.id}) is the next to expire, in {took(left.total_seconds())}"
    if left < EXPIRES_SOON:
        return Check("tokens", "warn", text, "make another, hand it over, then `oncue token revoke` this one")
    return Check("tokens", "ok", text)


def _expiry(token: Token) -> datetime:
    assert token.expires_at is not None
    return token.expires_at


def stuck(snapshot: Snapshot) -> list[Check]:
    found = [_stranded(snapshot), _overdue(snapshot), _not_cancelled(snapshot), _starving(snapshot)]
    return [check for check in found if check is not None] or [Check("stuck", "ok", "nothing is stuck")]


def _stranded(snapshot: Snapshot) -> Check | None:
    if not snapshot.stranded:
        return None
    text = f"{plural(snapshot.stranded, 'running job')} of nodes that are gone"
    if snapshot.live:
        return Check("stuck", "warn", text, "a live node puts them back within its lease; look again in a minute")
    return Check("stuck", "fail", text, "start a worker: it puts them back")


def _overdue(snapshot: Snapshot) -> Check | None:
    if not snapshot.overdue:
        return None
    text = f"{plural(snapshot.overdue, 'job')} over an hour past the maximum runtime"
    return Check("stuck", "fail", text, "see `oncue jobs --status running`; restart the node that holds them")


def _not_cancelled(snapshot: Snapshot) -> Check | None:
    deaf = _ids(
        job for job in snapshot.running
        if job.cancel_requested_at is not None and snapshot.now - job.cancel_requested_at > CANCEL_PATIENCE
    )  # fmt: skip
    if not deaf:
        return None
    advice = "a plain function must look at current_job().cancel_requested; restarting its node ends it"
    return Check("stuck", "warn", f"asked to stop over a minute ago and still running: {deaf}", advice)


def _starving(snapshot: Snapshot) -> Check | None:
    due = [job for job in snapshot.waiting if snapshot.now - max(job.created_at, job.visible_at) > LONG_WAIT]
    if not due:
        return None
    oldest = max((snapshot.now - max(job.created_at, job.visible_at)).total_seconds() for job in due)
    text = f"{plural(len(due), 'job')} due for over an hour, the oldest for {took(oldest)}"
    return Check("waiting", "warn", text, "add workers or seats, or see which task takes so long: `oncue jobs`")


def _ids(jobs: Iterable[Job]) -> str:
    return ", ".join(str(job.id) for job in jobs)
