"""What changes of the clocks do to slots, in words; and when the next one comes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from oncue.policy.triggers import DstMark, Rule, swallowed
from oncue.policy.zones import zone

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOOK_AHEAD = timedelta(days=400)
"""Zones that change their clocks do so within so long."""


class ClockChange(NamedTuple):
    """An instant at which the clocks of a zone are set."""

    at: datetime
    by: timedelta
    """How far they are set forward; negative: back."""


def next_change(tz: str, now: datetime) -> ClockChange | None:
    """The next change of a zone's clocks. None if there is none within a year. Raises InvalidSchedule."""
    place, position = zone(tz), int((now - _EPOCH).total_seconds())
    end = position + int(_LOOK_AHEAD.total_seconds())
    segment = place.segment(position)
    while segment.end < end:
        following = place.segment(segment.end)
        if following.offset != segment.offset:
            return ClockChange(
                _EPOCH + timedelta(seconds=segment.end), timedelta(seconds=following.offset - segment.offset)
            )
        segment = following
    return None


def told(rule: Rule, slot: datetime, local: datetime, mark: DstMark | None) -> str:
    """What a clock change does to a slot; empty if nothing."""
    clock = f"{local:%H:%M:%S}" if local.second else f"{local:%H:%M}"
    if mark == "first":
        return f"first of two: {clock} comes twice"
    if mark == "second":
        return f"second of two: {clock} comes again"
    if mark == "gap":
        times = swallowed(rule, slot)
        others = f" (and {len(times) - 1:,} more)" if len(times) > 1 else ""
        return f"moved: {times[0]:%H:%M}{others} did not exist"
    return ""
