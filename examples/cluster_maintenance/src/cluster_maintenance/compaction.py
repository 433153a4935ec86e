"""One compaction of a node's store: overwritten versions and tombstones go, and what lives is written as a segment.

A round is about the versions that were there when it began. It goes from key to key and notes in the store itself how
far it came, in the transaction that drops something. A process that is killed in the middle loses nothing: the next
compaction goes on with the same round. Whatever is repeated comes to the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from cluster_maintenance.store import LocalStore

BATCH = 200
"""So many keys are compacted in one transaction."""

Tell: TypeAlias = Callable[[float, str], None]
"""Is told how far it is, after each step. It may raise, and so stop the compaction there."""

_BEGIN = """
insert into rounds (upto, bytes_before) select max(seq), ? from versions
returning number, upto, cursor, dropped, bytes_before
"""
_OPEN = "select number, upto, cursor, dropped, bytes_before from rounds where checksum is null"
_NEXT = "select max(key), count(*) from (select distinct key from versions where key > ? order by key limit ?)"
_OVERWRITTEN = """
delete from versions
 where key > :after and key <= :last and seq <= :upto
   and exists (select 1 from versions later
                where later.key = versions.key and later.seq > versions.seq and later.seq <= :upto)
"""
_TOMBSTONES = "delete from versions where key > :after and key <= :last and seq <= :upto and value is null"
_LIVING = "select key, seq, value from versions where seq <= ? order by key, seq"


@dataclass(frozen=True, slots=True)
class Report:
    """What a compaction came to."""

    segment: str
    checksum: str
    keys: int
    dropped: int
    bytes_before: int
    bytes_after: int
    resumed: bool
    """Whether an earlier compaction had begun it, and was interrupted."""


@dataclass(slots=True)
class Round:
    number: int
    upto: int
    cursor: str
    dropped: int
    bytes_before: int


def compact(store: LocalStore, tell: Tell) -> Report | None:
    """Compact a store; None if there is nothing to drop. Raises sqlite3.OperationalError while the file is locked."""
    unfinished = store.connection.execute(_OPEN).fetchone()
    if unfinished is None and not store.size().garbage:
        return None
    current = Round(*(unfinished or store.connection.execute(_BEGIN, (store.bytes(),)).fetchone()))
    (total,) = store.connection.execute("select count(distinct key) from versions").fetchone()
    done = 0
    while keys := _drop(store, current):
        done += keys
        tell(0.8 * min(done / total, 1.0), f"{current.dropped:,} versions dropped")
    segment = store.folder / f"segment-{current.number:06}.jsonl"
    checksum, living = _write_segment(store, current, segment)
    tell(0.9, f"{segment.name} written")
    store.connection.execute("vacuum")
    store.connection.execute("pragma wal_checkpoint(truncate)")
    store.connection.execute("update rounds set checksum = ? where number = ?", (checksum, current.number))
    for older in store.folder.glob("segment-*.jsonl"):
        if older.name < segment.name:
            older.unlink(missing_ok=True)
    return Report(
        segment.name, checksum, living, current.dropped, current.bytes_before, store.bytes(), unfinished is not None
    )


def _drop(store: LocalStore, current: Round) -> int:
    """Drop what is of no use among the next keys, and note how far that is. How many keys these were."""
    last, keys = store.connection.execute(_NEXT, (current.cursor, BATCH)).fetchone()
    if not keys:
        return 0
    bounds = {"after": current.cursor, "last": last, "upto": current.upto}
    with store.writing() as connection:
        dropped = sum(connection.execute(statement, bounds).rowcount for statement in (_OVERWRITTEN, _TOMBSTONES))
        connection.execute(
            "update rounds set cursor = ?, dropped = dropped + ? where number = ?", (last, dropped, current.number)
        )
    current.cursor, current.dropped = last, current.dropped + dropped
    return int(keys)


def _write_segment(store: LocalStore, current: Round, path: Path) -> tuple[str, int]:
    """Write what lives to a file that is there as a whole or not at all. Its checksum, and how many keys it has."""
    digest, count, unfinished = hashlib.sha256(), 0, path.with_suffix(".unfinished")
    with unfinished.open("wb") as file:
        for row in store.connection.execute(_LIVING, (current.upto,)):
            line = json.dumps(row, separators=(",", ":")).encode() + b"\n"
            digest.update(line)
            file.write(line)
            count += 1
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    return digest.hexdigest(), count


def is_busy(error: sqlite3.OperationalError) -> bool:
    """Whether another process has the file locked."""
    return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
