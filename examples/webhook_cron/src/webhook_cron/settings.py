"""What can be set, all of it through the environment: oncue's own settings, with the origin's defaults.

oncue reads DATABASE_URL, HTTP_ADDR, TICK_INTERVAL, REDIS_URL and RECONCILE_… by itself, and complains by their names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from oncue import settings
from oncue.settings import BARE_NAMES, Settings
from webhook_cron.app import NAME

USUAL = {
    "http_addr": ":8080",
    "tick_interval": "30s",
    "queues": "webhooks",
    "node_name": NAME,
    "buffer": "100",
    "webhooks_breaker": "0",
    "reconcile_enabled": "false",
    "start_timeout": "0s",
}
"""For what the environment does not say. Breaker off: retries come at the times of the ladder and at no others. A
database that is away at the start ends the process at once: systemd starts it again."""


def load(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings. A variable that is empty counts as not set. Raises ConfigError."""
    found = os.environ if environment is None else environment
    given = {name: value for name, value in found.items() if value.strip()}
    usual = {f"ONCUE_{field.upper()}": value for field, value in USUAL.items() if not _is_given(given, field)}
    return settings.load(environment={**usual, **given, "ONCUE_ENV": "production"})


def _is_given(given: Mapping[str, str], field: str) -> bool:
    return f"ONCUE_{field.upper()}" in given or BARE_NAMES.get(field, "") in given
