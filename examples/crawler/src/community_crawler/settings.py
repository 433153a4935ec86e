"""What can be set, all of it through the environment. oncue has its own settings: DATABASE_URL, ONCUE_…"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

SITE = "http://127.0.0.1:8090"
"""Where the sample site answers."""


class SettingsError(ValueError):
    """A variable has a value that makes no sense; the message names it."""


@dataclass(frozen=True, slots=True)
class Settings:
    site: str = SITE
    at_once: int = 4
    delay: float = 1.0
    timeout: float = 10.0
    max_bytes: int = 500_000
    retry_delay: float = 60.0
    reset_after_min: float = 15.0
    stale_days: float = 30.0
    stale_check: str = "@every 6h"


def load(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings. A variable that is empty counts as not set."""
    found = os.environ if environment is None else environment
    given = {name: value for name, value in found.items() if value.strip()}
    defaults = Settings()
    return Settings(
        site=origin(given.get("CRAWLER_SITE", defaults.site), "CRAWLER_SITE"),
        at_once=int(_number(given, "CRAWLER_AT_ONCE", defaults.at_once, least=1)),
        delay=_number(given, "CRAWLER_DELAY", defaults.delay),
        timeout=_number(given, "CRAWLER_TIMEOUT", defaults.timeout),
        max_bytes=int(_number(given, "CRAWLER_MAX_BYTES", defaults.max_bytes, least=1)),
        retry_delay=_number(given, "CRAWLER_RETRY_DELAY", defaults.retry_delay),
        reset_after_min=_number(given, "RESET_CRAWLING_AFTER_MIN", defaults.reset_after_min),
        stale_days=_number(given, "STALE_DAYS", defaults.stale_days),
        stale_check=given.get("CRAWLER_STALE_CHECK", defaults.stale_check),
    )


def origin(address: str, name: str) -> str:
    """The part of an address that says which site it is: scheme, host and port."""
    parts = urlsplit(address.strip())
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if parts.scheme not in ("http", "https") or not host or parts.username is not None:
        raise SettingsError(f"{name}: expected an address such as {SITE}, not {address!r}")
    usual = {"http": 80, "https": 443}[parts.scheme]
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}" + ("" if port in (None, usual) else f":{port}")


def _number(given: Mapping[str, str], name: str, default: float, least: float = 0.0) -> float:
    try:
        number = float(given.get(name, default))
    except ValueError:
        raise SettingsError(f"{name}: expected a number, not {given[name]!r}") from None
    if not (number > 0 and least <= number < 1e9):
        raise SettingsError(f"{name}: expected a number above 0, not {given[name]!r}")
    return number
