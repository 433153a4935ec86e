"""Which files a connection to SQLite has open, and whether their paths still lead to them.

A process that has a file open can write to it after the file was deleted, moved or replaced: SQLite reports success,
and nothing of it is left when the process ends. The log (`-wal`) and its index (`-shm`) count as well: a commit is in
the log first, and a second process that makes a new log or index does not see the locks of the first.

So a level compares the identity (device and inode) of what it opened with what stands at the path: after a commit and
before the answer, and before it reads. An inode is not given to another file while it is open: no mix-up is possible.
A file that is moved back is the same file, and work goes on. Another file at the path has another history: ids and
claims that this process has in hand mean other jobs there. It is left alone until the process starts anew: while a
connection to the old file is open, this process does not open the other one either.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias
from weakref import WeakValueDictionary

from oncue.errors import FileGone, StoreUnavailable

MEMORY = ":memory:"
BESIDE = ("-wal", "-shm")
TRIES = 10

Identity: TypeAlias = tuple[int, int]


class FileConnection(sqlite3.Connection):
    """A connection that knows which files it opened."""

    files: Mapping[str, Identity] = {}

    def close(self) -> None:
        _open.pop(id(self), None)
        super().close()


_open: WeakValueDictionary[int, FileConnection] = WeakValueDictionary()
"""Every connection of this process; in a forked child its parent's too. No lock: a fork could copy a held one."""


def opened(path: str, patience: float) -> FileConnection:
    """Open a file, and be sure which one it is: the one that this process has open already, if it has."""
    for _ in range(TRIES):
        known = _known(path)  # asked first: another thread may make the file between the two questions
        log = log_of(path)  # before the file: who makes the file makes it before its log
        before = _identity(path)
        if known not in (None, before):
            raise FileGone(_complaint(path, before))
        if before is None and log is not None:  # SQLite would make an empty file, and delete the log for it
            raise FileGone(
                f"there is no SQLite file {path}, but its log {log} is there, with jobs in it: put the file back; "
                "if it was deleted on purpose, delete the log too"
            )
        connection = sqlite3.connect(
            path, timeout=patience, isolation_level=None, check_same_thread=False, factory=FileConnection
        )
        if path == MEMORY:
            return connection
        if before is not None and before == _identity(path):
            connection.files = {path: before}
            _open[id(connection)] = connection
            return connection
        connection.close()  # it was made just now, or replaced at this very moment: the next look tells
    raise StoreUnavailable(f"SQLite cannot use its file: {path} is replaced again and again while it is opened")


def log_of(path: str) -> str | None:
    """The log beside a file, or beside the place where one should be, if something is in it."""
    log = os.path.realpath(path) + "-wal"
    try:
        return log if path != MEMORY and os.stat(log).st_size else None
    except OSError:
        return None


def _known(path: str) -> Identity | None:
    connections = (reference() for reference in _open.valuerefs())
    return next((c.files[path] for c in connections if c is not None and path in c.files), None)


def note_files(connection: FileConnection) -> None:
    """Note the files beside the database; SQLite keeps them beside the file that a symbolic link leads to."""
    if not connection.files:
        return
    connection.execute("select count(*) from sqlite_master").fetchall()  # the first read opens them
    main = connection.execute("pragma database_list").fetchone()[2]
    beside = {main + end: _identity(main + end) for end in BESIDE}
    connection.files = {**connection.files, **{path: seen for path, seen in beside.items() if seen is not None}}


def check_files(connection: sqlite3.Connection) -> None:
    """Raise FileGone unless every path still leads to the file that is open."""
    if isinstance(connection, FileConnection):
        for path, known in connection.files.items():
            if (found := _identity(path)) != known:
                raise FileGone(_complaint(path, found))


def _identity(path: str) -> Identity | None:
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StoreUnavailable(f"SQLite cannot use its file: {error}") from error
    return found.st_dev, found.st_ino


def _complaint(path: str, found: Identity | None) -> str:
    what = "was deleted or moved away" if found is None else "was replaced by another file"
    return (
        f"the SQLite file {path} {what} while this process had it open, and nothing written since then can be kept: "
        "put the file back, then restart this process"
    )


def holders_of_deleted(path: str, processes: Path = Path("/proc")) -> list[int]:
    """The processes of this host (Linux, of this user) that have a file of this name open that was deleted."""
    gone = f"{os.path.realpath(path)} (deleted)"
    return sorted(
        int(folder.name)
        for folder in processes.glob("[0-9]*")
        if any(_leads_to(link) == gone for link in _links(folder))
    )


def _links(process: Path) -> list[Path]:
    try:
        return list((process / "fd").iterdir())
    except OSError:  # it has ended, or belongs to another user
        return []


def _leads_to(link: Path) -> str | None:
    try:
        return os.readlink(link)
    except OSError:
        return None
