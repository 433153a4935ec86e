from __future__ import annotations

import struct
from datetime import UTC, datetime
from io import BytesIO
from itertools import pairwise
from time import thread_time
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncue.errors import InvalidSchedule
from oncue.policy.zones import DAY, Segment, Zone, _changes, _segments, zone

HOUR = 3600
FIXED = ["UTC", "Etc/UTC", "Etc/GMT+5", "Etc/GMT-14"]
MOVING = [
    "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "America/St_Johns",
    "Antarctica/Troll", "Pacific/Apia", "Asia/Kathmandu", "Africa/Monrovia", "Asia/Gaza", "America/Noronha",
]  # fmt: skip


def instant(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def offset(name: str, at: int) -> int:
    found = datetime.fromtimestamp(at, ZoneInfo(name)).utcoffset()
    assert found is not None
    return int(found.total_seconds())


@pytest.mark.parametrize(
    ("name", "change", "before", "after"),
    [
        ("Europe/Berlin", "2026-03-29T01:00:00", 1 * HOUR, 2 * HOUR),
        ("Europe/Berlin", "2026-10-25T01:00:00", 2 * HOUR, 1 * HOUR),
        ("America/New_York", "2026-03-08T07:00:00", -5 * HOUR, -4 * HOUR),
        ("Australia/Lord_Howe", "2026-04-04T15:00:00", 11 * HOUR, 10 * HOUR + 1800),
        ("Antarctica/Troll", "2026-03-29T01:00:00", 0, 2 * HOUR),
        ("Pacific/Apia", "2011-12-30T10:00:00", -10 * HOUR, 14 * HOUR),
        ("Asia/Kathmandu", "1985-12-31T18:30:00", 5 * HOUR + 1800, 5 * HOUR + 2700),
        ("Africa/Monrovia", "1972-01-07T00:44:30", -2670, 0),
        ("Europe/Berlin", "9998-03-29T01:00:00", 1 * HOUR, 2 * HOUR),
    ],
)
def test_changes_are_found_to_the_second(name: str, change: str, before: int, after: int) -> None:
    place, at = zone(name), instant(change)
    assert place.segment(at - 1).offset == before
    assert place.segment(at - 1).end == at
    found = place.segment(at)
    assert (found.start, found.offset, found.before) == (at, after, before)
    assert found.repeats_until == at + before


@given(st.sampled_from(MOVING), st.integers(0, instant("2110-01-01")))
def test_a_segment_has_one_offset_and_its_neighbours_join_on(name: str, at: int) -> None:
    place = zone(name)
    segment = place.segment(at)
    assert segment.start <= at < segment.end
    assert segment.end - segment.start <= 32 * DAY
    for place_within in (segment.start, at, segment.end - 1):
        assert offset(name, place_within) == segment.offset
    assert offset(name, segment.start - 1) == segment.before
    assert place.segment(segment.end).start == segment.end
    assert place.segment(segment.start - 1).end == segment.start


def imagined(rule: str) -> ZoneInfo:
    """A zone that follows a POSIX rule, as no real one does."""
    header = b"TZif2" + bytes(15) + struct.pack(">6l", 0, 0, 0, 0, 1, 4)
    data = struct.pack(">lbb", 0, 0, 0) + b"UTC\0"
    return ZoneInfo.from_file(BytesIO((header + data) * 2 + f"\n{rule}\n".encode()))


def test_hours_of_a_block_may_repeat_those_of_the_block_before() -> None:
    """A fold half an hour before a block begins: the block's first segment is cut there, and still knows of it."""
    info = imagined("<A>0<B>-2,M3.5.0/1:00,M10.5.0/25:30")
    start = instant("1976-11-01")
    assert start % (32 * DAY) == 0
    fold = start - 1800
    assert list(_changes(info, start - DAY, start + DAY)) == [fold]
    before, segment = Zone(info).segment(start - 1), Zone(info).segment(start)
    assert (before.start, before.end, before.repeats_until) == (fold, start, fold + 2 * HOUR)
    assert (segment.start, segment.before, segment.offset, segment.repeats_until) == (start, 0, 0, fold + 2 * HOUR)


def test_a_change_may_fall_on_the_edge_of_a_block() -> None:
    info, edge = imagined("<A>0<B>-2,M3.5.0/1:00,M10.5.0/26:00"), instant("1976-11-01")
    before, segment = Zone(info).segment(edge - 1), Zone(info).segment(edge)
    assert (before.end, before.offset) == (edge, 2 * HOUR)
    assert (segment.start, segment.before, segment.offset, segment.repeats_until) == (
        edge,
        2 * HOUR,
        0,
        edge + 2 * HOUR,
    )


@pytest.mark.parametrize("name", MOVING)
def test_probing_once_a_day_misses_nothing(name: str) -> None:
    info = ZoneInfo(name)
    start, end = instant("1970-01-01"), instant("2045-01-01")
    probes = [(at, offset(name, at)) for at in range(start, end, 6 * HOUR)]
    seen = [(early[0], late[0]) for early, late in pairwise(probes) if early[1] != late[1]]
    found = list(_changes(info, start, end))
    assert len(found) == len(seen)
    assert all(early < change <= late for change, (early, late) in zip(found, seen, strict=True))


@pytest.mark.parametrize("name", FIXED)
def test_a_fixed_offset_is_one_segment(name: str) -> None:
    first, last = zone(name).segment(0), zone(name).segment(instant("9998-12-31"))
    assert first is last
    assert isinstance(first, Segment)
    assert first.offset == first.before == offset(name, 0)


def test_what_is_remembered_is_bounded() -> None:
    assert (zone.cache_info().maxsize or 0) <= 1024
    assert (_segments.cache_info().maxsize or 0) <= 4096


@pytest.mark.parametrize(
    "name",
    [
        "", " ", ".", "..", "/", "Europe", "Europe/", "/Europe/Berlin", "Europe//Berlin", "Europe/Berlin/",
        " Europe/Berlin", "Europe/Berlin\n", "Europe/Berlin\0", "Europe\\Berlin", "\0", "\ud800",
        "../etc/passwd", "../../../etc/passwd", "/etc/passwd", "Europe/../../../etc/passwd", "zone.tab", "tzdata.zi",
        "localtime", "posixrules", "posix/Europe/Berlin", "right/UTC", "Mars/Olympus", "+02:00", "UTC+2",
        "W. Europe Standard Time", "x" * 65, "A/" * 1000, "x" * 1_000_000,
    ],
    ids=lambda name: repr(name[:30]),
)  # fmt: skip
def test_other_names_are_refused(name: str) -> None:
    started = thread_time()
    with pytest.raises(InvalidSchedule, match="there is no time zone") as caught:
        zone(name)
    assert thread_time() - started < 0.05
    assert caught.value.field == "tz"
    assert caught.value.position is None
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("US/New_York", "America/New_York"),
        ("utc", "UTC"),
        ("America/Argentina/Buenos Aires", "Buenos_Aires"),
    ],
)
def test_the_name_that_was_meant_is_hinted_at(name: str, meant: str) -> None:
    with pytest.raises(InvalidSchedule, match=meant):
        zone(name)


def test_the_form_of_a_name_is_hinted_at() -> None:
    with pytest.raises(InvalidSchedule) as caught:
        zone("Mars/Olympus")
    assert str(caught.value) == (
        "tz: there is no time zone 'Mars/Olympus': expected the form Area/City, such as Europe/Berlin, or UTC"
    )


@given(st.text())
def test_any_text_is_a_zone_or_refused(text: str) -> None:
    try:
        zone(text)
    except InvalidSchedule:
        return
    assert ZoneInfo(text)
