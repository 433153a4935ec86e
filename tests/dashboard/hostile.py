"""Puts payloads into every text that a database of stories holds.

The same text becomes the same text everywhere, so that names still find what they name.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from zlib import crc32

from oncue.model import NODE_ADDRESS, WEBHOOKS_QUEUE

NAMES = {
    "oncue_jobs": ("task", "queue", "group_name", "address", "subject", "key", "enqueued_by"),
    "oncue_queues": ("name",),
    "oncue_counters": ("queue", "task"),
    "oncue_counter_deltas": ("queue", "task"),
    "oncue_nodes": ("name", "host", "version", "address"),
    "oncue_schedules": ("name", "task", "queue", "declared_by", "created_by", "key", "group_name", "address"),
    "oncue_revisions": ("task", "queue", "changed_by"),
    "oncue_slots": ("subject", "worker"),
    "oncue_leases": ("holder_name",),
    "oncue_seats": ("queue",),
    "oncue_tokens": ("name", "created_by"),
    "oncue_audit": ("actor", "action", "subject"),
    "oncue_groups": ("queue", "name"),
    "oncue_group_wakeups": ("queue", "name"),
    "oncue_application": ("name",),
    "oncue_webhooks": ("name", "declared_by", "created_by"),
    "oncue_subjects": ("name",),
    "oncue_minutes": ("name",),
    "oncue_parts": ("node_name",),
}
TEXTS = {
    "oncue_jobs": ("reason", "error"),
    "oncue_attempts": ("error",),
    "oncue_progress": ("note",),
    "oncue_schedules": ("description", "reason"),
    "oncue_revisions": ("reason",),
    "oncue_slots": ("reason", "outcome_reason", "error"),
    "oncue_webhooks": ("description", "url", "body", "content_type", "reason", "ca", "certificate"),
    "oncue_subjects": ("reason",),
}
JSON = {
    "oncue_jobs": ("args", "result", "details"),
    "oncue_attempts": ("details",),
    "oncue_nodes": ("queues", "tasks", "schedules"),
    "oncue_schedules": ("args",),
    "oncue_revisions": ("args",),
    "oncue_audit": ("before", "after"),
    "oncue_sample": ("counts",),
    "oncue_subjects": ("args",),
    "oncue_minutes": ("figures",),
    "oncue_alerts": ("alerts",),
}
FIXED = {
    "oncue_jobs": ("state", "options", "node_id"),
    "oncue_attempts": ("node_id", "outcome"),
    "oncue_counters": ("state",),
    "oncue_counter_deltas": ("state",),
    "oncue_nodes": ("id", "boot_id", "process_start"),
    "oncue_schedules": ("expression", "tz", "dst", "missed", "options"),
    "oncue_revisions": ("expression", "tz", "dst", "missed"),
    "oncue_slots": ("verdict", "outcome", "decided_by"),
    "oncue_leases": ("name", "holder"),
    "oncue_seats": ("node_id",),
    "oncue_tokens": ("id", "digest", "scopes"),
    "oncue_requests": ("actor", "key", "fingerprint", "ids", "answer"),
    "oncue_webhooks": ("method", "headers", "secrets", "retry"),
    "oncue_subjects": ("tz", "days_off", "day", "last_date", "status"),
    "oncue_window_days": ("day", "event"),
    "oncue_window_deltas": ("day", "event"),
    "oncue_minutes": ("node_id", "kind"),
    "oncue_cluster_jobs": ("node_id", "decided_by"),
    "oncue_parts": ("node_id",),
    "oncue_sessions": ("id", "digest", "token_id"),
}
"""Texts of which the code knows all that there can be, and what no page tells."""
KEPT = re.compile(r"oncue\..*|@.*|-?[\d.:TZ+/ -]*|[a-z_.]{1,40}")
"""Of the leaves of JSON: words of the code, numbers and instants."""

LONGEST_NAME = 100
"""So much is added to a name: they may have 128 characters."""

Spoil = Callable[[str, bool], str]
"""A text with something in it; the second argument says whether it is a name, which has to be printable."""


def spoiled(file: Path, spoil: Spoil) -> dict[str, str]:
    """Put something into every text of this database; what became of each name."""
    names: dict[str, str] = {}

    def renamed(name: str) -> str:
        if not name or name.startswith("oncue.") or name == WEBHOOKS_QUEUE:
            return name
        if name.startswith(NODE_ADDRESS):
            return NODE_ADDRESS + renamed(name.removeprefix(NODE_ADDRESS))
        return names.setdefault(name, spoil(name, True))

    with closing(sqlite3.connect(file)) as connection:
        connection.execute("pragma foreign_keys = off")
        for table, columns in NAMES.items():
            for column in columns:
                _change(connection, table, column, renamed)
        for table, columns in TEXTS.items():
            for column in columns:
                _change(connection, table, column, lambda text: spoil(text, False))
        for table, columns in JSON.items():
            for column in columns:
                _change(connection, table, column, lambda text: _document(text, names, spoil))
        connection.commit()
    return names


def _change(connection: sqlite3.Connection, table: str, column: str, change: Callable[[str], str]) -> None:
    found = connection.execute(f'select distinct "{column}" from {table} where typeof("{column}") = ?', ("text",))
    for (text,) in found.fetchall():
        changed = change(text)
        if changed != text:
            connection.execute(f'update {table} set "{column}" = ? where "{column}" = ?', (changed, text))


def _document(text: str, names: dict[str, str], spoil: Spoil) -> str:
    try:
        document = json.loads(text)
    except ValueError:
        return spoil(text, False)
    return json.dumps(_leaves(document, names, spoil), separators=(",", ":"))


def _leaves(value: Any, names: dict[str, str], spoil: Spoil) -> Any:
    if isinstance(value, dict):
        return {names.get(key, key): _leaves(part, names, spoil) for key, part in value.items()}
    if isinstance(value, list):
        return [_leaves(part, names, spoil) for part in value]
    if not isinstance(value, str):
        return value
    return names.get(value) or (value if KEPT.fullmatch(value) else spoil(value, False))


def with_payloads(some: Callable[..., str], turn: int, amount: int, clean: Callable[[str], str]) -> Spoil:
    """Each text gets so many payloads, in each turn others, and each text begins with another one. A name gets as many
    as it may be long; in every other turn it has no slashes, since the pages of such names have other addresses."""

    def spoil(text: str, is_name: bool) -> str:
        start = crc32(text.encode("utf-8", "replace")) + turn * amount
        if not is_name:
            return f"{text} {clean(some(start, amount))}"
        added = next(
            (one for fewer in range(amount, 0, -1) if len(one := some(start, fewer, printable=True)) <= LONGEST_NAME),
            some(start, 1, printable=True),
        )
        return f"{text} {clean(added.replace('/', '|') if turn % 2 else added)}".strip()

    return spoil


def columns_of_texts(file: Path) -> set[tuple[str, str]]:
    """All columns that hold texts."""
    with closing(sqlite3.connect(file)) as connection:
        tables = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
        return {
            (table, row[1]) for table in tables for row in connection.execute(f"pragma table_info({table})")
            if row[2] == "TEXT"
        }  # fmt: skip
