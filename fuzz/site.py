"""Where requests go: the API of a populated shop, on a database of its own."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from h11 import LocalProtocolError

from fuzz import calls
from fuzz.judge import SERVER_ERROR, Judge
from fuzz.wire import Tally, Wire
from fuzz.world import World, populated, shop
from oncue.observe.prometheus import PrometheusMetrics
from oncue.server.api import AccessMode, Gate, admin_api
from oncue.server.health import Readiness


@dataclass
class Site:
    world: World
    wire: Wire
    gate: Gate
    url: str

    @property
    def dialect(self) -> str:
        return self.url.partition(":")[0]


@asynccontextmanager
async def opened(
    url: str, folder: Path, tally: Tally, *, access: AccessMode = AccessMode.TOKEN, with_tokens: bool = True
) -> AsyncIterator[Site]:
    """The API of a shop that is made on an empty database."""
    app = shop(url, folder)
    try:
        if not url.startswith("sqlite"):
            store = app.internals.make_store()
            await store.migrate()
            await store.close()
        world = await populated(app, with_tokens=with_tokens)
        gate = admin_api(app, Readiness(app), PrometheusMetrics(app.internals.telemetry).registry, access)
        forgotten = calls.routes_without_a_maker(gate.api.routes)
        assert not forgotten, f"nothing makes requests for {', '.join(forgotten)}: add them to fuzz/calls.py"
        wire = Wire(gate, Judge(gate.api).complaints, tally)
        with _listening(wire):
            yield Site(world, wire, gate, url)
    finally:
        await app.aclose()


class _Ear(logging.Handler):
    """Hears of errors that no answer tells of: those after it was sent, and those that nobody waits for."""

    def __init__(self, wire: Wire) -> None:
        super().__init__(logging.ERROR)
        self._wire = wire

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, LocalProtocolError):
            return  # bytes went wrong in mid-body: the server has answered 400, and takes no other answer
        what = f"logged: {record.getMessage().strip():.300}" + ("" if error is None else f": {error!r:.300}")
        self._wire.tally.fault(SERVER_ERROR, f"{self._wire.part} {self._wire.label}: {what}")


@contextmanager
def _listening(wire: Wire) -> Iterator[None]:
    ear, loggers = _Ear(wire), [logging.getLogger(name) for name in ("oncue", "uvicorn", "asyncio")]
    for logger in loggers:
        logger.addHandler(ear)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(ear)
