"""Values that are nearly right, or not at all: texts, numbers, instants, durations, cron expressions, any JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Make = Callable[[Random], Any]

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia")
POLICIES = ("debian", "once", "all")
ODD_ZONES = (
    "",
    "Mars/Olympus",
    "europe/berlin",
    "../../etc/passwd",
    "UTC+25",
    "Europe/Berlin\x00",
    "localtime",
    " UTC",
)
UNITS = ("ns", "us", "µs", "ms", "s", "m", "h", "d", "w", "", "S", "sec")
ALPHABETS = (
    "abz",
    "09",
    " \t\n\r\x0b\u00a0\u2028",
    "äßÉ中",
    "\U0001f4a9\U0001f469\u200d\U0001f52c",
    "\u202e\u0301\ufeff",
)
HOSTILE = (
    "", " ", "'", '"', "';--", "1; drop table oncue_jobs", "%s%n", "${jndi:ldap://x}", "{{7*7}}", "<script>", "../..",
    "null", "None", "true", "NaN", "-0", "\x00", "a\x00b", "\ud800", "\udfff\ud800", "\x7f\x80\x9f", "\ufffe\uffff",
    "a" * 129, "é" * 512, "x" * 5000, "%", "_", "\\", "*", "a,b", "a b", "0", "1", "9" * 30, "٣", "²", "1_000", "+1",
)  # fmt: skip
NUMBERS = (
    0, -1, 1, 2, 100, 101, 1000, 1001, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**30,
    10**4000, 0.5, 1.0, -0.0, 1e-300, 1e308, 1e19, 36525 * 86400, 36525 * 86400 + 1, 73.0, True, False,
)  # fmt: skip


def text(dice: Random) -> str:
    if dice.random() < 0.5:
        return dice.choice(HOSTILE)
    return "".join(dice.choice(dice.choice(ALPHABETS)) for _ in range(dice.choice((1, 3, 8, 30, 140))))


def number(dice: Random) -> float:
    return dice.choice(NUMBERS) if dice.random() < 0.7 else dice.randint(-(10**6), 10**6)


def whatever(dice: Random, depth: int = 0) -> Any:
    """Any JSON value."""
    kinds: list[Make] = [text, number, lambda _: None, lambda d: d.random() < 0.5]
    if depth < 3:
        kinds.append(lambda d: [whatever(d, depth + 1) for _ in range(d.randint(0, 3))])
        kinds.append(lambda d: {text(d): whatever(d, depth + 1) for _ in range(d.randint(0, 3))})
    return dice.choice(kinds)(dice)


# --- time -----------------------------------------------------------------------------------------------------------

YEARS = (
    "0001",
    "0000",
    "1582",
    "1900",
    "1969",
    "1970",
    "2000",
    "2024",
    "2026",
    "2038",
    "2100",
    "8999",
    "9000",
    "9999",
    "10000",
)
DAYS = ("01-01", "12-31", "02-28", "02-29", "02-30", "03-29", "10-25", "00-00", "13-01", "06-31", "W01-1")
TIMES = ("00:00:00", "23:59:59.999999", "23:59:60", "24:00:00", "02:30:00", "2:3", "12", "12:00:00.1234567", "25:00")
OFFSETS = (
    "Z",
    "",
    "+00:00",
    "-00:00",
    "+23:59",
    "-23:59",
    "+24:00",
    "+14:00",
    "-12:00",
    "+0530",
    " 02:00",
    "z",
    "UTC",
    "+00:00:01",
)
MOMENTS = (
    "now",
    "NOW",
    "today",
    "-0s",
    "-1h",
    "-7d",
    "-100y",
    "--1h",
    "-",
    "-100000000d",
    "-1ns",
    "+1h",
    "1h",
    "0",
    "2026",
)


def instant(dice: Random) -> str:
    if dice.random() < 0.3:
        return dice.choice(MOMENTS)
    if dice.random() < 0.2:
        return f"{dice.choice(YEARS)}-{dice.choice(DAYS)}"
    glue = dice.choice(("T", "T", "T", " ", "t", "_"))
    return f"{dice.choice(YEARS)}-{dice.choice(DAYS)}{glue}{dice.choice(TIMES)}{dice.choice(OFFSETS)}"


def duration(dice: Random) -> Any:
    if dice.random() < 0.3:
        return number(dice)
    amounts = ("0", "1", "1.5", ".5", "5.", "90", "99999999999", "9" * 400, "-1", "1e3", "٣", "")
    return "".join(f"{dice.choice(amounts)}{dice.choice(UNITS)}" for _ in range(dice.choice((1, 1, 1, 2, 4))))


# --- cron -----------------------------------------------------------------------------------------------------------

FIELDS: Sequence[tuple[int, int, Sequence[str]]] = (
    (0, 59, ()), (0, 23, ()), (1, 31, ("L", "LW", "15W", "L-3")),
    (1, 12, ("JAN", "dec", "FEB-JUN")), (0, 7, ("MON-FRI", "sun", "5L", "3#2", "1#5", "FRI-MON", "1#6")),
)  # fmt: skip
SHORTHANDS = (
    "@daily", "@hourly", "@midnight", "@yearly", "@annually", "@monthly", "@weekly", "@reboot", "@never", "@",
    "@every 90s", "@every 1h30m", "@every 0s", "@every 1ns", "@every -5m", "@every 200y", "@every", "@every  5m ",
    "@EVERY 5m", "@every 36525d", "@every 0.1s",
)  # fmt: skip


def cron(dice: Random) -> str:
    """A cron expression: often a good one, often nearly."""
    if dice.random() < 0.2:
        return dice.choice(SHORTHANDS)
    wanted = FIELDS if dice.random() < 0.7 else (FIELDS[0], *FIELDS)
    fields = [_field(dice, *field) for field in wanted]
    if dice.random() < 0.1:
        fields.insert(dice.randrange(len(fields)), dice.choice(("*", "2026", "?", "")))
    if dice.random() < 0.1:
        fields.pop()
    return dice.choice((" ",) * 8 + ("  ", "\t", "\n", "\u00a0")).join(fields)


def _field(dice: Random, low: int, high: int, words: Sequence[str]) -> str:
    return ",".join(_term(dice, low, high, words) for _ in range(dice.choice((1, 1, 1, 1, 2, 3, 70))))


def _term(dice: Random, low: int, high: int, words: Sequence[str]) -> str:
    def at() -> int:
        return dice.randint(low, high) if dice.random() < 0.95 else dice.choice((low - 1, high + 1, 10**9, -1))

    kinds: list[Callable[[], str]] = [
        lambda: "*", lambda: "*", lambda: str(at()), lambda: str(at()),
        lambda: f"{at()}-{at()}", lambda: f"*/{dice.choice((1, 2, 5, 15, 0, 100))}",
        lambda: f"{at()}-{at()}/{dice.randint(0, 9)}", lambda: dice.choice((*words, "*")),
        lambda: dice.choice(("?", "", "*/", "/5", "1-", "a", "**", "1.5", "H", "0x1", "٣", "1-2-3", "*/-1"))
        if dice.random() < 0.2 else "*",
    ]  # fmt: skip
    return dice.choice(kinds)()
