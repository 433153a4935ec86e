"""Stretches of simulated time, in seconds since its start; outages are such."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from oncue.policy import durations

DAY = 86400.0
OUTAGE = "expected a time of day and a length such as 08:00+30m, or an instant such as 2030-01-03T08:00+30m (UTC)"


class Span(NamedTuple):
    start: float
    end: float

    @property
    def length(self) -> float:
        return self.end - self.start


def joined(spans: Iterable[Span], gap: float = 0.0) -> list[Span]:
    """In order, and those that overlap as one; also those that are no further apart than `gap`."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.start <= found[-1].end + gap:
            found[-1] = Span(found[-1].start, max(found[-1].end, span.end))
        else:
            found.append(span)
    return found


def within(spans: Sequence[Span], start: float, end: float) -> float:
    """How many seconds between these two lie inside of the spans."""
    return sum(max(min(span.end, end) - max(span.start, start), 0.0) for span in spans)


def working(spans: Sequence[Span], instant: float) -> float:
    """How many seconds up to an instant lie outside of the spans: what a clock says that stands still in them."""
    return instant - within(spans, 0.0, instant)


def outages(texts: Sequence[str], start: datetime, length: float) -> tuple[Span, ...]:
    """Every outage that these words mean, within the simulated time. Raises ValueError."""
    return tuple(joined(span for text in texts for span in _clipped(text, start, length)))


def _clipped(text: str, start: datetime, length: float) -> list[Span]:
    spans = [Span(max(span.start, 0.0), min(span.end, length)) for span in _outages(text, start, length)]
    if found := [span for span in spans if span.length > 0]:
        return found
    raise ValueError(f"{OUTAGE}; {text!r:.100} is not in the simulated time")


def _outages(text: str, start: datetime, length: float) -> Iterator[Span]:
    when, plus, how_long = text.strip().rpartition("+")
    if not plus:
        raise ValueError(f"{OUTAGE}; not {text!r:.100}")
    seconds = _length(how_long, text)
    if "-" in when:
        begins = (_instant(when, text) - start).total_seconds()
        yield Span(begins, begins + seconds)
        return
    if seconds >= DAY:
        raise ValueError(f"{OUTAGE}; {text!r:.100} is every day, for a day or longer: nothing would ever run")
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    begins = (midnight - start).total_seconds() + clock_time(when, OUTAGE) - DAY  # yesterday's may not be over
    while begins < length:
        yield Span(begins, begins + seconds)
        begins += DAY


def _length(word: str, text: str) -> float:
    try:
        seconds = durations.seconds(word)
    except ValueError:
        raise ValueError(f"{OUTAGE}, for 100 years at most; not {text!r:.100}") from None
    if seconds <= 0:
        raise ValueError(f"{OUTAGE}; {text!r:.100} lasts no time")
    return seconds


def _instant(word: str, text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(word)
    except ValueError:
        raise ValueError(f"{OUTAGE}; not {text!r:.100}") from None
    return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).astimezone(UTC)


def clock_time(word: str, expected: str) -> float:
    """Seconds since midnight. Raises ValueError."""
    try:
        hours, minutes = (int(part) for part in word.split(":"))
    except ValueError:
        raise ValueError(f"{expected}; not {word!r:.100}") from None
    if not (0 <= minutes < 60 and (0 <= hours < 24 or (hours, minutes) == (24, 0))):
        raise ValueError(f"{expected}; there is no time {word!r}")
    return hours * 3600.0 + minutes * 60.0


def moment(start: datetime, seconds: float) -> datetime:
    return start + timedelta(seconds=seconds)
