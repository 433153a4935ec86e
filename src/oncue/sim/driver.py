"""Drives the services of simulated processes: what the runner and the event loop do in a real one.

It calls each service when its instant or its signal comes, and again after a growing pause when a step fails. While a
step's call is on its way, other steps go on.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any, TypeVar

from oncue.clock import VirtualClock
from oncue.engine.runner import pause_after, time_left
from oncue.errors import RowLocked, StoreUnavailable
from oncue.sim.history import History
from oncue.sim.member import Member, TimedService
from oncue.sim.timeline import Forget, Timeline
from oncue.sim.wire import Crash

T = TypeVar("T")

SOONEST = timedelta(microseconds=1)


def finish(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that has no reason to wait."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    coroutine.close()
    raise RuntimeError(f"{coroutine} waits, which nothing may do under virtual time")


class Driver:
    """`crashed` is told of a process that died between two calls."""

    def __init__(
        self, clock: VirtualClock, timeline: Timeline, history: History, crashed: Callable[[Member], None]
    ) -> None:
        self._clock = clock
        self._timeline = timeline
        self._history = history
        self._crashed = crashed

    def take_on(self, member: Member) -> None:
        """A process has started: all its services are due."""
        for timed in member.timed:
            timed.service.signal.listen(lambda timed=timed: self._wake(timed))  # type: ignore[misc]
            self.plan(timed, self._clock.now())

    def plan(self, timed: TimedService, at: datetime) -> None:
        """A service is due at this instant of true time, and not when it was due before."""
        timed.due = at - self._timeline.skipped
        timed.plan += 1
        plan = timed.plan
        self._timeline.step_at(at, lambda: self._call(timed, plan))

    def later_on(self, member: Member, delay: timedelta, action: Callable[[], None]) -> Forget:
        """An event inside a process: a crash takes it along, a pause puts it off."""
        return self._timeline.at(self._clock.now() + delay, lambda: self._happen(member, action))

    def _happen(self, member: Member, action: Callable[[], None]) -> None:
        if member.paused:
            member.missed.append(lambda: self._happen(member, action))
        elif member.alive:
            action()

    def go_on(
        self,
        step: Coroutine[float, None, Any],
        done: Callable[[Any], None],
        failed: Callable[[Exception], None],
        member: Member | None = None,
    ) -> None:
        """Run a step of a process, or of a client or operator, up to its end or to where it waits for the wire."""
        try:
            delay = timedelta(seconds=step.send(None) or 0.0)
        except StopIteration as stop:
            done(stop.value)
        except Crash:
            assert member is not None
            self._crashed(member)
        except Exception as error:
            failed(error)
        else:
            if member is None:
                self._timeline.at(self._clock.now() + delay, lambda: self.go_on(step, done, failed))
            else:
                self.later_on(member, delay, lambda: self.go_on(step, done, failed, member))

    def _wake(self, timed: TimedService) -> None:
        now = self._clock.now()
        if not timed.ticking and not timed.failures and (timed.due is None or timed.due > now - self._timeline.skipped):
            self.plan(timed, now)

    def _call(self, timed: TimedService, plan: int) -> None:
        member = timed.member
        if member.alive and not member.paused and timed.plan == plan and timed.service.name not in member.frozen:
            timed.due, timed.ticking = None, True
            member.restless += not timed.failures
            timed.service.signal.take()
            told, began = member.clock.now(), self._clock.now()
            self.go_on(
                timed.service.tick(told),
                lambda again_at: self._stepped(timed, again_at, told, began),
                lambda error: self._failed(timed, error),
                member,
            )

    def _stepped(self, timed: TimedService, again_at: datetime, told: datetime, began: datetime) -> None:
        timed.failures, timed.ticking = 0, False
        timed.member.restless -= 1
        now = self._clock.now()
        left = time_left(again_at, told, (now - began).total_seconds(), timed.member.clock.now())
        pause = timedelta(seconds=left)
        if timed.service.signal.take() or pause <= timedelta(0):
            self.plan(timed, now)
        else:
            self.plan(timed, now + max(pause, SOONEST))

    def _failed(self, timed: TimedService, error: Exception) -> None:
        timed.failures, timed.ticking = timed.failures + 1, False
        told = {
            "error": f"{type(error).__name__}: {error}",
            "expected": isinstance(error, StoreUnavailable | RowLocked),
        }
        self._history.add(timed.member.label, "tick.error", service=timed.service.name, **told)
        self.plan(timed, self._clock.now() + timedelta(seconds=pause_after(timed.failures)))
