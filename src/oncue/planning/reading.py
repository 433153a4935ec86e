"""Reads what was typed for a scenario, such as `send_email=200ms, *=1s`. Everything here raises ValueError."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from itertools import pairwise
from math import exp, log
from typing import NamedTuple, TypeVar

from oncue.model import Limits
from oncue.planning.scenario import DAY, Span, Spread, Stream, joined
from oncue.policy import durations, moments
from oncue.policy.triggers import TICK, Rule, trigger

T = TypeVar("T")

EVERYTHING_ELSE = "*"
MOST_JOBS = 1_000_000
"""In memory that is some 4 GB, and it takes half an hour."""
MOST_AT_ONCE = 1_000_000
MOST_ARRIVALS = 100_000_000.0
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY}
TAIL = 1.6448536269514722
"""So many standard deviations above the middle of a normal distribution, 95 % lie below."""
USUAL_TAIL = 2.5
"""Of a task of which only the middle is known: one in twenty takes longer than so many times the middle."""

DURATION = "expected a duration such as 200ms, a range such as 30s..5m, or ~30s for most of them around 30s"
RATE = (
    "expected a rate such as 20/m or 1500/d, one for some hours such as 20/m@09:00-17:00, "
    "or so many at once every day such as 5000@09:00"
)
SHARE = "expected a share such as 2% or 0.02, between nothing and all"
LIMIT = "expected a number of jobs at once such as 5, or 2/node"
SUBJECTS = "expected so many subjects and their due times in UTC such as 5000@09:00 or 100000@06:00-10:00"
MOST_SUBJECTS = 10_000_000
OUTAGE = "expected a time of day and a length such as 08:00+30m, or an instant such as 2030-01-03T08:00+30m (UTC)"


# --- lists ----------------------------------------------------------------------------------------------------------


def entries(texts: Iterable[str]) -> list[str]:
    """What stands between commas and ends of lines. From a # on, a line is a remark."""
    lines = [line.partition("#")[0] for text in texts for line in text.splitlines()]
    return [entry.strip() for line in lines for entry in line.split(",") if entry.strip()]


def pairs(
    texts: Iterable[str], known: Sequence[str], kind: str = "task", queues: Mapping[str, str] | None = None
) -> list[tuple[str, str]]:
    """Names and values, in the order in which they were written. `queues` says which queue each task uses."""
    found = []
    for entry in entries(texts):
        name, _, value = (part.strip() for part in entry.partition("="))
        if not name or not value:
            raise ValueError(f"expected {kind}=value, not {entry!r:.100}")
        if name != EVERYTHING_ELSE:
            check_known(name, known, kind, queues or {})
        found.append((name, value))
    return found


def check_known(name: str, known: Sequence[str], kind: str, queues: Mapping[str, str] | None = None) -> None:
    if name in known:
        return
    if tasks := [task for task, queue in sorted((queues or {}).items()) if queue == name]:
        raise ValueError(f"expected the name of a task; {name!r} is a queue, of: {', '.join(tasks)}")
    if near := get_close_matches(name, known, 1):
        raise ValueError(f"there is no {kind} {name!r}; did you mean {near[0]!r}?")
    others = f"there are: {', '.join(sorted(known))}" if known else f"the application declares no {kind}s"
    raise ValueError(f"there is no {kind} {name!r}; {others}")


def by_name(written: Iterable[tuple[str, T]], names: Sequence[str]) -> dict[str, T]:
    """What was written for each of these names, or for `*`, over which a name wins."""
    told: dict[str, T] = {}
    for name, value in written:
        if name in told:
            raise ValueError(f"expected {name} once, not twice")
        told[name] = value
    return {name: told.get(name, told.get(EVERYTHING_ELSE)) for name in names if {name, EVERYTHING_ELSE} & told.keys()}  # type: ignore[misc]


# --- values ---------------------------------------------------------------------------------------------------------


def share(text: str) -> float:
    try:
        value = float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError(f"{SHARE}; not {text!r:.100}")
    return value


