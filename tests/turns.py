"""How long one turn held an event loop: by the CPU time of its thread, so that a busy machine does not matter."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """The longest turn so far, in seconds. A turn ends when the loop runs the next callback."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._thread = threading.get_ident()
        self._mark = time.thread_time()

    def end(self) -> None:
        if threading.get_ident() == self._thread:
            now = time.thread_time()
            self.longest, self._mark = max(self.longest, now - self._mark), now


@contextmanager
def measured_turns() -> Iterator[Turns]:
    """Measure every turn of this thread's loop, from this one on. The garbage of other tests is left until then."""
    run = asyncio.Handle._run
    gc.collect()
    gc.disable()
    turns = Turns()

    def measured(handle: asyncio.Handle) -> None:
        turns.end()
        run(handle)
        turns.end()

    asyncio.Handle._run = measured  # type: ignore[method-assign]
    try:
        yield turns
        turns.end()
    finally:
        gc.enable()
        asyncio.Handle._run = run  # type: ignore[method-assign]
