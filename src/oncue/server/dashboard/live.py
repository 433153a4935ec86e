"""One stream of server-sent events per tab. What many tabs show is read once, rendered once and sent to all of them.

A topic is a page with its query, for visitors with the same scopes. It is read again every few seconds from its first
listener to its last, and sent if it has changed. Nothing runs while no tab listens, so that a mounted dashboard needs
no lifespan.

There is room for so many tabs and topics. Who comes when it is full gets a place of the visitor with the most of them:
so one visitor cannot keep the others out.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from starlette.responses import StreamingResponse

from oncue.errors import OncueError, StoreError
from oncue.model import Scope
from oncue.server.api.problems import AWAY, Problem
from oncue.server.stopping import is_stopping

Topic: TypeAlias = tuple[str, tuple[Scope, ...], str]
"""A page with its query, the scopes that it is shown with, and the prefix of its links."""

MOST_LISTENERS, MOST_TOPICS = 400, 100
AT_ONCE = 2
"""How many topics are read at the same time."""
STREAM_SECONDS = 300.0
"""How long a stream lasts: then the tab opens another one."""
STILL_SECONDS = 15.0
"""After so long without news a line is sent that says that the stream stands."""
VISITOR_SECONDS = 30.0
"""How often it is asked whether the visitor may still see this."""
LATE_SECONDS = 6.0
"""A page that was not read again for so long is said to be late."""
MOST_UNREAD = 30
"""A tab that has left so many events lie, as on a computer that has fallen asleep, takes no place any more."""
STOPPING_SECONDS = 0.5
"""How often it is asked whether the server around us stops."""

_log = logging.getLogger("oncue.http")


@dataclass(slots=True, eq=False)
class Listener:
    """A tab."""

    who: str
    stands: Callable[[], Awaitable[bool]]
    """Whether its visitor may still see this."""
    events: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue)


@dataclass(slots=True)
class Channel:
    """A topic with its listeners, the oldest first."""

    topic: Topic
    every: float
    listeners: dict[Listener, None] = field(default_factory=dict)
    latest: str | None = None
    shown: str = ""
    is_away: bool = False
    """Whether the tabs were told that what they show is not up to date."""
    reading: asyncio.Task[None] | None = None


class Broadcaster:
    """Reads topics for the tabs that listen to them."""

    def __init__(self, render: Callable[[Topic], Awaitable[str]]) -> None:
        self._render = render
        self._channels: dict[Topic, Channel] = {}
        self._turns: asyncio.Semaphore | None = None
        self._watching: asyncio.Task[None] | None = None
        self.reads = 0
        """How often a topic was read."""

    def stream(self, topic: Topic, every: float, who: str, stands: Callable[[], Awaitable[bool]]) -> StreamingResponse:
        """The events of a topic for one more tab. Raises a Problem if there is no room for it."""
        if is_stopping():
            raise Problem(AWAY, "This server is about to stop.", headers={"Retry-After": "2"})
        while self.listeners >= MOST_LISTENERS:
            self._make_room(
                who, [listener.who for channel in self._channels.values() for listener in channel.listeners]
            )
        while topic not in self._channels and len(self._channels) >= MOST_TOPICS:
            self._make_room(who, filter(None, map(_only_visitor, self._channels.values())), whole_topic=True)
        headers = {"X-Accel-Buffering": "no"}
        events = self._events(topic, every, Listener(who, stands))
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    @property
    def listeners(self) -> int:
        """How many tabs listen."""
        return sum(len(channel.listeners) for channel in self._channels.values())

    async def close(self) -> None:
        """End all streams."""
        tasks = [channel.reading for channel in self._channels.values() if channel.reading is not None]
        for channel in list(self._channels.values()):
            for listener in list(channel.listeners):
                self._drop(channel, listener)
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- tabs ---------------------------------------------------------------------------------------------------

    def _make_room(self, who: str, places: Iterable[str], *, whole_topic: bool = False) -> None:
        """End the oldest stream, or topic, of the visitor who has the most places, unless that is who asks."""
        held = Counter(places)
        greedy, most = held.most_common(1)[0] if held else (who, 0)
        if most <= held[who] + 1:
            raise Problem(AWAY, "Too many tabs are open: close some.", headers={"Retry-After": "30"})
        for channel in self._channels.values():
            if whole_topic and _only_visitor(channel) != greedy:
                continue
            found = [listener for listener in channel.listeners if listener.who == greedy]
            if found:
                for listener in found if whole_topic else found[:1]:
                    self._drop(channel, listener)
                return

    def _drop(self, channel: Channel, listener: Listener) -> None:
        """This tab listens no more. A topic without listeners is not read."""
        channel.listeners.pop(listener, None)
        listener.events.put_nowait(None)
        if not channel.listeners:
            if self._channels.get(channel.topic) is channel:
                del self._channels[channel.topic]
            if channel.reading is not None:
                channel.reading.cancel()

    async def _events(self, topic: Topic, every: float, listener: Listener) -> AsyncIterator[str]:
        channel = self._channels.setdefault(topic, Channel(topic, every))
        channel.listeners[listener] = None
        if channel.reading is None:
            channel.reading = asyncio.create_task(self._read(topic, channel), name="oncue-live")
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch(), name="oncue-live-end")
        # No time-out goes around this: while a tab takes nothing off, it would hit what waits for that instead.
        now = time.monotonic()
        ends_at, ask_at = now + STREAM_SECONDS, now + VISITOR_SECONDS
        try:
            yield "retry: 2000\n\n"
            if channel.latest is not None:
                yield channel.latest
            while (now := time.monotonic()) < ends_at:
                if now >= ask_at:
                    ask_at = now + VISITOR_SECONDS
                    if not await listener.stands():
                        return
                event = await self._next(listener, min(STILL_SECONDS, max(ask_at - now, 0.01)))
                if event is None:
                    return
                yield event
        finally:
            self._drop(channel, listener)

    async def _next(self, listener: Listener, patience: float) -> str | None:
        """The newest event: a tab that was slow to take them gets no old ones."""
        try:
            event = await asyncio.wait_for(listener.events.get(), patience)
        except TimeoutError:
            return ": still here\n\n"
        while event is not None and not listener.events.empty():
            event = listener.events.get_nowait()
        return event

    async def _watch(self) -> None:
        """A server waits for open requests when it stops: so they are ended."""
        while self._channels:
            await asyncio.sleep(STOPPING_SECONDS)
            if is_stopping():
                await self.close()

    # --- topics -------------------------------------------------------------------------------------------------

    async def _read(self, topic: Topic, channel: Channel) -> None:
        """Read a topic again and again, and send what has changed."""
        if self._turns is None:
            self._turns = asyncio.Semaphore(AT_ONCE)
        has_failed = False
        while True:
            await asyncio.sleep(channel.every)
            # While the database is away each read takes its whole time, and the others wait for their turn.
            late = asyncio.get_running_loop().call_later(LATE_SECONDS, self._tell, channel, "away", LATE)
            try:
                async with self._turns:
                    self.reads += 1
                    found = await self._render(topic)
                if found != channel.shown or channel.is_away:
                    channel.shown, channel.is_away = found, False
                    self._send(channel, _event("page", found))
                has_failed = False
            except (StoreError, TimeoutError) as error:
                self._tell(channel, "away", str(error) or "The database does not answer in time.")
            except (OncueError, Problem) as error:
                is_away = isinstance(error, Problem) and error.kind is AWAY
                self._tell(channel, "away" if is_away else "stale", str(error))
            except Exception as error:
                if not has_failed:  # once, not every other second
                    _log.error("the live part of %r failed: %s", topic[0], error, exc_info=error)
                has_failed = True
                self._tell(channel, "stale", "An unexpected error; the log of this process tells more.")
            finally:
                late.cancel()

    def _tell(self, channel: Channel, name: str, why: str) -> None:
        """Say why what the tabs show is not up to date."""
        channel.is_away = True
        self._send(channel, _event(name, why))

    def _send(self, channel: Channel, event: str) -> None:
        channel.latest = event
        for listener in list(channel.listeners):
            listener.events.put_nowait(event)
            if listener.events.qsize() >= MOST_UNREAD:
                self._drop(channel, listener)


LATE = "The database answers late or not at all: this page waits for its turn."


def _only_visitor(channel: Channel) -> str | None:
    """The visitor who alone listens to a topic."""
    found = {listener.who for listener in channel.listeners}
    return found.pop() if len(found) == 1 else None


def _event(name: str, text: str) -> str:
    return f"event: {name}\ndata: {json.dumps(text)}\n\n"
