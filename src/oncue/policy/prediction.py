"""How many users will miss their cutoffs if a window's jobs go on as they do.

Jobs are served with the earliest cutoff first, so the users of one cutoff get what the earlier ones leave. The rate is
that of the successes in the minutes in which there was something to do. A user who waits for another attempt misses if
all the attempts that are left fail, at the share of failures that the attempts of late had.

While no attempt has ended, the rate is not known, but it has a bound: at best, all that run end now. A queue that is
paused, and one that no worker serves, has nothing that runs: then all of its users will miss.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import NamedTuple

from oncue.model import DayCount
from oncue.policy.slo import PREDICTED, Reading, Rolling, SloRules
from oncue.policy.windows import WindowRule

ONE_DAY = timedelta(days=1)
LEAST_BUSY = 2
"""So many minutes with jobs and without the end of an attempt tell something about the rate."""


class OpenBucket(NamedTuple):
    """The users of a window with the same cutoff, while it is open."""

    bucket: int
    cutoff_at: datetime
    users: int
    left: int
    """Those who have no outcome yet."""


class Speed(NamedTuple):
    """How fast a window's jobs come to an end."""

    per_minute: float
    """Successes."""
    failing: float
    """The share of attempts that fail."""


def dates_around(now: datetime) -> list[date]:
    """The local dates, in all zones, of cutoffs that may lie ahead in an open window."""
    return [now.date() + timedelta(days=days) for days in (-1, 0, 1, 2)]


def open_buckets(days: Mapping[date, Sequence[DayCount]], rule: WindowRule, now: datetime) -> list[OpenBucket]:
    """The open cutoffs of a window, the earliest first, from what was counted for these local dates."""
    found: dict[datetime, OpenBucket] = {}
    for day, counts in days.items():
        for bucket, events in _by_bucket(counts).items():
            cutoff_at = _next(bucket, now)
            left = events["opened"] - events["success"] - events["cutoff_reached"]
            is_open = cutoff_at <= now + timedelta(seconds=rule.length)
            if left > 0 and is_open and abs((cutoff_at.date() - day).days) <= 1:
                other = found.get(cutoff_at, OpenBucket(bucket, cutoff_at, 0, 0))
                found[cutoff_at] = other._replace(users=other.users + events["opened"], left=other.left + left)
    return [found[cutoff_at] for cutoff_at in sorted(found)]


def _by_bucket(counts: Sequence[DayCount]) -> dict[int, Counter[str]]:
    found: dict[int, Counter[str]] = defaultdict(Counter)
    for one in counts:
        found[one.bucket][one.event] += one.subjects
    return found


def _next(bucket: int, now: datetime) -> datetime:
    """The next instant, in UTC, with this minute of the day."""
    today = datetime.combine(now.date(), time(*divmod(bucket, 60)), now.tzinfo)
    return today if today > now else today + ONE_DAY


def speed(window: str, queue: str, rolling: Rolling) -> Speed | None:
    """None while it cannot be known: there was nothing to do, or not for long enough."""
    jobs, load = rolling.by_minute("window", window), rolling.by_minute("queue", queue)
    ended = {minute for minute, figures in jobs.items() if figures.get("ms")}
    busy = {minute for minute, figures in load.items() if figures.get("depth", 0) + figures.get("running", 0) > 0}
    whole = rolling.whole("window", window)
    attempts = whole.get("ok", 0) + whole.get("error", 0) + whole.get("timeout", 0)
    if not attempts:
        return _best(load, busy)
    successes = sum(whole.get("success", {}).values())
    return Speed(successes / len(ended | busy), 1 - whole.get("ok", 0) / attempts)


def _best(load: Mapping[datetime, Mapping[str, float]], busy: set[datetime]) -> Speed | None:
    """The highest rate that there can be while no attempt has ended. A window's first sample is taken before its jobs
    can have begun."""
    if len(busy) < LEAST_BUSY:
        return None
    latest = load[max(busy)]
    return Speed(latest.get("running", 0) / latest["samples"] / len(busy), 0.0)


def predicted(
    window: str,
    rule: WindowRule,
    buckets: Sequence[OpenBucket],
    going: Speed,
    later: int,
    rules: SloRules,
    now: datetime,
) -> Reading | None:
    """The first cutoff that too many users will miss, or the first one; None if no window is open.

    `later` are the jobs that wait for another attempt: of the earliest cutoffs, since those were tried first.
    """
    first, room = None, 0.0
    since = now
    for one in buckets:
        room += going.per_minute * (one.cutoff_at - since).total_seconds() / 60
        since = one.cutoff_at
        retrying = min(later, one.left)
        later -= retrying
        attempts = max(int((one.cutoff_at - now).total_seconds() // rule.retry), 1)
        waiting = one.left - retrying
        misses = round(max(waiting - room, 0.0) + retrying * going.failing**attempts)
        room = max(room - waiting, 0.0)
        allowed = rules.cutoff_rate_max * one.users
        text = f"at the present rate {misses} users of {window} miss {one.cutoff_at:%H:%M} (UTC)"
        reading = Reading(PREDICTED, window, misses, round(allowed, 2), text, one.bucket)
        if reading.breached:
            return reading
        first = first or reading
    return first
