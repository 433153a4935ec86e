"""Identities, made of handed-in time and dice: a seed repeats them."""

from __future__ import annotations

import os
import platform
import socket
from datetime import datetime
from pathlib import Path
from random import Random
from uuid import UUID

_VERSION_7 = 7 << 76
_VARIANT = 2 << 62


def new_uids(count: int, now: datetime, dice: Random) -> list[UUID]:
    """Version 7 UUIDs: they begin with the time, so that their index grows at its end."""
    prefix = (int(now.timestamp() * 1000) << 80) | _VERSION_7 | _VARIANT
    getrandbits = dice.getrandbits
    return [UUID(int=prefix | (getrandbits(12) << 64) | getrandbits(62)) for _ in range(count)]


def host() -> str:
    return socket.gethostname() or platform.node() or "unknown"


def boot_id() -> str:
    """Tells one boot of a host from the next, where the system says; else empty."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def default_name() -> str:
    """A label for people; the UUID is the identity."""
    return f"{host()}:{os.getpid()}"[-128:]
