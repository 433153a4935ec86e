"""A history goes by the database's clock, which an administrator may set. What lies between two such steps is an era.

Within an era instants can be compared and subtracted. Across eras only the order of the events means something. Right
after a step the processes still go by the old time, until they have asked again: what depends on the hour is not
judged until then.
"""

from __future__ import annotations

from collections.abc import Sequence

from oncue.sim.history import Event

ERA = 10**18
"""More microseconds than any date has."""


class Later(Event):
    """An event from after the clock was set: `era` says how often it had been."""

    era: int


def era_of(event: Event) -> int:
    return event.era if isinstance(event, Later) else 0


def when(event: Event) -> int:
    """A number that grows with the events, though the clock may be set back. Within an era these are microseconds."""
    return event.at + ERA * event.era if isinstance(event, Later) else event.at


def in_era_of(event: Event, instant: int) -> int:
    """Another instant of the database's clock, as it stood at an event, in the same measure."""
    return instant + ERA * event.era if isinstance(event, Later) else instant


def sets_the_clock(event: Event) -> bool:
    return event.kind == "fault" and event.fields["what"] == "clock" and event.fields["node"] is None


def in_eras(events: Sequence[Event]) -> tuple[Sequence[Event], list[int]]:
    """The same events, each knowing its era; and for each era when every process knew its time."""
    if not any(sets_the_clock(event) for event in events):
        return events, [0]
    steps = _Steps()
    return [steps.mark(event) for event in events], steps.known


class _Steps:
    def __init__(self) -> None:
        self.known = [0]
        self._era = 0
        self._step: Event | None = None
        self._learning = 0
        """How long a process takes to learn the time, once it can ask."""
        self._cut_off = 0
        """Until when some process may not be able to ask."""

    def mark(self, event: Event) -> Event:
        if self._era:
            event = Later(*event)
            event.era = self._era
        # A call is told of when it does something, with the time at which it was made: that is no new time yet.
        if self._step is not None and not event.kind.endswith(".invoke"):
            self._begin(self._step, event)
        if event.kind == "fault":
            self._disturb(event)
        return event

    def _begin(self, step: Event, first: Event) -> None:
        self._cut_off = first.at + max(0, self._cut_off - step.at)
        self.known.append(in_era_of(first, self._cut_off + self._learning))
        self._step = None

    def _disturb(self, fault: Event) -> None:
        until = fault.fields["until"] or fault.at
        if sets_the_clock(fault):
            self._era, self._step, self._learning = self._era + 1, fault, until - fault.at
            return
        self._cut_off = max(self._cut_off, until)
        if when(fault) <= self.known[-1]:
            self.known[-1] = max(self.known[-1], in_era_of(fault, until + self._learning))
