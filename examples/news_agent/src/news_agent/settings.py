"""What can be set, all of it through the environment: the origin's names, and where the model is.

oncue reads DATABASE_URL, HTTP_ADDR and ONCUE_… by itself; `oncue_settings` adds the defaults of this program.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from oncue import ConfigError
from oncue import settings as oncue_own
from oncue.settings import Settings as OncueSettings

USUAL = {"HTTP_ADDR": "127.0.0.1:8080"}
"""For what the environment does not say."""


class SettingsError(ConfigError):
    """A variable has a value that makes no sense; the message names it."""


@dataclass(frozen=True, slots=True)
class Settings:
    tick_ms: float = 60_000
    max_concurrency: int = 20
    job_timeout_ms: float = 60_000
    window_minutes: float = 60
    retry_delay_minutes: float = 10
    model_url: str | None = None
    """None: the local model."""
    model_timeout_ms: float = 30_000
    model_token: str | None = None
    limit_is_given: bool = False
    """Whether MAX_CONCURRENCY was set, and so replaces what an operator has set."""


def load(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings. A variable that is empty counts as not set. Raises SettingsError."""
    given, usual = _given(environment), Settings()
    return Settings(
        tick_ms=_number(given, "TICK_MS", usual.tick_ms, 10, 3_600_000),
        max_concurrency=_whole(given, "MAX_CONCURRENCY", usual.max_concurrency, 1, 10_000),
        job_timeout_ms=_number(given, "JOB_TIMEOUT_MS", usual.job_timeout_ms, 100, 86_400_000),
        window_minutes=_number(given, "WINDOW_MINUTES", usual.window_minutes, 1, 1440),
        retry_delay_minutes=_number(given, "RETRY_DELAY_MINUTES", usual.retry_delay_minutes, 1 / 60, 1440),
        model_url=_url(given, "NEWS_MODEL_URL"),
        model_timeout_ms=_number(given, "NEWS_MODEL_TIMEOUT_MS", usual.model_timeout_ms, 1, 86_400_000),
        model_token=given.get("NEWS_MODEL_TOKEN"),
        limit_is_given="MAX_CONCURRENCY" in given,
    )


def oncue_settings(ours: Settings, environment: Mapping[str, str] | None = None) -> OncueSettings:
    """oncue's own settings, with this program's tick and defaults where the environment says nothing."""
    given = _given(environment)
    told = {"ONCUE_TICK_MS": f"{ours.tick_ms:.0f}"}
    if "ONCUE_HTTP_ADDR" not in given:
        told |= USUAL
    return oncue_own.load(environment={**told, **given})


def _given(environment: Mapping[str, str] | None) -> dict[str, str]:
    found = os.environ if environment is None else environment
    return {name: value.strip() for name, value in found.items() if value.strip()}


def _number(given: Mapping[str, str], name: str, usual: float, least: float, most: float) -> float:
    try:
        number = float(given.get(name, usual))
    except ValueError:
        raise SettingsError(f"{name}: expected a number, not {given[name]!r:.60}") from None
    if not least <= number <= most:
        raise SettingsError(f"{name}: expected a number from {least:g} to {most:g}, not {given[name]!r:.60}")
    return number


def _whole(given: Mapping[str, str], name: str, usual: int, least: int, most: int) -> int:
    number = _number(given, name, usual, least, most)
    if number != int(number):
        raise SettingsError(f"{name}: expected a whole number, not {given[name]!r:.60}")
    return int(number)


def _url(given: Mapping[str, str], name: str) -> str | None:
    address = given.get(name)
    if address is None:
        return None
    try:
        parts = urlsplit(address)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or parts.username is not None:
        raise SettingsError(
            f"{name}: expected an address such as https://model.example/digest, without a user name or a password"
        )
    return address
