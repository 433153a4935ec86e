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
_COUNTER_BITS = 32
_RANDOM_BITS = 42


def new_uids(count: int, now: datetime, dice: Random) -> list[UUID]:
    """Version 7 UUIDs: the millisecond, then a counter that starts at random, then dice.

    They ascend, so that their index grows at its end: with dice right after the time, a bulk enqueue scattered its
    entries over the whole index and made every later update of these rows a third dearer.
    """
    prefix = (int(now.timestamp() * 1000) << 80) | _VERSION_7 | _VARIANT
    first = dice.getrandbits(_COUNTER_BITS - 1)
    return [UUID(int=prefix | _spread(first + n) | dice.getrandbits(_RANDOM_BITS)) for n in range(count)]


def _spread(counter: int) -> int:
    """Put 32 bits around the variant: 12 above it and 20 below."""
    return (counter >> 20) << 64 | (counter & 0xFFFFF) << _RANDOM_BITS


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
