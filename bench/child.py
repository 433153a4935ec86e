"""What a measured child process says to the rig. Only the standard library, since peers import it too."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any


def announce() -> None:
    """Tell the rig that start-up is over."""
    print("ready", flush=True)


def announce_and_wait() -> None:
    """Tell the rig that start-up is over, then wait for its starting shot."""
    announce()
    sys.stdin.readline()


def told() -> Callable[[], bool]:
    """Whether the rig has said something since: a process that works until it is told to stop asks this."""
    heard = threading.Event()

    def listen() -> None:
        sys.stdin.readline()
        heard.set()

    threading.Thread(target=listen, daemon=True).start()
    return heard.is_set


def answer(**values: Any) -> None:
    print(json.dumps(values), flush=True)


def dispatch(verbs: dict[str, Callable[..., None]]) -> None:
    """Run the verb that the command line names, with the rest as its arguments."""
    verbs[sys.argv[1]](*sys.argv[2:])


class Meter:
    """Counts handler calls, from the first to the last of a known number."""

    def __init__(self, total: int, finished: Callable[[], None]) -> None:
        self.left = self.total = total
        self.finished = finished
        self.first = self.last = 0

    def count(self) -> None:
        if self.left == self.total:
            self.first = time.monotonic_ns()
        self.left -= 1
        if self.left == 0:
            self.last = time.monotonic_ns()
            self.finished()

    def rate(self) -> float:
        return self.total / ((self.last - self.first) / 1e9)


class Stopwatch:
    """Collects the delays between a stamp made by another process and now; monotonic time is shared."""

    def __init__(self, samples: int, finished: Callable[[], None]) -> None:
        self.samples = samples
        self.finished = finished
        self.delays_ms: list[float] = []

    def stamp(self, sent_ns: int) -> None:
        self.delays_ms.append((time.monotonic_ns() - sent_ns) / 1e6)
        if len(self.delays_ms) == self.samples:
            self.finished()

    def p50(self) -> float:
        return sorted(self.delays_ms)[len(self.delays_ms) // 2]

    def p99(self) -> float:
        return sorted(self.delays_ms)[min(len(self.delays_ms) * 99 // 100, len(self.delays_ms) - 1)]


def rss_mb() -> float:
    """Resident memory of this process, from Linux's own account."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    raise RuntimeError("this system does not say how much memory a process uses")
