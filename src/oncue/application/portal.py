"""Lets plain code use the asynchronous engine: one background loop per process, started on first use.

A forked child (Gunicorn forks its workers) inherits no threads: it notices that its portal is its parent's and makes
its own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from oncue.errors import StoreUnavailable

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
        try:
            return asyncio.run_coroutine_threadsafe(_awaited(awaitable), self._running_loop()).result()
        except CancelledError:
            raise StoreUnavailable("the application was closed while this call was under way") from None

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
        if self._pid != os.getpid():
            return
        with self._lock:  # whoever comes from here on starts another
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(_awaited(farewell()), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()


def _run_to_its_end(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        while tasks := asyncio.all_tasks(loop):  # whoever waits for one of them gets an answer, not eternity
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
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
    raise RuntimeError(
        "this would block the running event loop: use `await` (for enqueue: `aenqueue`, for deliver: `adeliver`)"
    )


class AtOnce(Coroutine[Any, Any, T]):
    """Steps on a caller's own synchronous connection: they never really wait, and must stay in the caller's thread.
    `app.wait` runs them there, also inside a running event loop; `await` does too."""

    def __init__(self, steps: Coroutine[Any, Any, T]) -> None:
        self._steps = steps

    def __await__(self) -> Generator[Any, None, T]:
        return self._steps.__await__()

    def send(self, value: Any, /) -> Any:
        return self._steps.send(value)

    def throw(self, *error: Any) -> Any:
        return self._steps.throw(*error)

    def close(self) -> None:
        self._steps.close()


class NeedsItsLoop(AtOnce[T]):
    """Steps on a caller's own asynchronous connection: only the event loop of that can take them, by `await`."""

    def __init__(self, steps: Coroutine[Any, Any, T], refusal: Exception) -> None:
        super().__init__(steps)
        self.refusal = refusal


def at_once(awaitable: Awaitable[T], otherwise: str = "this waits for something, where nothing may be waited for") -> T:
    """Run something that never really waits, without an event loop; raise a RuntimeError if it does."""
    steps: Generator[object, None, T] = awaitable.__await__()
    try:
        while next(steps) is None:  # a bare `sleep(0)`: nobody else is here to be let through
            pass
    except StopIteration as stop:
        result: T = stop.value
        return result
    steps.close()
    raise RuntimeError(otherwise)


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable
