"""One stream of server-sent events per tab. What many tabs show is read once, rendered once and sent to all of them.

A topic is a page with its query, for visitors with the same scopes. It is read again every few seconds from its first
listener to its last, and sent if it has changed. Nothing runs while no tab listens, so that a mounted dashboard needs
no lifespan.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from starlette.responses import StreamingResponse

from oncue.errors import OncueError
from oncue.model import Scope
from oncue.server.api.problems import AWAY, Problem

Topic: TypeAlias = tuple[str, tuple[Scope, ...], str]
"""A page with its query, the scopes that it is shown with, and the prefix of its links."""

MOST_LISTENERS, MOST_TOPICS = 400, 100
AT_ONCE = 2
"""How many topics are read at the same time."""
STREAM_SECONDS = 300.0
"""How long a stream lasts: then the tab opens another one, which its session is asked for again."""
STILL_SECONDS = 15.0
"""After so long without news a line is sent that says that the stream stands."""

_log = logging.getLogger("oncue.http")


@dataclass(slots=True)
class Channel:
    """A topic with its listeners."""

    every: float
    listeners: set[asyncio.Queue[str | None]] = field(default_factory=set)
    latest: str | None = None
    reading: asyncio.Task[None] | None = None


class Broadcaster:
    """Reads topics for the tabs that listen to them."""

    def __init__(self, render: Callable[[Topic], Awaitable[str]]) -> None:
        self._render = render
        self._channels: dict[Topic, Channel] = {}
        self._turns: asyncio.Semaphore | None = None
        self.reads = 0
        """How often a topic was read."""

    def stream(self, topic: Topic, every: float) -> StreamingResponse:
        if self.listeners >= MOST_LISTENERS or (topic not in self._channels and len(self._channels) >= MOST_TOPICS):
            raise Problem(AWAY, "Too many tabs are open.", headers={"Retry-After": "30"})
        headers = {"X-Accel-Buffering": "no"}
        return StreamingResponse(self._events(topic, every), media_type="text/event-stream", headers=headers)

    @property
    def listeners(self) -> int:
        """How many tabs listen."""
        return sum(len(channel.listeners) for channel in self._channels.values())

    async def close(self) -> None:
        """End all streams."""
        tasks = []
        for channel in self._channels.values():
            for listener in channel.listeners:
                listener.put_nowait(None)
            if channel.reading is not None:
                channel.reading.cancel()
                tasks.append(channel.reading)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _events(self, topic: Topic, every: float) -> AsyncIterator[str]:
        channel = self._channels.setdefault(topic, Channel(every))
        listener: asyncio.Queue[str | None] = asyncio.Queue()
        channel.listeners.add(listener)
        if channel.reading is None:
            channel.reading = asyncio.create_task(self._read(topic, channel), name="oncue-live")
        try:
            yield "retry: 2000\n\n"
            if channel.latest is not None:
                yield channel.latest
            async with asyncio.timeout(STREAM_SECONDS):
                while True:
                    event = await self._next(listener)
                    if event is None:
                        return
                    yield event
        except TimeoutError:
            return
        finally:
            channel.listeners.discard(listener)
            if not channel.listeners:
                self._channels.pop(topic, None)
                if channel.reading is not None:
                    channel.reading.cancel()

    async def _next(self, listener: asyncio.Queue[str | None]) -> str | None:
        """The newest event: a tab that was slow to take them gets no old ones."""
        try:
            event = await asyncio.wait_for(listener.get(), STILL_SECONDS)
        except TimeoutError:
            return ": still here\n\n"
        while event is not None and not listener.empty():
            event = listener.get_nowait()
        return event

    async def _read(self, topic: Topic, channel: Channel) -> None:
        """Read a topic again and again, and send what has changed."""
        if self._turns is None:
            self._turns = asyncio.Semaphore(AT_ONCE)
        shown, was_away = "", False
        while True:
            await asyncio.sleep(channel.every)
            try:
                async with self._turns:
                    self.reads += 1
                    found = await self._render(topic)
                if found != shown or was_away:
                    shown, was_away = found, False
                    self._send(channel, _event("page", found))
            except (OncueError, Problem, TimeoutError) as error:
                was_away = True
                self._send(channel, _event("away", str(error) or "The database does not answer in time."))
            except Exception as error:
                was_away = True
                _log.error("the live part of %s failed: %s", topic[0], error, exc_info=error)
                self._send(channel, _event("away", "An unexpected error; the log of this process tells more."))

    def _send(self, channel: Channel, event: str) -> None:
        channel.latest = event
        for listener in channel.listeners:
            listener.put_nowait(event)


def _event(name: str, text: str) -> str:
    return f"event: {name}\ndata: {json.dumps(text)}\n\n"
