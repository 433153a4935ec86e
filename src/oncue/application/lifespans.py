"""What a worker opens before its first job and closes after its last: a pool of connections, an HTTP session.

A lifespan belongs to one process and its event loop. A worker opens all of them, in the order in which they were
declared, and closes them in the opposite order. A child process of process tasks does the same for itself.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, Generic, TypeAlias, TypeVar

from oncue.errors import LifespanFailed

T = TypeVar("T")

Opens: TypeAlias = Callable[[], AsyncIterator[T]] | Callable[[], Iterator[T]]
"""A function that opens something, yields it once, and then closes it."""

CLOSE_SECONDS = 10.0
"""How long one of them may take to close; then it is left behind, since the process is about to end."""

_CLOSED: Any = object()

_log = logging.getLogger("oncue.lifespan")


class Lifespan(Generic[T]):
    """Called, it gives what is open: `await http().post(url)`."""

    def __init__(self, function: Opens[T]) -> None:
        self.name: str = getattr(function, "__name__", repr(function))
        self._opens = _manager(function)
        self._value: T = _CLOSED
        self._is_replaced = False

    def __call__(self) -> T:
        if self._value is _CLOSED:
            raise RuntimeError(
                f"lifespan {self.name!r} is not open: it is open inside handlers, in a worker, a child process of one, "
                "or the test kit"
            )
        return self._value

    @contextmanager
    def replaced(self, value: T) -> Iterator[T]:
        """Have handlers get something else inside the `with` block, in a test. Then nothing is opened."""
        before = self._value, self._is_replaced
        self._value, self._is_replaced = value, True
        try:
            yield value
        finally:
            self._value, self._is_replaced = before

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        if self._is_replaced:
            yield
            return
        if self._value is not _CLOSED:
            raise LifespanFailed(f"lifespan {self.name!r} is open already: a process runs one worker at a time")
        manager = self._opens()
        try:
            self._value = await manager.__aenter__()
        except Exception as error:
            raise LifespanFailed(f"lifespan {self.name!r} did not open: {type(error).__name__}: {error}") from error
        try:
            yield
        finally:
            self._value = _CLOSED
            await self._close(manager)

    async def _close(self, manager: AbstractAsyncContextManager[T]) -> None:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await manager.__aexit__(None, None, None)
        except TimeoutError:
            _log.error("lifespan %s did not close within %g seconds: it is left behind", self.name, CLOSE_SECONDS)
        except Exception:
            _log.exception("lifespan %s failed when it was closed", self.name)


class Lifespans:
    def __init__(self) -> None:
        self.declared: list[Lifespan[Any]] = []

    def declare(self, function: Opens[T]) -> Lifespan[T]:
        lifespan = Lifespan(function)
        self.declared.append(lifespan)
        return lifespan

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """All of them are open inside the `async with` block. Raises LifespanFailed if one cannot be opened."""
        async with AsyncExitStack() as stack:
            for lifespan in self.declared:
                await stack.enter_async_context(lifespan.opened())
            yield


def _manager(function: Opens[T]) -> Callable[[], AbstractAsyncContextManager[T]]:
    if inspect.isasyncgenfunction(function):
        return asynccontextmanager(function)
    if inspect.isgeneratorfunction(function):
        plain = contextmanager(function)

        @asynccontextmanager
        async def wrapped() -> AsyncIterator[T]:
            with plain() as value:
                yield value

        return wrapped
    raise TypeError(f"lifespan: expected a function with one `yield`, plain or `async`, not {function!r:.100}")
