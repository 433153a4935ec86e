"""Reads webhooks and circuit breakers for many attempts at once: those that begin together share one question.

Nothing is remembered: every attempt sees what stood when it began.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import NamedTuple, Protocol

from oncue.model import WEBHOOKS_QUEUE, Webhook
from oncue.store.contract import Store


class OpenStore(Protocol):
    store: Store

    def now(self) -> datetime: ...


class EndpointNow(NamedTuple):
    webhook: Webhook | None
    trips: int = 0
    """How often the breaker of the endpoint has opened in a row; 0: it is closed."""
    paused_until: datetime | None = None


class Lookups:
    def __init__(self, connected: Callable[[], Awaitable[OpenStore]]) -> None:
        self._connected = connected
        self._wanted: list[tuple[str | None, str, asyncio.Future[EndpointNow]]] = []
        self._asking: set[asyncio.Task[None]] = set()

    async def find(self, webhook: str | None, group: str) -> EndpointNow:
        """The webhook of this name, if there is one, and the breaker of its endpoint."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[EndpointNow] = loop.create_future()
        self._wanted.append((webhook, group, answer))
        if len(self._wanted) == 1:
            loop.call_soon(self._begin)  # whoever begins until then is asked for too
        return await answer

    def _begin(self) -> None:
        task = asyncio.get_running_loop().create_task(self._ask())
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _ask(self) -> None:
        wanted, self._wanted = self._wanted, []
        try:
            store = (await self._connected()).store
            names = sorted({name for name, _, _ in wanted if name is not None})
            webhooks = {one.name: one for one in await store.webhooks.get(names)} if names else {}
            tripped = await store.groups.tripped(WEBHOOKS_QUEUE, sorted({group for _, group, _ in wanted}))
        except Exception as error:
            for _, _, answer in wanted:
                if not answer.done():
                    answer.set_exception(error)
            return
        for name, group, answer in wanted:
            if not answer.done():
                webhook = None if name is None else webhooks.get(name)
                answer.set_result(EndpointNow(webhook, *tripped.get(group, ())))
