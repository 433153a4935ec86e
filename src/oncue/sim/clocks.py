"""The clocks of a simulated cluster: true time, the database's, and one of each host.

True time orders everything that happens, and no process knows it. The database's clock is right until it is set.
A host's clock is off by hours and runs a little too fast or too slow, as real ones do: a process that trusted it would
be wrong at once, which is the point.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from oncue.clock import DatabaseClock, VirtualClock


class ServerClock:
    """What the database says the time is."""

    def __init__(self, true: VirtualClock) -> None:
        self._true = true
        self._ahead = timedelta(0)
        self.caught_up_at = true.now()
        """When the clock will be where it was before it was set back for the last time, in true time."""

    def now(self) -> datetime:
        return self._true.now() + self._ahead

    def step(self, seconds: float) -> None:
        """An administrator sets the clock, forward or back."""
        self._ahead += timedelta(seconds=seconds)
        if seconds < 0:
            lost = max(self.caught_up_at - self._true.now(), timedelta(0))
            self.caught_up_at = self._true.now() + lost - timedelta(seconds=seconds)


class HostClock:
    """The clocks of a host: `wall` is off by so much, and both run too fast by so many millionths."""

    def __init__(self, true: VirtualClock, skew: float = 0.0, drift: float = 0.0) -> None:
        self._true = true
        self._skew = timedelta(seconds=skew)
        self._rate = 1.0 + drift / 1e6
        self._read_at: datetime | None = None
        self._reading = 0.0

    def monotonic(self) -> float:
        # It is read many times at one instant.
        now = self._true.now()
        if now is not self._read_at:
            self._read_at, self._reading = now, self._true.monotonic() * self._rate
        return self._reading

    def wall(self) -> datetime:
        return self._true.at(self.monotonic()) + self._skew

    def in_a_process(self) -> DatabaseClock:
        """The clock of a process on this host: the one of production, which learns the database's time."""
        return DatabaseClock(self.monotonic, self.wall)
