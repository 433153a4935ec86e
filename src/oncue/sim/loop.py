"""The event loop of a simulated process: what runs soon or later is an event of the timeline, under virtual time.

Handlers that are coroutines run on it as they are, with the tasks, futures and time-outs of asyncio. A crash takes what
was to run along, a pause puts it off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from datetime import timedelta
from typing import Any, TypeAlias

from oncue.sim.recorded import Layer, Verb
from oncue.sim.timeline import Forget
from oncue.sim.wire import Crash
from oncue.store.contract import Store

Later: TypeAlias = Callable[[timedelta, Callable[[], None]], Forget]


class VirtualLoop(asyncio.AbstractEventLoop):
    """As much of an event loop as coroutines, tasks, futures and time-outs need."""

    def __init__(self, later: Later, monotonic: Callable[[], float]) -> None:
        self._later = later
        self._monotonic = monotonic
        self._running: dict[asyncio.Task[Any], Any] = {}
        """The tasks that have not ended, and their coroutines: those of a dead process stay here too."""

    def close(self) -> None:
        """Throw away what has not ended."""
        for coroutine in list(self._running.values()):
            coroutine.close()
        self._running.clear()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Inside, this is the running loop."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(before)

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._later(timedelta(0), lambda: self._run(handle))
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = _Timer(self.time() + delay, callback, args, self, context)
        handle.forget = self._later(timedelta(seconds=max(delay, 0.0)), lambda: self._run(handle))
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_later(when - self.time(), callback, *args, context=context)

    def _run(self, handle: asyncio.Handle) -> None:
        if not handle.cancelled():
            with self.entered():
                handle._run()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A time-out to come would keep quiet time from passing."""
        assert isinstance(handle, _Timer)
        handle.forget()

    def time(self) -> float:
        return self._monotonic()

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=self, **options)
        self._running[task] = coro
        task.add_done_callback(self._running.pop)
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """An error in a callback is a bug of the simulator. Of tasks that died with their process nothing is told."""
        error = context.get("exception")
        if error is not None and "handle" in context:
            raise error


class _Timer(asyncio.TimerHandle):
    __slots__ = ("forget",)

    forget: Forget


class StoreInLoop(Layer):
    """A store whose calls a task of a virtual loop can await. `crashed` is told when the process dies in a call."""

    def __init__(self, store: Store, crashed: Callable[[], None]) -> None:
        super().__init__(store)
        self._crashed = crashed
        self.dialect = store.dialect

    async def pass_on(self, verb: str, method: Verb, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        step: Any = method(*args, **kwargs)
        while True:
            try:
                delay = step.send(None)
            except StopIteration as stop:
                return stop.value
            except Crash:
                self._crashed()
                await forever()
            await asyncio.sleep(delay or 0.0)


async def forever() -> None:
    """What a dead process does."""
    await asyncio.get_running_loop().create_future()
