"""When a schedule is due: its rule, and the slots that follow from it.

A slot is an instant that follows from the rule alone, never from when a node looked. The search goes from one stretch
of constant offset to the next, in whole seconds since 1970: within a stretch local time runs evenly and the fields of
the expression can be searched directly. What happens where two stretches meet is the choice of a DST policy:

- `all`: whatever the local clock shows. Times in a gap do not happen, times in a fold happen twice.
- `once`: the same, but the second of two equal local times does not count.
- `debian`: rhythms (`*/5 * * * *`) as `all`; times of day (`30 2 * * *`) as `once`, and those that fall into a gap
  are made up for at its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Literal, Protocol, TypeAlias, get_args
from zoneinfo import ZoneInfo

from oncue.errors import InvalidSchedule
from oncue.policy.cron import Fields, normalised, parse
from oncue.policy.zones import DAY, Segment, Zone, zone

DstPolicy: TypeAlias = Literal["debian", "once", "all"]
DST_POLICIES: tuple[DstPolicy, ...] = get_args(DstPolicy)
DstMark: TypeAlias = Literal["gap", "first", "second"]

WINDOW = "@window"
"""What the expression of a daily window begins with (`policy/windows.py`)."""
TICK = timedelta(microseconds=1)
"""From one instant to the next: no store tells time more finely."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND, _MINUTE = 1_000_000, 60_000_000
_END = (datetime(9999, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)
_SETTLED = (datetime(2100, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)
_CYCLE = 146_097 * DAY
"""After 400 years the calendar repeats itself. So do the zones, once they list no more changes one by one."""


@dataclass(frozen=True, slots=True)
class Rule:
    """When a schedule is due: what `oncue.cron(...)` returns."""

    expression: str
    tz: str = "UTC"
    dst: DstPolicy = "debian"


class Terms(Protocol):
    """What has a rule: a schedule, each of its revisions, and what is due of it."""

    @property
    def expression(self) -> str: ...
    @property
    def tz(self) -> str: ...
    @property
    def dst(self) -> str: ...
    @property
    def started_at(self) -> datetime: ...


class Trigger(Protocol):
    """The slots of a rule. All instants are aware datetimes, and the answers are in UTC."""

    def after(self, instant: datetime) -> datetime | None:
        """The first slot that is later; None if there is none before the year 9999."""

    def latest(self, instant: datetime) -> datetime | None:
        """The last slot that is not later; None if there is none since 1970 or since the anchor."""

    def count(self, after: datetime, until: datetime) -> int:
        """How many slots there are in (after, until]."""

    def has(self, instant: datetime) -> bool:
        """Whether the instant is a slot."""

    def mark(self, instant: datetime) -> DstMark | None:
        """What is special about a slot: it stands for times in a gap, or is one of two equal local times."""


def cron(expression: str, *, tz: str = "UTC", dst: DstPolicy = "debian") -> Rule:
    """A rule such as `cron("30 2 * * MON-FRI", tz="Europe/Berlin")`. Raises InvalidSchedule."""
    _check(expression, tz, dst)
    _compiled(expression, tz, dst)
    return Rule(normalised(expression), tz, dst)


def trigger(rule: Rule, anchor: datetime) -> Trigger:
    """The slots of a rule; those of an `@every` are counted from the anchor. Raises InvalidSchedule."""
    _check(rule.expression, rule.tz, rule.dst)
    if rule.expression.startswith(WINDOW):
        return NoSlots()
    found = _compiled(rule.expression, rule.tz, rule.dst)
    return Interval(anchor, found) if isinstance(found, timedelta) else found


def trigger_of(terms: Terms) -> Trigger:
    """The slots of a schedule, or of one of its revisions. Raises InvalidSchedule."""
    return trigger(Rule(terms.expression, terms.tz, terms.dst), terms.started_at)  # type: ignore[arg-type]


def between(trigger: Trigger, after: datetime, until: datetime) -> Iterator[datetime]:
    """The slots in (after, until], one by one."""
    slot = trigger.after(after)
    while slot is not None and slot <= until:
        yield slot
        slot = trigger.after(slot)


def swallowed(rule: Rule, slot: datetime) -> list[datetime]:
    """The local times, within a gap that ends at this slot, that never came: what a slot marked `gap` stands for."""
    place = ZoneInfo(rule.tz)
    shown = slot.astimezone(place).replace(tzinfo=UTC)
    jump = slot.astimezone(place).utcoffset() - (slot - TICK).astimezone(place).utcoffset()  # type: ignore[operator]
    local_times = trigger(Rule(rule.expression), slot)
    times = between(local_times, shown - jump - TICK, shown - TICK)
    return [time.replace(tzinfo=None) for time in times]


def _check(expression: object, tz: object, dst: object) -> None:
    """Refuse a number or a list by name, before the cache fails on it."""
    for field, value in (("expression", expression), ("tz", tz), ("dst", dst)):
        if not isinstance(value, str):
            raise InvalidSchedule(field, f"expected a text, not a value of type {type(value).__name__}")


@lru_cache(maxsize=4096)
def _compiled(expression: str, tz: str, dst: DstPolicy) -> Calendar | timedelta:
    if dst not in DST_POLICIES:
        raise InvalidSchedule("dst", f"expected one of {', '.join(DST_POLICIES)}, not {dst[:30]!r}")
    place, parsed = zone(tz), parse(expression)
    if isinstance(parsed, timedelta):
        return parsed
    if dst == "debian":
        return Calendar(parsed, place, twice=parsed.wild, makes_up=not parsed.wild)
    return Calendar(parsed, place, twice=dst == "all", makes_up=False)


class Calendar:
    """The slots of a cron expression in a time zone."""

    __slots__ = ("_fields", "_makes_up", "_twice", "_zone")

    def __init__(self, fields: Fields, zone: Zone, *, twice: bool, makes_up: bool) -> None:
        self._fields = fields
        self._zone = zone
        self._twice = twice
        """Whether a local time that happens twice is two slots."""
        self._makes_up = makes_up
        """Whether the end of a gap is a slot if there would have been one within."""

    def after(self, instant: datetime) -> datetime | None:
        position = max(_seconds(instant) + 1, 0)
        limit = min(_END, max(position, _SETTLED) + _CYCLE)
        while position < limit:
            segment = self._zone.segment(position)
            if position == segment.start and self._makes_up_for(segment):
                return _instant(position)
            start = self._first_local(segment, position)
            local = self._fields.ceil(start)
            if local - segment.offset < segment.end:
                slot = local - segment.offset
                return _instant(slot) if slot < _END else None
            position = segment.end
            if position >= start + DAY:
                position = max(position, local - DAY)
        return None

    def latest(self, instant: datetime) -> datetime | None:
        position = min(_seconds(instant), _END - 1)
        while position >= 0:
            segment = self._zone.segment(position)
            end = position + segment.offset
            local = self._fields.floor(end)
            if local >= self._first_local(segment, segment.start):
                slot = local - segment.offset
                return _instant(slot) if slot >= 0 else None
            if self._makes_up_for(segment):
                return _instant(segment.start) if segment.start >= 0 else None
            position = segment.start - 1
            if position <= end - DAY:
                position = min(position, local + DAY)
        return None

    def count(self, after: datetime, until: datetime) -> int:
        position, end, total = max(_seconds(after) + 1, 0), min(_seconds(until) + 1, _END), 0
        while position < end:
            segment = self._zone.segment(position)
            stop = min(segment.end, end)
            total += self._fields.count(self._first_local(segment, position), stop + segment.offset)
            if position == segment.start and self._makes_up_for(segment):
                total += not self._fields.matches(position + segment.offset)
            position = stop
        return total

    def has(self, instant: datetime) -> bool:
        position = _seconds(instant)
        if instant.microsecond or not 0 <= position < _END:
            return False
        segment = self._zone.segment(position)
        if position == segment.start and self._makes_up_for(segment):
            return True
        local = position + segment.offset
        return local >= self._first_local(segment, position) and self._fields.matches(local)

    def mark(self, instant: datetime) -> DstMark | None:
        if not self.has(instant):
            return None
        position = _seconds(instant)
        segment = self._zone.segment(position)
        if position == segment.start and self._makes_up_for(segment):
            return "gap"
        local = position + segment.offset
        if local < segment.repeats_until:
            return "second"
        return "first" if self._happens_again(segment, position) else None

    def _first_local(self, segment: Segment, position: int) -> int:
        """The first local time of a segment, from a position in it on, that can be a slot."""
        local = position + segment.offset
        return local if self._twice or local >= segment.repeats_until else segment.repeats_until

    def _makes_up_for(self, segment: Segment) -> bool:
        """Whether the segment begins with a gap that swallowed a slot."""
        if not self._makes_up or segment.before >= segment.offset:
            return False
        return self._fields.ceil(segment.start + segment.before) < segment.start + segment.offset

    def _happens_again(self, segment: Segment, position: int) -> bool:
        local = position + segment.offset
        while segment.end <= position + DAY:
            segment = self._zone.segment(segment.end)
            if segment.start + segment.offset <= local:
                return True
        return False


class NoSlots:
    """A daily window has no slots of its own: those that there are belong to its subjects."""

    __slots__ = ()

    def after(self, instant: datetime) -> datetime | None:
        return None

    def latest(self, instant: datetime) -> datetime | None:
        return None

    def count(self, after: datetime, until: datetime) -> int:
        return 0

    def has(self, instant: datetime) -> bool:
        return False

    def mark(self, instant: datetime) -> DstMark | None:
        return None


class Interval:
    """The slots of an `@every`: anchor + 1 step, anchor + 2 steps, and so on, in microseconds since 1970."""

    __slots__ = ("_anchor", "_step")

    def __init__(self, anchor: datetime, step: timedelta) -> None:
        self._step = step // TICK
        unit = _MINUTE if self._step % _MINUTE == 0 else _SECOND
        self._anchor = _microseconds(anchor) // unit * unit

    def after(self, instant: datetime) -> datetime | None:
        return self._slot(max(self._number(instant) + 1, 1))

    def latest(self, instant: datetime) -> datetime | None:
        number = min(self._number(instant), self._last())
        return self._slot(number) if number >= 1 else None

    def count(self, after: datetime, until: datetime) -> int:
        return max(min(self._number(until), self._last()) - max(self._number(after), 0), 0)

    def has(self, instant: datetime) -> bool:
        number = self._number(instant)
        return 1 <= number <= self._last() and self._anchor + number * self._step == _microseconds(instant)

    def mark(self, instant: datetime) -> DstMark | None:
        return None

    def _number(self, instant: datetime) -> int:
        """The number of the last slot that is not later."""
        return (_microseconds(instant) - self._anchor) // self._step

    def _last(self) -> int:
        return (_END * _SECOND - 1 - self._anchor) // self._step

    def _slot(self, number: int) -> datetime | None:
        if number > self._last():
            return None
        return _EPOCH + timedelta(microseconds=self._anchor + number * self._step)


def _seconds(instant: datetime) -> int:
    """The whole second that an instant is in."""
    since = instant - _EPOCH
    return since.days * DAY + since.seconds


def _microseconds(instant: datetime) -> int:
    return (instant - _EPOCH) // TICK


def _instant(seconds: int) -> datetime:
    return _EPOCH + timedelta(seconds=seconds)
