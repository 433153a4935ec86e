"""Counts of deliveries in Redis, by endpoint, outcome and hour: best effort.

    oncue:analytics:2026-11-18T09    a hash: orders:delivered 118, orders:retry 3, https://api.example:443:failed 1

Counting is an addition in memory. About once a second what has gathered is written in one round trip, by a task of its
own. Whatever is wrong with Redis, deliveries take no notice: what could not be written is kept and added to, up to a
bound, and the log says so now and then. A write whose answer is lost may count twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from oncue.clock import Clock
from oncue.model import DELIVER
from oncue.store.addresses import hidden
from oncue.telemetry import REPEAT_SECONDS, Telemetry

if TYPE_CHECKING:
    from redis.asyncio import Redis

PREFIX = "oncue:analytics:"
OUTCOMES = {
    "succeeded": "delivered",
    "retrying": "retry",
    "failed": "failed",
    "skipped": "skipped",
    "cancelled": "cancelled",
}
"""What an attempt ended as, by the state of its job afterwards. A given back or postponed one is not counted."""
KEPT_SECONDS = 32 * 86400
FLUSH_SECONDS = 1.0
PATIENCE_SECONDS = 2.0
"""How long Redis may take to connect or to answer."""
MOST_KEPT = 10_000
"""How many different counts are kept in memory while Redis does not take them."""

_log = logging.getLogger("oncue.analytics")


class Counts:
    """What was counted and is not written yet: of each hour, the fields of its hash."""

    def __init__(self) -> None:
        self.by_hour: dict[str, dict[str, int]] = {}
        self.size = 0
        self.dropped = 0

    def add(self, hour: str, field: str, count: int = 1) -> None:
        fields = self.by_hour.setdefault(hour, {})
        if field in fields:
            fields[field] += count
        elif self.size < MOST_KEPT:
            fields[field] = count
            self.size += 1
        else:
            self.dropped += count

    def add_all(self, other: Counts) -> None:
        self.dropped += other.dropped
        for hour, fields in other.by_hour.items():
            for field, count in fields.items():
                self.add(hour, field, count)


class RedisAnalytics:
    def __init__(self, url: str, telemetry: Telemetry, clock: Clock) -> None:
        self._url = url
        self._clock = clock
        self._counts = Counts()
        self._trouble = Trouble()
        self._is_running = False
        telemetry.subscribe(self._ended, "job.stop")

    def _ended(self, event: str, measurements: Mapping[str, float], metadata: Mapping[str, Any]) -> None:
        claim, change = metadata["claim"], metadata["change"]
        outcome = OUTCOMES.get(change.state)
        if claim.task != DELIVER or outcome is None or not self._is_running:
            return
        self._counts.add(hour_of(change.ended_at), f"{claim.group or claim.task}:{outcome}")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Count and write inside the `async with` block. What is left at its end is written then, or is lost."""
        try:
            client = _client(self._url)
        except (ImportError, ValueError) as error:
            why = "its package is missing: pip install 'oncue[redis]'" if isinstance(error, ImportError) else str(error)
            _log.warning("analytics: redis error: %s (nothing is counted)", hidden(why))
            yield
            return
        self._is_running, over = True, asyncio.Event()
        task = asyncio.create_task(self._write_until(over, client), name="oncue-analytics")
        try:
            yield
        finally:
            self._is_running = False
            over.set()
            await asyncio.wait([task], timeout=PATIENCE_SECONDS)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            with suppress(Exception):
                await client.aclose()

    async def _write_until(self, over: asyncio.Event, client: Redis) -> None:
        await self._tried(client, Counts())  # a Redis that is not there is told of at the start
        while not over.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), FLUSH_SECONDS)
            await self.flush(client)

    async def flush(self, client: Redis) -> None:
        if self._counts.size:
            counts, self._counts = self._counts, Counts()
            if not await self._tried(client, counts):
                newer, self._counts = self._counts, counts
                self._counts.add_all(newer)

    async def _tried(self, client: Redis, counts: Counts) -> bool:
        """Whether the counts were written. Any error means that they were not: analytics never disturb a worker."""
        try:
            await _written(client, counts)
        except Exception as error:
            self._trouble.tell(error, counts.dropped, self._clock.monotonic())
            return False
        self._trouble.over(counts.dropped)
        return True


class Trouble:
    """What the log tells of a Redis that is away: a line at the beginning, one at the end, few in between."""

    def __init__(self) -> None:
        self._told_at: float | None = None

    def tell(self, error: Exception, dropped: int, now: float) -> None:
        if self._told_at is not None and now - self._told_at < REPEAT_SECONDS:
            return
        self._told_at = now
        lost = f"; {dropped} counts are lost" if dropped else ""
        _log.warning(
            "analytics: redis error: %s (deliveries go on, counts are kept for later%s)",
            hidden(f"{type(error).__name__}: {error}"), lost,
        )  # fmt: skip

    def over(self, dropped: int) -> None:
        if self._told_at is not None:
            _log.warning("analytics: redis answers again, %d counts were lost", dropped)
        self._told_at = None


async def _written(client: Redis, counts: Counts) -> None:
    """All of them in one transaction; without any, only to see whether Redis answers."""
    async with client.pipeline(transaction=True) as pipeline:
        pipeline.ping()
        for hour, fields in counts.by_hour.items():
            for field, count in fields.items():
                pipeline.hincrby(PREFIX + hour, field, count)
            pipeline.expire(PREFIX + hour, KEPT_SECONDS)
        await pipeline.execute()


def hour_of(instant: datetime) -> str:
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H")


def _client(url: str) -> Redis:
    """Raises ImportError where the extra is not installed. It connects when it is first used."""
    from redis.asyncio import Redis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

    return Redis.from_url(
        url, socket_timeout=PATIENCE_SECONDS, socket_connect_timeout=PATIENCE_SECONDS, retry=Retry(NoBackoff(), 0)
    )


@asynccontextmanager
async def counting(url: str | None, telemetry: Telemetry, clock: Clock) -> AsyncIterator[None]:
    """Count deliveries in this Redis inside the `async with` block, if there is an address."""
    if url is None:
        yield
        return
    async with RedisAnalytics(url, telemetry, clock).running():
        yield