def limits(written: Iterable[tuple[str, str]]) -> dict[str, Limits]:
    """How many jobs of each queue may run at once, on all nodes together and on each."""
    found: dict[str, Limits] = {}
    for queue, text in written:
        number, slash, node = (part.strip() for part in text.partition("/"))
        if queue == EVERYTHING_ELSE:
            raise ValueError(f"{LIMIT}, for one queue each; not for all")
        if not number.isdecimal() or (slash and node != "node"):
            raise ValueError(f"{LIMIT}; not {text!r:.100}")
        if not int(number):
            raise ValueError(f"{LIMIT}; with none at once its jobs would never run")
        if int(number) > MOST_AT_ONCE:
            raise ValueError(f"{LIMIT}, {MOST_AT_ONCE:,} at most; not {text!r:.100}")
        known = found.get(queue, Limits())
        if (known.per_node if slash else known.globally) is not None:
            raise ValueError(f"expected {queue} once{' for each node' if slash else ''}, not twice")
        found[queue] = Limits(known.globally, int(number)) if slash else Limits(int(number), known.per_node)
    return found


def constant(seconds: float) -> Spread:
    return Spread(durations.describe(seconds), lambda rng: seconds)


def measured(seconds: Sequence[float]) -> Spread:
    """One of the durations that were measured, each as likely as any other."""
    known = sorted(round(one, 6) for one in seconds)
    shortest, longest = durations.describe(known[0]), durations.describe(known[-1])
    return Spread(f"measured, {len(known):,} times, {shortest}..{longest}", lambda rng: rng.choice(known))


def spread(text: str) -> Spread:
    """A duration, two bounds, or with a ~ a log-normal distribution: half take longer, one in twenty much longer."""
    around = text.strip().startswith("~")
    first, dots, second = text.strip().removeprefix("~").partition("..")
    low = _seconds(first, f"{DURATION}, of 100 years at most; not {text!r:.100}")
    high = _seconds(second, f"{DURATION}, of 100 years at most; not {text!r:.100}") if dots else low
    if around:
        high = high if dots else low * USUAL_TAIL
        if not 0 < low < high:
            raise ValueError(f"{DURATION}; in {text!r} the middle must be above 0 and below what one in twenty exceeds")
        sigma = log(high / low) / TAIL
        written = f"~{durations.describe(low)}..{durations.describe(high)}"
        return Spread(written, lambda rng: round(low * exp(sigma * rng.gauss(0.0, 1.0)), 6))
    if high < low:
        raise ValueError(f"{DURATION}; {text!r} ends before it begins")
    if not dots:
        return constant(low)
    written = f"{durations.describe(low)}..{durations.describe(high)}"
    return Spread(written, lambda rng: round(rng.uniform(low, high), 6))


