"""Someone who enqueues all the time, while others are killed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from oncue import StoreUnavailable, Task
from oncue.task import Call

Enqueue: TypeAlias = Callable[..., list[int]]


class Load(threading.Thread):
    """Someone who enqueues all the time, and remembers what was acknowledged."""

    def __init__(
        self, enqueue: Enqueue, tasks: Sequence[Task[..., Any] | Call[...]], pause: float, times: int, seconds: float
    ) -> None:
        super().__init__(name="load")
        self.ids: list[int] = []
        self.refused = 0
        self._enqueue_jobs = enqueue
        self._tasks = tasks
        self._pause, self._times, self._seconds = pause, times, seconds
        self._over = threading.Event()
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._over.wait(self._pause):
                self._enqueue()
        except BaseException as error:
            self._error = error

    def _enqueue(self) -> None:
        for task in self._tasks:
            try:
                self.ids += self._enqueue_jobs(task, self._seconds, times=self._times)
            except StoreUnavailable:
                self.refused += 1

    def finish(self) -> None:
        self._over.set()
        self.join()
        if self._error is not None:
            raise self._error
