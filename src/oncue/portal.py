"""Lets plain code use the asynchronous engine: one background loop per process, started on first use.

A forked child (Gunicorn forks its workers) inherits no threads: it notices that its portal is its parent's and makes
its own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

T = TypeVar("T")


class Portal:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0

    def wait(self, awaitable: Awaitable[T]) -> T:
        """Run an awaitable to its end and return its result. Refuses to block a running event loop."""
        refuse_inside_loop(awaitable)
        return asyncio.run_coroutine_threadsafe(_awaited(awaitable), self._running_loop()).result()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._pid != os.getpid():
            self._lock = threading.Lock()  # the parent's may have been held at the instant of the fork
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                self._thread = threading.Thread(
                    target=_run_to_its_end, args=(self._loop,), name="oncue-portal", daemon=True
                )
                self._thread.start()
            return self._loop

    def close(self, farewell: Callable[[], Awaitable[None]]) -> None:
        """Say farewell in the background loop, if there is one, and end it. The next `wait` starts another."""
        if self._loop is None or self._thread is None or self._pid != os.getpid():
            return
        self.wait(farewell())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop = self._thread = None


def _run_to_its_end(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def refuse_inside_loop(awaitable: Awaitable[object]) -> None:
    """Plain code must not block an event loop: whoever is inside one can `await`."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    if isinstance(awaitable, Coroutine):
        awaitable.close()
    raise RuntimeError("this would block the running event loop: use `await` (for enqueue: `aenqueue`)")


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable
