"""The file of SQLite: how it is opened, and brought up to date."""

from __future__ import annotations

import atexit
import sqlite3
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from oncue.errors import StoreUnusable
from oncue.store.sqlite.identity import MEMORY, note_files, opened
from oncue.store.statements import Migration

BUSY_PAUSE = 0.01
HURRY_SECONDS = 0.01

_CHANGES_TABLE = """
create temp table if not exists change (
    ordinal integer primary key, id integer, from_state text, claim_no integer, state text, reason text, outcome text,
    visible_at integer, retry_count integer, attempt integer, crashes integer, started_at integer, ended_at integer,
    result text, error text, isolation integer, details text, day_status text, leader text, epoch integer,
    leads integer, next_version integer, next_day text, next_opens_at integer, next_cutoff_at integer, bucket integer)
"""


def connect(path: str, patience: float, *, checkpoints: bool, hurried: bool) -> sqlite3.Connection:
    """Open it. A statement waits for a lock for `patience`; a hurried one briefly, and its caller tries again."""
    if path != MEMORY and not Path(path).parent.is_dir():
        raise StoreUnusable(f"SQLite cannot use its file: there is no folder {Path(path).parent}")
    try:
        connection = opened(path, patience)
    except sqlite3.OperationalError as error:
        raise StoreUnusable(f"SQLite cannot use its file: {error} ({path})") from error
    try:
        _prepare(connection, patience, checkpoints, hurried)
        note_files(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, patience: float, checkpoints: bool, hurried: bool) -> None:
    _log_ahead(connection, patience)
    connection.execute("pragma synchronous = full")
    connection.execute("pragma foreign_keys = on")
    connection.execute("pragma temp_store = memory")
    if not checkpoints:
        connection.execute("pragma wal_autocheckpoint = 0")
    connection.execute(_CHANGES_TABLE)
    if checkpoints and hurried:
        connection.execute(f"pragma busy_timeout = {round(HURRY_SECONDS * 1000)}")


def _log_ahead(connection: sqlite3.Connection, patience: float) -> None:
    """Two processes that open a new file at once collide here, and SQLite's own patience does not cover it."""
    for _ in range(int(patience / BUSY_PAUSE)):
        try:
            connection.execute("pragma journal_mode = wal")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            threading.Event().wait(BUSY_PAUSE)
    connection.execute("pragma journal_mode = wal")


def version(connection: sqlite3.Connection) -> int:
    """The number of the last migration."""
    number: int = connection.execute("pragma user_version").fetchone()[0]
    return number


def data_version(connection: sqlite3.Connection) -> int:
    """It changes with every commit of another connection."""
    number: int = connection.execute("pragma data_version").fetchone()[0]
    return number


def migrated(connection: sqlite3.Connection, known: Sequence[Migration]) -> list[str]:
    """Do the steps that are missing; which they were."""
    done = version(connection)
    missing = [step for step in known if step.number > done]
    for step in missing:
        for statement in _split(step.script):
            connection.execute(statement)
        connection.execute(f"pragma user_version = {step.number}")
    return [step.name for step in missing]


@cache
def in_memory(known: tuple[Migration, ...]) -> sqlite3.Connection:
    """A migrated database to copy from. A simulation makes many, and a copy takes a thirtieth of the time."""
    connection = sqlite3.connect(MEMORY, isolation_level=None, check_same_thread=False)
    atexit.register(connection.close)
    migrated(connection, known)
    return connection


def _split(script: str) -> list[str]:
    """The statements of a script, so that they run inside our transaction (`executescript` would end it)."""
    parts, pending = [], ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            parts.append(pending)
            pending = ""
    return parts
