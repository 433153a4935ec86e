"""The expressions that matter around a transition, made from its own local times.

`low` and `high` are the two ends of the local times in question: those from low until before high are jumped over by a
gap, or happen twice in a fold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from dst.oracle import MONTHS, WEEKDAYS
from dst.transitions import Transition

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
TICK = timedelta.resolution
WIDE = timedelta(hours=36)


@dataclass(frozen=True)
class Case:
    """An expression, and how far on both sides of the transition it is looked at."""

    expression: str
    reach: timedelta = WIDE

    @property
    def seconds(self) -> bool:
        return len(self.expression.split()) == 6


@dataclass(frozen=True)
class Every:
    """An @every expression with its anchor."""

    expression: str
    anchor: datetime
    reach: timedelta = WIDE


def cron_cases(transition: Transition) -> list[Case]:
    """All of them, each once."""
    near = transition.jump + 2 * HOUR
    cases = [
        *(Case(expression) for expression in _fixed(transition)),
        *(Case(expression) for expression in _days(transition)),
        *(Case(expression) for expression in _lists(transition)),
        *(Case(expression) for expression in _wild(transition)),
        *(Case(expression, near) for expression in _dense(transition)),
        *(Case(expression, seconds_reach(transition)) for expression in _six(transition)),
    ]
    return list({case.expression: case for case in cases}.values())


def main_cases(transition: Transition) -> list[Case]:
    """The few that tell most."""
    low, middle, high = _ends(transition)
    hour = low.hour
    expressions = (
        *(_at(time) for time in (low - MINUTE, low, middle, high - MINUTE, high)),
        f"{low.minute},{middle.minute} {_hours(low, middle)} * * *",
        f"0 {_hours(low - HOUR, high + HOUR)} * * *",
        f"*/15 {hour} * * *",
        f"{low.minute} * * * *",
        f"{middle.minute} {middle.hour} {middle.day} {middle.month} *",
        f"{middle.minute} {middle.hour} * * {_weekday(middle)}",
        "@daily",
    )
    seconds = (f"30 {_at(high - MINUTE)}", f"*/20 {_at(middle)}")
    return [
        *(Case(expression) for expression in dict.fromkeys(expressions)),
        *(Case(expression, seconds_reach(transition)) for expression in seconds),
    ]


def every_cases(transition: Transition) -> list[Every]:
    at = transition.at
    return [
        Every("@every 1h", at - WIDE - timedelta(hours=5, minutes=17, seconds=23, microseconds=456789)),
        Every("@every 1h30m", at - timedelta(hours=3, seconds=31, microseconds=5)),
        Every("@every 1.5d", at - timedelta(days=700, seconds=59)),
        Every("@every 100m0.25s", at - timedelta(days=40, microseconds=1)),
        Every("@every 90s", at - timedelta(hours=40, microseconds=999_999), HOUR),
    ]


def probes(transition: Transition, reach: timedelta) -> tuple[datetime, ...]:
    """Instants around the transition and around both ends of a fold."""
    jump = transition.jump
    distances = {timedelta(0), TICK, SECOND, MINUTE, jump // 2, jump - SECOND, jump, jump + SECOND, DAY - jump, DAY}
    both = {sign * distance for distance in distances for sign in (-1, 1) if abs(distance) < reach}
    return tuple(sorted(transition.at + distance for distance in both))


def seconds_reach(transition: Transition) -> timedelta:
    return transition.jump + 10 * MINUTE


def _fixed(transition: Transition) -> Iterator[str]:
    """Before, in, at both edges of and after the hole or the repetition."""
    low, middle, high = _ends(transition)
    jump = transition.jump
    for time in (low, middle, high):
        yield from (_at(time + distance) for distance in (-MINUTE, timedelta(0), MINUTE))
    for time in (low - jump, low - HOUR, high + jump, high + HOUR, low + 12 * HOUR):
        yield _at(time)
    yield from ("@daily", "@midnight", "@weekly", "@MONTHLY", "@yearly")


def _days(transition: Transition) -> Iterator[str]:
    low, middle, high = _ends(transition)
    for time in dict.fromkeys((middle, high)):
        clock = f"{time.minute} {time.hour}"
        day, month, weekday = time.day, time.month, _weekday(time)
        yesterday, tomorrow = time - DAY, time + DAY
        yield f"{clock} {day} {month} *"
        yield f"{clock} {day} * {_weekday(tomorrow)}"
        yield f"{clock} {yesterday.day} {yesterday.month} *"
        yield f"{clock} {tomorrow.day} * *"
        yield f"{clock} {yesterday.day},{tomorrow.day} * *"
        yield f"{clock} * * {weekday}"
        yield f"{clock} * * {_weekday(yesterday)}"
        yield f"{clock} * {month} {_weekday(tomorrow)}"
        yield f"{clock} * {MONTHS[month - 1].title()} {WEEKDAYS[weekday].upper()}"
        yield f"{clock} */2 * {weekday}"
        yield f"{clock} 1/2 * */3"
        yield f"{clock} *,{day} * {weekday}"
        yield f"{clock} * * {weekday}#{_place(time)}"
        yield f"{clock} * * {weekday or 7}L"
        yield f"{clock} * * {WEEKDAYS[_weekday(tomorrow)]}#{_place(tomorrow)},{WEEKDAYS[weekday]}L"
    clock = f"{middle.minute} {middle.hour}"
    yield from (f"{clock} * * 5-7", f"{clock} * * mon-fri", f"{clock} L * *", f"{clock} LW * *", f"{clock} 1,L * *")
    yield from (f"{clock} 1 * {_weekday(low)}", f"{clock} 25-31 {low.month} 0,6")


def _lists(transition: Transition) -> Iterator[str]:
    """Several times in and across it, none of them wild."""
    low, middle, high = _ends(transition)
    over = _hours(low - HOUR, high + HOUR)
    yield f"{low.minute},{middle.minute} {_hours(low, middle)} * * *"
    yield f"{middle.minute},{(high - MINUTE).minute} {_hours(middle, high - MINUTE)} * * *"
    yield f"{low.minute},{high.minute} {_hours(low, high)} * * *"
    yield f"{(low - MINUTE).minute},{high.minute} {_hours(low - HOUR, high)} * * *"
    yield f"0 {over} * * *"
    yield f"0,30 {over} * * *"
    yield f"{middle.minute} {over} * * *"
    yield f"0-59/15 {low.hour} * * *"
    yield f"{low.minute}/20 {low.hour}-23/2 * * *"
    yield f"0,* {high.hour} * * {_weekday(high)}"
    yield f"{middle.minute} 0-23 * * *"
    yield f"0 0-23/{max(1, int(transition.jump / HOUR))} * * *"
    yield "30  0/3\t* * *"


def _wild(transition: Transition) -> Iterator[str]:
    low, middle, high = _ends(transition)
    for hour in dict.fromkeys((low.hour, high.hour)):
        yield from (f"*/5 {hour} * * *", f"*,7 {hour} * * *", f"*/45 {hour} * * {_weekday(low)}")
    yield from (f"{time.minute} * * * *" for time in (low, middle, high - MINUTE))
    yield from ("0 */2 * * *", "0 */5 * * *", f"{middle.minute} *,3 {middle.day} * *", "@hourly")
    yield f"0,30 */{max(1, middle.hour)} * * *"


def _dense(transition: Transition) -> Iterator[str]:
    low, _, high = _ends(transition)
    yield from ("* * * * *", "*/15 * * * *", "*/7 * * * *", f"*/10 {_hours(low - HOUR, high + HOUR)} * * *")
    yield from ("0-59 0-23 * * *", "3/15 0-23 * * *")


def _six(transition: Transition) -> Iterator[str]:
    low, middle, high = _ends(transition)
    for time in (low, middle, high):
        yield from (
            f"{second} {_at(time + ahead)}" for second, ahead in ((59, -MINUTE), (0, 0 * MINUTE), (1, 0 * MINUTE))
        )
    yield f"30 {_at(low - MINUTE)}"
    yield f"30 {_at(high - MINUTE)}"
    yield f"0,15,59 {_at(middle)}"
    yield f"0-59 {_at(low)}"
    yield f"7/20 {_at(high - MINUTE)}"
    yield f"59 59 {_hours(low - HOUR, high + HOUR)} * * *"
    yield f"30 0-59/10 {_hours(low - HOUR, high)} {low.day} * {_weekday(high)}"
    yield from (f"* {_at(low)}", f"*/20 {_at(middle)}", f"*/31 {_at(high - MINUTE)}")
    yield from ("*/20 * * * * *", "15 */10 * * * *", f"45 {middle.minute} * * * *", f"0 */20 {low.hour} * * *")


def _ends(transition: Transition) -> tuple[datetime, datetime, datetime]:
    low, high = sorted((transition.leaves, transition.enters))
    return low, low + transition.jump // 2 // MINUTE * MINUTE, high


def _at(time: datetime) -> str:
    return f"{time.minute} {time.hour} * * *"


def _hours(first: datetime, last: datetime) -> str:
    """A range, or a list if it runs over midnight."""
    if first.hour <= last.hour:
        return f"{first.hour}-{last.hour}" if first.hour < last.hour else f"{first.hour}"
    return ",".join(str(hour) for hour in _wrapped(first.hour, last.hour))


def _wrapped(first: int, last: int) -> Iterable[int]:
    return [*range(first, 24), *range(last + 1)]


def _weekday(time: datetime) -> int:
    return time.isoweekday() % 7


def _place(time: datetime) -> int:
    return (time.day + 6) // 7
