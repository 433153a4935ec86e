"""The client for async code: the same requests, in threads. One that waits costs its thread little."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from oncue.client.caller import Caller, following
from oncue.client.requests import Page, Request

P = ParamSpec("P")
T = TypeVar("T")

MOST_AT_ONCE = 10


class AsyncClient(Caller):
    """oncue over HTTP, for async code. Up to ten requests are on their way at once, each in a thread; others queue."""

    _pid = 0
    _threads: ThreadPoolExecutor | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections, and end the threads. Whoever uses the client after that opens others."""
        threads, self._threads = self._threads, None
        if threads is not None and self._pid == os.getpid():
            threads.shutdown(wait=False)
        self._servers.close()

    def _asking(self, prepare: Callable[P, Request[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
        @wraps(prepare)
        async def ask(*args: P.args, **kwargs: P.kwargs) -> T:
            return await self._asked(prepare(*args, **kwargs))

        return ask

    def _walking(self, prepare: Callable[P, Request[Page[T]]]) -> Callable[P, AsyncIterator[T]]:
        @wraps(prepare)
        async def walk(*args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
            request: Request[Page[T]] | None = prepare(*args, **kwargs)
            while request is not None:
                page = await self._asked(request)
                for row in page.rows:
                    yield row
                request = following(request, page)

        return walk

    async def _asked(self, request: Request[T]) -> T:
        """Ask in a thread. If nobody waits for it any more it is not asked again."""
        abandoned, loop = threading.Event(), asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._pool(), self._asker.ask, request, abandoned.wait)
        finally:
            abandoned.set()

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None or self._pid != os.getpid():  # a forked child has none of its parent's threads
            self._threads, self._pid = ThreadPoolExecutor(MOST_AT_ONCE, "oncue-client"), os.getpid()
        return self._threads
