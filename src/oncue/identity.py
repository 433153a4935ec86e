"""Identities, made of handed-in time and dice: a seed repeats them."""

from __future__ import annotations

import os
import platform
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from uuid import UUID

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_VERSION_8 = 8 << 76
_VARIANT = 2 << 62
_ID_MASK = (1 << 62) - 1


def job_uid(job_id: int, created_at: datetime) -> UUID:
    """A job's public name: the instant it was made, then its number. Nothing to store, and nothing to index."""
    microseconds = (created_at - _EPOCH) // _MICROSECOND
    milliseconds, rest = divmod(microseconds, 1000)
    return UUID(int=(milliseconds << 80) | _VERSION_8 | (rest << 64) | _VARIANT | job_id)


def job_id_of(uid: UUID) -> int:
    """The number inside a job's public name. Whether there is such a job, and it has this name, the row tells."""
    return uid.int & _ID_MASK


def job_created_at(uid: UUID) -> datetime:
    """The instant inside a job's public name."""
    milliseconds, rest = uid.int >> 80, (uid.int >> 64) & 0xFFF
    return _EPOCH + (milliseconds * 1000 + rest) * _MICROSECOND


def new_node_id(dice: Random) -> UUID:
    """A process is a fresh random UUID."""
    return UUID(int=dice.getrandbits(128), version=4)


def host() -> str:
    return socket.gethostname() or platform.node() or "unknown"


def boot_id() -> str:
    """Tells one boot of a host from the next, where the system says; else empty."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def process_start() -> str:
    """Tells this process from any other that has had its number, where the system says; else empty."""
    return _process_start("self")


def is_gone(pid: int, start: str) -> bool:
    """Whether a process of this host and boot is proved to have ended. `start` is what `process_start` said there."""
    namespace, _, began = start.partition(" ")
    if not start or namespace != _process_namespace():
        return False  # its number means something else in here
    if not _is_taken(pid):
        return True
    stat = _stat(str(pid))
    if stat is None:
        return False  # there is a process, and which one it is we may not see
    state, since = stat
    return state in ("Z", "X") or since != began  # dead, and only waiting for its parent to notice; or another one


def _is_taken(pid: int) -> bool:
    """Whether any process has this number. That cannot be hidden, while what /proc shows can."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's
    return True


def _process_start(pid: str) -> str:
    stat, namespace = _stat(pid), _process_namespace()
    return f"{namespace} {stat[1]}" if stat is not None and namespace else ""


def _stat(pid: str) -> tuple[str, str] | None:
    """A process's state and when it began, if the system lets us see."""
    try:
        # The name of the program, in brackets, may contain anything; after it come the state and much else.
        fields = _read_stat(pid).rpartition(")")[2].split()
        return fields[0], fields[19]
    except (OSError, IndexError):
        return None


def _read_stat(pid: str) -> str:
    return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")


def _process_namespace() -> str:
    """Containers number their processes on their own: pid 1 of one is not pid 1 of another."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def default_name() -> str:
    """A label for people; the UUID is the identity."""
    return f"{host()}:{os.getpid()}"[-128:]
