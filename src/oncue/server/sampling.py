"""What a web process without a worker does in the background: it reads the leader's sample, for its metrics.

A worker has a service of its own for that. Nothing is scheduled or run here, and no job is touched. Without a leader
the sample grows old. The web process then counts by itself, for its metrics and for the figures of the API.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from oncue.app import Oncue
from oncue.application.connecting import Connected
from oncue.clock import DatabaseClock
from oncue.engine.runner import Runner
from oncue.engine.service import Signal
from oncue.engine.survey import NAME, Surveying
from oncue.telemetry import Telemetry

INTERVAL = timedelta(seconds=15)


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
    """A worker's survey, on a database that may not have been reached yet."""

    name = NAME

    def __init__(self, app: Oncue, telemetry: Telemetry) -> None:
        self.signal = Signal()
        self._app = app
        self._telemetry = telemetry
        self._connection: Connected | None = None

    async def tick(self, now: datetime) -> datetime:
        connection = await self._app.internals.connected()
        if connection is not self._connection:
            self._survey = Surveying(connection.store, self._telemetry)
            self._connection = connection
        await self._survey.look(connection.now())
        return now + INTERVAL
