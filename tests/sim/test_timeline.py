"""What is to happen, in order; and what is to happen no more."""

from __future__ import annotations

from datetime import timedelta

from oncue.clock import VirtualClock
from oncue.sim.timeline import Timeline

SECOND = timedelta(seconds=1)


def test_a_forgotten_event_does_not_happen_and_is_no_reason_to_wait() -> None:
    clock, happened = VirtualClock(), list[str]()
    start, timeline = clock.now(), Timeline(clock)
    forget = timeline.at(start + SECOND, lambda: happened.append("time-out"))
    timeline.at(start + 2 * SECOND, lambda: happened.append("end"))
    forget()
    assert timeline.next_event == start + 2 * SECOND
    while timeline.go_on(start + 5 * SECOND):
        pass
    assert happened == ["end"]
    assert timeline.next_event is None
