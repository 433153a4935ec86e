"""Reads webhooks and circuit breakers for many attempts at once: those that begin while a question is on its way share
the next one.

Nothing is remembered: every attempt sees what stood when it began, or later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import NamedTuple, Protocol, TypeAlias

from oncue.errors import StoreUnavailable
from oncue.model import WEBHOOKS_QUEUE, Limits, Webhook
from oncue.store.contract import Store

ASK_SECONDS = 4.0
"""An attempt waits for the question that is on its way and for its own, so for twice as long at the most: the rest of
the time that it may take (`LONGEST_ATTEMPT`) is for the longest request."""


class OpenStore(Protocol):
    store: Store

    def now(self) -> datetime: ...


class EndpointNow(NamedTuple):
    connected: OpenStore
    """Where it was read."""
    webhook: Webhook | None
    trips: int = 0
    """How often the breaker of the endpoint has opened in a row; 0: it is closed."""
    paused_until: datetime | None = None


Question: TypeAlias = tuple[str | None, str, "asyncio.Future[EndpointNow]"]


class Lookups:
    def __init__(self, connected: Callable[[], Awaitable[OpenStore]]) -> None:
        self._connected = connected
        self._wanted: list[Question] = []
        self._asking: asyncio.Task[None] | None = None

    async def find(self, webhook: str | None, group: str) -> EndpointNow:
        """The webhook of this name, if there is one, and the breaker of its endpoint."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[EndpointNow] = loop.create_future()
        self._wanted.append((webhook, group, answer))
        if self._asking is None or self._asking.done():
            self._asking = loop.create_task(self._ask_all())  # those that begin until it runs are asked for too
        return await answer

    async def _ask_all(self) -> None:
        while self._wanted:
            wanted, self._wanted = self._wanted, []
            try:
                async with asyncio.timeout(ASK_SECONDS):
                    answers = await self._answers([(webhook, group) for webhook, group, _ in wanted])
            except TimeoutError:
                _fail(wanted, StoreUnavailable(f"the database did not answer within {ASK_SECONDS:g} s"))
            except Exception as error:
                _fail(wanted, error)
            else:
                for (_, _, future), answer in zip(wanted, answers, strict=True):
                    if not future.done():
                        future.set_result(answer)

    async def _answers(self, wanted: list[tuple[str | None, str]]) -> list[EndpointNow]:
        connected = await self._connected()
        names = sorted({name for name, _ in wanted if name is not None})
        webhooks = {one.name: one for one in await connected.store.webhooks.get(names)} if names else {}
        tripped = await connected.store.groups.tripped(WEBHOOKS_QUEUE, sorted({group for _, group in wanted}))
        return [
            EndpointNow(connected, None if name is None else webhooks.get(name), *tripped.get(group, ()))
            for name, group in wanted
        ]


def _fail(wanted: list[Question], error: Exception) -> None:
    for _, _, future in wanted:
        if not future.done():
            future.set_exception(error)


async def share_out(connected: OpenStore, share: int, queue: str = WEBHOOKS_QUEUE) -> None:
    """Give each endpoint its share of what runs at once, unless an operator has set limits already."""
    await connected.store.queues.default_limits(queue, Limits(per_group=share), connected.now())