def stream(task: str, text: str) -> Stream:
    """The arrivals of a task."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/([smhd]))?(?:@(\d\d:\d\d)(?:-(\d\d:\d\d))?)?", text.strip())
    written, unit, opens, closes = ("0", None, None, None) if found is None else found.groups()
    number = float(written)
    if (unit is None) != (opens is not None and closes is None) or not 0 < number <= MOST_ARRIVALS:
        raise ValueError(f"{RATE}; not {text!r:.100}")
    begins = 0.0 if opens is None else _clock_time(opens, RATE)
    if unit is None:
        if not number.is_integer():
            raise ValueError(f"{RATE}; {text!r:.100} is not a whole number of jobs")
        return Stream(task, number, begins, begins, text.strip())
    ends = DAY if closes is None else _clock_time(closes, RATE)
    if ends <= begins:
        raise ValueError(f"{RATE}; the hours of {text!r:.100} end before they begin")
    per_day = number if unit == "d" else number * (ends - begins) / UNITS[unit]
    return Stream(task, per_day, begins, ends, text.strip())


class DueTimes(NamedTuple):
    """So many subjects with due times from a minute of the day on, up to another one or all at that minute."""

    subjects: int
    first: int
    last: int | None


def due_times(texts: Iterable[str]) -> list[DueTimes]:
    """Subjects such as `5000@09:00` or `100000@06:00-10:00`, in UTC."""
    made = [_due_times(entry) for entry in entries(texts)]
    if sum(one.subjects for one in made) > MOST_SUBJECTS:
        raise ValueError(f"expected at most {MOST_SUBJECTS:,} subjects in all")
    return made


def _due_times(text: str) -> DueTimes:
    found = re.fullmatch(r"(\d{1,9})@(\d\d:\d\d)(?:-(\d\d:\d\d))?", text.strip())
    if found is None or not int(found[1]):
        raise ValueError(f"{SUBJECTS}; not {text!r:.100}")
    first = int(_clock_time(found[2], SUBJECTS) // 60)
    last = None if found[3] is None else int(_clock_time(found[3], SUBJECTS) // 60)
    if first == 24 * 60 or (last is not None and last <= first):
        raise ValueError(f"{SUBJECTS}; the hours of {text!r:.100} end before they begin")
    return DueTimes(int(found[1]), first, last)


def check_apart(streams: Sequence[Stream]) -> None:
    """Refuses two streams of a task for the same hours: it would not be plain whether they add up."""
    ordered = sorted(streams, key=lambda one: (one.task, one.at_once, one.opens))
    for one, two in pairwise(ordered):
        if (one.task, one.at_once) == (two.task, two.at_once) and (two.opens < one.closes or one.opens == two.opens):
            raise ValueError(f"expected {one.task} once for every hour, not both {one.text} and {two.text}")


def check_volume(streams: Sequence[Stream], rules: Mapping[str, Rule], start: datetime, end: datetime) -> None:
    """Refuses more jobs than memory holds, and says what brings most of them."""
    jobs = {str(stream): round(stream.expected(start, (end - start).total_seconds())) for stream in streams}
    for name, rule in rules.items():
        jobs[f"schedule {name}"] = trigger(rule, start).count(start - TICK, end - TICK)
    if (total := sum(jobs.values())) > MOST_JOBS:
        worst = max(jobs, key=lambda name: jobs[name])
        told = f"expected {MOST_JOBS:,} jobs in the simulated time at most, not {total:,}"
        raise ValueError(f"{told}; {worst} alone brings {jobs[worst]:,}")


# --- outages --------------------------------------------------------------------------------------------------------


def outages(texts: Sequence[str], start: datetime, length: float) -> tuple[Span, ...]:
    """Every outage that these words mean, within the simulated time."""
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
    seconds = _seconds(how_long, f"{OUTAGE}, for 100 years at most; not {text!r:.100}")
    if seconds <= 0:
        raise ValueError(f"{OUTAGE}; {text!r:.100} lasts no time")
    if "-" in when:
        begins = (_instant(when, f"{OUTAGE}; not {text!r:.100}") - start).total_seconds()
        yield Span(begins, begins + seconds)
        return
    if seconds >= DAY:
        raise ValueError(f"{OUTAGE}; {text!r:.100} is every day, for a day or longer: nothing would ever run")
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    begins = (midnight - start).total_seconds() + _clock_time(when, OUTAGE) - DAY  # yesterday's may not be over
    while begins < length:
        yield Span(begins, begins + seconds)
        begins += DAY


def _instant(word: str, complaint: str) -> datetime:
    try:
        return moments.utc(word)
    except ValueError:
        raise ValueError(complaint) from None


def _seconds(word: str, complaint: str) -> float:
    try:
        return durations.seconds(word.strip())
    except ValueError:
        raise ValueError(complaint) from None


def _clock_time(word: str, expected: str) -> float:
    """Seconds since midnight."""
    found = re.fullmatch(r"(\d+):(\d+)", word)
    if found is None:
        raise ValueError(f"{expected}; not {word!r:.100}")
    hours, minutes = int(found[1]), int(found[2])
    if minutes > 59 or hours * 60 + minutes > 24 * 60:
        raise ValueError(f"{expected}; there is no time {word!r}")
    return hours * 3600.0 + minutes * 60.0
