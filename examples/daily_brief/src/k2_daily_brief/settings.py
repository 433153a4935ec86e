"""What can be set, all of it through the environment. oncue has its own settings: DATABASE_URL, ONCUE_…"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from oncue.policy.durations import seconds

SAMPLE_FEEDS = ("courier", "wire", "gazette", "slow", "broken", "huge")
MAX_RUNTIME = ("ONCUE_MAX_RUNTIME", "MAX_RUNTIME_THRESHOLD")
DEFAULT_WEB_URL = "http://127.0.0.1:8000"


class SettingsError(ValueError):
    """A variable has a value that makes no sense; the message names it."""


@dataclass(frozen=True, slots=True)
class Settings:
    feeds: tuple[str, ...]
    feed_timeout: float = 10.0
    feed_max_bytes: int = 2_000_000
    feeds_at_once: int = 8
    similarity: float = 0.21
    ingest_cron: str = "*/15 * * * *"
    cluster_cron: str = "5-59/15 * * * *"
    retention_cron: str = "30 3 * * *"
    timezone: str = "Europe/Berlin"
    retention_days: int = 30
    max_runtime: str | None = None
    """How long a run may take, for all jobs alike; None leaves it to each job."""


def load(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings. A variable that is empty counts as not set."""
    given = {name: value for name, value in (environment or os.environ).items() if value.strip()}
    defaults = Settings(feeds=())
    return Settings(
        feeds=_feeds(given),
        feed_timeout=_number(given, "K2_FEED_TIMEOUT", defaults.feed_timeout),
        feed_max_bytes=int(_number(given, "K2_FEED_MAX_BYTES", defaults.feed_max_bytes)),
        feeds_at_once=int(_number(given, "K2_FEEDS_AT_ONCE", defaults.feeds_at_once)),
        similarity=_number(given, "K2_SIMILARITY", defaults.similarity),
        ingest_cron=given.get("K2_INGEST_CRON", defaults.ingest_cron),
        cluster_cron=given.get("K2_CLUSTER_CRON", defaults.cluster_cron),
        retention_cron=given.get("K2_RETENTION_CRON", defaults.retention_cron),
        timezone=_timezone(given.get("K2_TIMEZONE", defaults.timezone)),
        retention_days=int(_number(given, "K2_RETENTION_DAYS", defaults.retention_days)),
        max_runtime=_max_runtime(given),
    )


def _feeds(given: Mapping[str, str]) -> tuple[str, ...]:
    """K2_FEEDS is a file with one address a line, or the addresses themselves; without it, the samples."""
    if "K2_FEEDS" not in given:
        web_url = given.get("K2_WEB_URL", DEFAULT_WEB_URL).rstrip("/")
        return tuple(f"{web_url}/samples/{name}.xml" for name in SAMPLE_FEEDS)
    text = given["K2_FEEDS"].strip()
    addresses = _addresses(text) if "://" in text else _addresses_of_file(Path(text))
    if not addresses:
        raise SettingsError("K2_FEEDS: expected at least one address")
    return addresses


def _addresses_of_file(path: Path) -> tuple[str, ...]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"K2_FEEDS: expected addresses, or a file with one a line; {error}") from None
    return _addresses(",".join(line for line in lines if not line.lstrip().startswith("#")))


def _addresses(text: str) -> tuple[str, ...]:
    addresses = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for address in addresses:
        if not address.startswith(("http://", "https://")):
            raise SettingsError(f"K2_FEEDS: expected addresses that begin with http:// or https://, not {address!r}")
    return addresses


def _number(given: Mapping[str, str], name: str, default: float) -> float:
    try:
        number = float(given.get(name, default))
    except ValueError:
        raise SettingsError(f"{name}: expected a number, not {given[name]!r}") from None
    if not 0 < number < 1e12:
        raise SettingsError(f"{name}: expected a number above 0, not {given[name]!r}")
    return number


def _max_runtime(given: Mapping[str, str]) -> str | None:
    """oncue's own setting. Its default would not do here: it is an hour, and these jobs take minutes."""
    name = next((name for name in MAX_RUNTIME if name in given), None)
    if name is None:
        return None
    try:
        long = seconds(given[name], name) > 0
    except ValueError as error:
        raise SettingsError(str(error)) from None
    if not long:
        raise SettingsError(f"{name}: expected a duration above 0, not {given[name]!r}")
    return given[name]


def _timezone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise SettingsError(f"K2_TIMEZONE: expected a time zone such as Europe/Berlin, not {name!r}") from None
    return name
