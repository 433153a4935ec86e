"""Which deliveries of this process keep their seats, and which wait aside: those whose endpoint does not answer soon.

An endpoint is slow from the moment in which a delivery to it has waited for too long, until an attempt to it is quick
again. Deliveries to it then wait aside from the start. If too many wait aside already, they are held back for some
seconds, without a connection, and then postponed as if they had never begun.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

from oncue.engine.context import RunningJob
from oncue.errors import Postpone
from oncue.policy.slowness import MOST_ASIDE, PATIENCE, may_begin, room_aside

HELD_SECONDS, LOOKS = 1.0, 5
"""A delivery that is held back looks so often whether there is room, with so many seconds in between."""
POSTPONED_SECONDS = 10.0
MOST_SLOW = 10_000
"""Of so many endpoints it is known that they are slow. Of more, those are forgotten that turned slow first."""
TURNS = 3
"""So many turns of the event loop it takes at the most until an answer that has come is read."""
NEVER = float("-inf"), ""

_log = logging.getLogger("oncue.webhooks")


class SlowEndpoints:
    def __init__(self, room: int | None = None) -> None:
        self.room = _room() if room is None else room
        self.names: dict[str, None] = {}
        """The endpoints that are slow."""
        self._seated: dict[RunningJob, tuple[float, str]] = {}
        """Since when each delivery with a seat waits, and for which endpoint; in this order."""
        self._aside: dict[RunningJob, tuple[float, str]] = {}
        self._of_endpoint: Counter[str] = Counter()
        """How many wait aside for each."""
        self._held = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_full = False

    @property
    def aside(self) -> int:
        return len(self._aside)

    async def admit(self, attempt: RunningJob, endpoint: str) -> None:
        """Wait, without a seat, until an attempt to a slow endpoint may begin. Raises Postpone if that takes long."""
        attempt.leave_seat()
        if not self._may_begin(endpoint):
            self._tell_full(True)
            await self._until_room(endpoint)
        self._step_aside(attempt, endpoint, asyncio.get_running_loop().time())

    def sends(self, attempt: RunningJob, endpoint: str) -> None:
        """The request of an attempt is about to be sent."""
        now = asyncio.get_running_loop().time()
        if attempt in self._aside:
            self._aside[attempt] = now, endpoint
            return
        self._seated[attempt] = now, endpoint
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PATIENCE, self._look)

    def answered(self, attempt: RunningJob) -> None:
        """An answer has come. If it came soon, its endpoint is not slow any more."""
        waits = self._seated.pop(attempt, NEVER)
        began, endpoint = self._aside.get(attempt, NEVER) if waits is NEVER else waits
        if endpoint in self.names and asyncio.get_running_loop().time() - began < PATIENCE:
            del self.names[endpoint]

    def ended(self, attempt: RunningJob) -> None:
        """An attempt is over, with an answer or without."""
        self._seated.pop(attempt, None)
        if not self._aside or attempt not in self._aside:
            return  # as nearly all are
        _, endpoint = self._aside.pop(attempt)
        self._of_endpoint[endpoint] -= 1
        if not self._of_endpoint[endpoint]:
            del self._of_endpoint[endpoint]
        if len(self._aside) < self.room // 4:
            self._tell_full(False)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self, turns: int = TURNS) -> None:
        """Those that have waited for too long go aside, the oldest first, as far as there is room.

        If this process has stood still, answers have come and were not read: they are, in the next turns of the loop.
        """
        loop = asyncio.get_running_loop()
        if turns:
            loop.call_soon(self._look, turns - 1)
            return
        late = loop.time() - PATIENCE
        for attempt, (began, endpoint) in tuple(self._seated.items()):
            if began > late:
                break
            self._note_slow(endpoint)
            if len(self._aside) < self.room:
                del self._seated[attempt]
                attempt.leave_seat()
                self._step_aside(attempt, endpoint, began)
        self._timer = loop.call_later(PATIENCE / 2, self._look) if self._seated else None

    def _step_aside(self, attempt: RunningJob, endpoint: str, began: float) -> None:
        self._aside[attempt] = began, endpoint
        self._of_endpoint[endpoint] += 1

    def _may_begin(self, endpoint: str) -> bool:
        return may_begin(len(self._aside), self._of_endpoint[endpoint], self.room)

    async def _until_room(self, endpoint: str) -> None:
        looks = LOOKS if self._held < MOST_ASIDE else 0
        self._held += 1
        try:
            for _ in range(looks):
                await asyncio.sleep(HELD_SECONDS)
                if self._may_begin(endpoint):
                    return
        finally:
            self._held -= 1
        raise Postpone(POSTPONED_SECONDS, f"{endpoint} is slow, and too many deliveries wait for slow endpoints")

    def _note_slow(self, endpoint: str) -> None:
        self.names[endpoint] = None
        if len(self.names) > MOST_SLOW:
            del self.names[next(iter(self.names))]

    def _tell_full(self, is_full: bool) -> None:
        if is_full and not self._is_full:
            _log.warning(
                "%d deliveries wait for slow endpoints (%d of these): further ones to them are held back",
                len(self._aside), len(self._of_endpoint),
            )  # fmt: skip
        self._is_full = is_full


def _room() -> int:
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return MOST_ASIDE
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_ASIDE if soft == resource.RLIM_INFINITY else room_aside(soft)
