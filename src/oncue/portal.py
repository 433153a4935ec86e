"""Lets plain code use the asynchronous engine: one background loop per process, started on first use.

A forked child (Gunicorn forks its workers) inherits no threads: it notices that its portal is its parent's and makes
its own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Coroutine
from typing import TypeVar

T = TypeVar("T")


class Portal:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0

    def wait(self, awaitable: Awaitable[T]) -> T:
        """Run an awaitable to its end and return its result. Refuses to block a running event loop."""
        if _inside_loop():
            if isinstance(awaitable, Coroutine):
                awaitable.close()
            raise RuntimeError("this would block the running event loop: use `await` (for enqueue: `aenqueue`)")
        return asyncio.run_coroutine_threadsafe(_awaited(awaitable), self._running_loop()).result()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._pid != os.getpid():
            self._lock = threading.Lock()  # the parent's may have been held at the instant of the fork
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                threading.Thread(target=self._loop.run_forever, name="oncue-portal", daemon=True).start()
            return self._loop

    def stop(self) -> None:
        if self._loop is not None and self._pid == os.getpid():
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._loop = None


def _inside_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable
