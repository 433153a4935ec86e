"""A node's own store: an SQLite file to which every write appends a version, and a deletion a tombstone.

Reads would look for the last version of a key. What is overwritten stays until a compaction drops it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

KEYS = 2000
DELETED = 0.1
BUSY_SECONDS = 0.5
"""So long a statement waits for a file that is locked. Then the disk counts as busy."""
_SCHEMA = """
create table if not exists versions (seq integer primary key, key text not null, value text);
create index if not exists versions_key on versions (key, seq);
create table if not exists rounds (
    number       integer primary key,
    upto         integer not null,            -- this round is about the versions up to here
    cursor       text not null default '',    -- and is done with the keys up to here
    dropped      integer not null default 0,
    bytes_before integer not null,
    checksum     text                         -- of the segment; null until the round is finished
);
"""
_GARBAGE = """
select count(*) from versions v
 where v.value is null or exists (select 1 from versions later where later.key = v.key and later.seq > v.seq)
"""


class Size(NamedTuple):
    """How much a store has, and how much of that is of no use."""

    versions: int
    garbage: int
    bytes: int


class LocalStore:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.path = folder / "store.db"
        self.connection = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        self.connection.execute("pragma journal_mode = wal")
        self.connection.executescript(_SCHEMA)

    def close(self) -> None:
        self.connection.close()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction."""
        self.connection.execute("begin immediate")
        try:
            yield self.connection
        except BaseException:
            self.connection.execute("rollback")
            raise
        self.connection.execute("commit")

    def write(self, count: int, dice: Random) -> None:
        """Append so many versions: most of them overwrite a key, some delete one."""
        rows = [
            (f"key-{dice.randrange(KEYS):05}", None if dice.random() < DELETED else f"{dice.getrandbits(256):064x}")
            for _ in range(count)
        ]
        with self.writing() as connection:
            connection.executemany("insert into versions (key, value) values (?, ?)", rows)

    def size(self) -> Size:
        (versions,) = self.connection.execute("select count(*) from versions").fetchone()
        (garbage,) = self.connection.execute(_GARBAGE).fetchone()
        return Size(versions, garbage, self.bytes())

    def bytes(self) -> int:
        """The size of the file, with what has not been moved to it from the log."""
        (pages,), (size,) = (self.connection.execute(f"pragma page_{what}").fetchone() for what in ("count", "size"))
        return int(pages * size)


@contextmanager
def opened(folder: Path) -> Iterator[LocalStore]:
    store = LocalStore(folder)
    try:
        yield store
    finally:
        store.close()
