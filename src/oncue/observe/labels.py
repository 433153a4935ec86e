"""Labels that callers choose: queues, tasks, schedules. There may be more of them than a time series database likes.

At most `MOST` of a kind stand under their own name, the others together under `_other`. For gauges those are the
busiest of the moment. A counter must never fall, so that its series cannot move from one name to another: there it is
what the application declares, then what came first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import nlargest
from typing import Any

MOST = 200
OTHER = "_other"


def busiest(names: Iterable[str], size: Callable[[str], Any]) -> frozenset[str]:
    """The names that stand for themselves. A caller may call a queue `_other`: that one is among the others."""
    return frozenset(nlargest(MOST, (name for name in names if name != OTHER), key=size))


class Pairs:
    """Tasks and their queues, for counters. What is over the limit keeps its task's name, if that is told anyway."""

    def __init__(self) -> None:
        self._pairs: set[tuple[str, str]] = set()
        self._tasks: set[str] = set()
        self._most = MOST

    def expect(self, task: str, queue: str) -> None:
        """A pair that the application declares: it is named whatever comes before it, and takes no other's place."""
        if (task, queue) not in self._pairs:
            self._most += 1
            self._add(task, queue)

    def named(self, task: str, queue: str) -> tuple[str, str]:
        if (task, queue) not in self._pairs:
            if len(self._pairs) >= self._most:
                return (task if task in self._tasks else OTHER, OTHER)
            self._add(task, queue)
        return task, queue

    def _add(self, task: str, queue: str) -> None:
        self._pairs.add((task, queue))
        self._tasks.add(task)
