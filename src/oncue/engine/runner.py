"""The only place that waits.

A service takes one step and returns the instant of its next. The runner calls each service in a task of its own,
sleeps until that instant or until the service's signal, and calls it again. A step that fails is told to telemetry
and to the log, and is repeated after a pause that grows while the failure lasts: nothing ends a service but `stop`.

The simulator is the other driver: it calls the same steps in the order of a virtual clock, without this file.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime

from oncue.clock import Clock
from oncue.engine.service import Service, Signal
from oncue.errors import OUTAGES, StoreError
from oncue.telemetry import Telemetry

SHORTEST_PAUSE = 0.1
LONGEST_PAUSE = 2.0

_log = logging.getLogger("oncue.runner")


def pause_after(failures: int) -> float:
    """Seconds to wait after so many failures in a row. An outage may last for days: the power is kept small."""
    return min(SHORTEST_PAUSE * 2.0 ** min(failures, 10), LONGEST_PAUSE)


def time_left(again_at: datetime, told: datetime, elapsed: float, now: datetime) -> float:
    """Seconds until a service is called again that was told one time, took so long, and ends its step at another.

    The database's clock may have been set meanwhile. Then the shorter reading counts: the other one may be hours off.
    """
    return min((again_at - told).total_seconds() - elapsed, (again_at - now).total_seconds())


class Runner:
    def __init__(self, clock: Clock, telemetry: Telemetry) -> None:
        self._clock = clock
        self._telemetry = telemetry
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._signals: dict[str, Signal] = {}
        self._finishing: set[str] = set()

    def start(self, services: Sequence[Service]) -> None:
        for service in services:
            self._signals[service.name] = service.signal
            self._tasks[service.name] = asyncio.create_task(self._drive(service), name=f"oncue-{service.name}")

    async def stop(self, *names: str) -> None:
        """Stop these services, or all of them, in the middle of whatever they do."""
        tasks = [self._tasks.pop(name) for name in names or tuple(self._tasks) if name in self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for name in names or tuple(self._signals):
            self._telemetry.outages.forget(name)

    async def finish(self, *names: str, within: float) -> None:
        """Stop these services after the step that they are taking, or in the middle of it when the time is over."""
        tasks = [self._tasks[name] for name in names if name in self._tasks]
        self._finishing.update(names)
        for name in names:
            if name in self._signals:
                self._signals[name].set()
        if tasks:
            await asyncio.wait(tasks, timeout=within)
        await self.stop(*names)

    async def _drive(self, service: Service) -> None:
        failures, was_away = 0, False
        loop = asyncio.get_running_loop()
        while service.name not in self._finishing:
            turned: list[bool] = []
            loop.call_soon(turned.append, True)
            try:
                told, began = self._clock.now(), self._clock.monotonic()
                again_at = await service.tick(told)
                if was_away:
                    self._telemetry.outages.works(service.name, self._clock.monotonic())
                elif failures:
                    _log.warning("%s: works again, after %s", service.name, _times(failures))
                failures, was_away = 0, False
            except Exception as error:
                failures, was_away = failures + 1, was_away or isinstance(error, OUTAGES)
                self._report(service, error, failures)
                await asyncio.sleep(pause_after(failures))  # a wake-up must not cut it short, and is kept
            else:
                delay = time_left(again_at, told, self._clock.monotonic() - began, self._clock.now())
                await self._wait(service.signal, delay, let_go=bool(turned))

    def _report(self, service: Service, error: Exception, failures: int) -> None:
        self._telemetry.emit("tick.error", {"failures": failures}, service=service.name, error=error)
        if isinstance(error, OUTAGES):
            self._telemetry.outages.failed(service.name, error, self._clock.monotonic())
        elif not isinstance(error, StoreError):
            _log.error("%s: a step failed and will be repeated", service.name, exc_info=error)
        elif failures in (1, 10, 100, 1000):
            _log.warning("%s: %s (will try again, failure %d)", service.name, error, failures)

    async def _wait(self, signal: Signal, delay: float, *, let_go: bool) -> None:
        """Wait for the next step. One that is due already follows at once: a claimer asks for the next batch before the
        last one runs. Unless the step before it never let go of the loop: then the others come first."""
        if signal.take() or delay <= 0:
            if not let_go:
                await asyncio.sleep(0)
            return
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        signal.listen(wake)
        timer = loop.call_later(delay, wake)
        try:
            await woken
        finally:
            timer.cancel()
            signal.listen(None)
        signal.take()


def _times(failures: int) -> str:
    return "1 failure" if failures == 1 else f"{failures} failures"
