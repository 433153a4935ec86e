"""A time zone as stretches of constant offset, in whole seconds since 1970.

`zoneinfo` can say what the offset is at an instant, not when it will change. So the changes are looked for: one probe a
day, then halving down to the second. (The closest pair of changes since 1970, in any zone, is almost seven days apart.)
That is done block by block and remembered, so that a schedule pays for the weeks that it looks at and for no others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from oncue.errors import InvalidSchedule

DAY = 86_400
_BLOCK = 32 * DAY
_MARGIN = 2 * DAY
_ENDLESS = 1 << 60
_LONGEST_NAME = 64
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9][A-Za-z0-9_+-]*)*")
_DIFFERS_BY_MACHINE = re.compile(r"localtime|posixrules|(?:posix|right)/.*", re.IGNORECASE)


class Segment(NamedTuple):
    """A stretch [start, end) of one offset. It may be cut where a block begins: then `before` equals `offset`."""

    start: int
    end: int
    offset: int
    before: int
    """The offset right before the start."""
    repeats_until: int
    """Local times of this segment that are earlier than this one have happened already."""


class Zone:
    """The segments of one zone. Instants are seconds since 1970 in UTC; a local time is an instant plus its offset."""

    __slots__ = ("_info", "_whole")

    def __init__(self, info: ZoneInfo) -> None:
        self._info = info
        always = info.utcoffset(None)
        self._whole = None if always is None else _whole(_seconds(always))

    def segment(self, instant: int) -> Segment:
        if self._whole is not None:
            return self._whole
        for segment in _segments(self._info, instant // _BLOCK):
            if instant < segment.end:
                break
        return segment


@lru_cache(maxsize=1024)
def zone(name: str) -> Zone:
    """The zone of this name. Raises InvalidSchedule for anything that is not the name of one on every machine."""
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name) or _DIFFERS_BY_MACHINE.fullmatch(name):
        raise _unknown(name)
    try:
        return Zone(ZoneInfo(name))
    except (LookupError, ValueError, OSError):
        raise _unknown(name) from None


def _unknown(name: str) -> InvalidSchedule:
    shown = repr(name) if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]!r}..."
    close = _closest(name[:_LONGEST_NAME])
    hint = f"did you mean {close}?" if close else "expected the form Area/City, such as Europe/Berlin, or UTC"
    return InvalidSchedule("tz", f"there is no time zone {shown}: {hint}")


def _closest(name: str) -> str | None:
    """The zone that was probably meant, judged by its city: areas are mixed up more often than misspelt."""
    cities = _cities()
    found = get_close_matches(_city(name), cities, 1, 0.75)
    return cities[found[0]] if found else None


@cache
def _cities() -> dict[str, str]:
    """The zones to hint at. Not GMT+2 and its like, whose signs mean the opposite of what people expect."""
    try:
        from importlib.resources import files

        names = files("tzdata").joinpath("zones").read_text("utf-8").split()
    except (ImportError, OSError):
        names = ["UTC"]
    places = [name for name in names if not name.startswith(("Etc/", "GMT"))]
    return {_city(name): name for name in sorted(places, key=len, reverse=True)}


def _city(name: str) -> str:
    return name.rpartition("/")[2].casefold()


def _whole(offset: int) -> Segment:
    return Segment(-_ENDLESS, _ENDLESS, offset, offset, -_ENDLESS)


@lru_cache(maxsize=4096)
def _segments(info: ZoneInfo, block: int) -> tuple[Segment, ...]:
    """The segments of one block. The days before it count too: its first hours may repeat theirs."""
    first, last = block * _BLOCK, (block + 1) * _BLOCK
    start = first - _MARGIN
    offset = before = _offset(info, start)
    repeats_until = start + offset
    segments = []
    for end in (*_changes(info, start, last), last):
        if end > first:
            known = before if start >= first else offset
            segments.append(Segment(max(start, first), end, offset, known, repeats_until))
        repeats_until = max(repeats_until, end + offset)
        start, before, offset = end, offset, _offset(info, end)
    return tuple(segments)


def _changes(info: ZoneInfo, start: int, end: int) -> Iterator[int]:
    """The instants in (start, end) at which a new offset begins to hold."""
    known = _offset(info, start)
    for probe in range(start + DAY, end + 1, DAY):
        offset = _offset(info, probe)
        if offset != known:
            change = _first_other(info, known, probe - DAY, probe)
            if change < end:
                yield change
        known = offset


def _first_other(info: ZoneInfo, offset: int, low: int, high: int) -> int:
    """The first instant in (low, high] with another offset, given that low has this one and high has not."""
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(info, middle) == offset:
            low = middle
        else:
            high = middle
    return high


def _offset(info: ZoneInfo, instant: int) -> int:
    offset = datetime.fromtimestamp(instant, info).utcoffset()
    assert offset is not None
    return _seconds(offset)


def _seconds(offset: timedelta) -> int:
    return offset.days * DAY + offset.seconds


def local_date(name: str, instant: datetime) -> date:
    """The date that the clocks of a zone show. Raises InvalidSchedule if there is no such zone."""
    zone(name)
    return instant.astimezone(ZoneInfo(name)).date()


def first_instant(name: str, local: datetime) -> datetime | None:
    """The first instant at which the clocks of a zone show this time; the end of the gap that swallows it.

    None: the zone leaves out the whole date. Raises InvalidSchedule if there is no such zone.
    """
    zone(name)
    info = ZoneInfo(name)
    found = local.replace(tzinfo=info).astimezone(UTC)
    if found.astimezone(info).replace(tzinfo=None) == local:
        return found
    # In a gap, the offset after it leads to an instant before it, and the offset before it to one that is not.
    low, high = (int(local.replace(tzinfo=info, fold=fold).timestamp()) for fold in (1, 0))
    end = _first_other(info, _offset(info, low), low, high)
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
    shown = datetime.fromtimestamp(end, info).replace(tzinfo=None)
    begins = datetime.fromtimestamp(end - 1, info).replace(tzinfo=None) + timedelta(seconds=1)
    if begins <= midnight and midnight + timedelta(days=1) <= shown:
        return None
    return datetime.fromtimestamp(end, UTC)
