"""How long one turn held an event loop: by the CPU time of its thread, so that a busy machine does not matter."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """The longest turn so far, in seconds."""

    longest = 0.0


@contextmanager
def measured_turns() -> Iterator[Turns]:
    """Measure every turn of the loops of this thread. The garbage of other tests is not collected meanwhile."""
    turns, thread, run = Turns(), threading.get_ident(), asyncio.Handle._run

    def measured(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        run(handle)
        if threading.get_ident() == thread:
            turns.longest = max(turns.longest, time.thread_time() - began)

    asyncio.Handle._run = measured  # type: ignore[method-assign]
    gc.disable()
    try:
        yield turns
    finally:
        gc.enable()
        asyncio.Handle._run = run  # type: ignore[method-assign]
