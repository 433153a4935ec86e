"""The client for plain code."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import wraps
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from oncue.client.caller import Caller, following
from oncue.client.requests import Page, Request

P = ParamSpec("P")
T = TypeVar("T")


class Client(Caller):
    """oncue over HTTP, for plain code. Any number of threads may share one."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Whoever uses the client after that opens others."""
        self._servers.close()

    def _asking(self, prepare: Callable[P, Request[T]]) -> Callable[P, T]:
        @wraps(prepare)
        def ask(*args: P.args, **kwargs: P.kwargs) -> T:
            return self._asker.ask(prepare(*args, **kwargs), time.sleep)

        return ask

    def _walking(self, prepare: Callable[P, Request[Page[T]]]) -> Callable[P, Iterator[T]]:
        @wraps(prepare)
        def walk(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
            request: Request[Page[T]] | None = prepare(*args, **kwargs)
            while request is not None:
                page = self._asker.ask(request, time.sleep)
                yield from page.rows
                request = following(request, page)

        return walk
