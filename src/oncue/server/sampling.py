"""What a web process without a worker does in the background: it looks at the database, so that its metrics are true.

A worker has services of its own for that. Nothing is scheduled or run here, and no job is touched. While nobody leads,
it also counts what waits, so that the figures of the API do not stand still.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from oncue.app import Oncue
from oncue.clock import DatabaseClock
from oncue.connecting import Connected
from oncue.engine.counting import DepthGauge, Sampling
from oncue.engine.runner import Runner
from oncue.engine.service import Signal
from oncue.engine.survey import NAME, Surveying
from oncue.telemetry import Telemetry

INTERVAL = timedelta(seconds=15)
STALE = timedelta(seconds=15)
"""How old the last count may be before it is no leader's."""


class Sampler:
    """Looks every quarter of a minute, from `start` to `close`; while the database is away, every other second."""

    def __init__(self, app: Oncue, telemetry: Telemetry) -> None:
        # The services are told the database's time; this clock is only waited by.
        self._runner = Runner(DatabaseClock(), telemetry)
        self._look = Look(app, telemetry)

    def start(self) -> None:
        self._runner.start([self._look])

    async def close(self) -> None:
        await self._runner.stop()


class Look:
    """A worker's sampling services, on a database that may not have been reached yet."""

    name = NAME

    def __init__(self, app: Oncue, telemetry: Telemetry) -> None:
        self.signal = Signal()
        self._app = app
        self._telemetry = telemetry
        self._connection: Connected | None = None

    async def tick(self, now: datetime) -> datetime:
        connection = await self._app.connected()
        if connection is not self._connection:
            self._depth = DepthGauge(connection.store, self._telemetry)
            self._survey = Surveying(connection.store, self._telemetry)
            self._sampling = Sampling(connection.store)
            self._connection = connection
        await self._sampling.stand_in(connection.now(), STALE)
        await self._depth.tick(connection.now())
        await self._survey.tick(connection.now())
        return now + INTERVAL
