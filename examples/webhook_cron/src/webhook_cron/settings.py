"""What can be set, all of it through the environment: oncue's own settings, with the origin's defaults.

oncue reads DATABASE_URL, HTTP_ADDR and TICK_INTERVAL by itself. The rest of the origin's names are read here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from oncue import ConfigError, settings
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

OURS = {
    "redis_url": "REDIS_URL",
    "reconcile_enabled": "RECONCILE_ENABLED",
    "reconcile_interval": "RECONCILE_INTERVAL",
    "reconcile_threshold": "RECONCILE_THRESHOLD",
    "reconcile_batch_size": "RECONCILE_BATCH_SIZE",
}
NAMES = {**BARE_NAMES, **OURS}


def load(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings. A variable that is empty counts as not set. Raises ConfigError."""
    found = os.environ if environment is None else environment
    given = {name: value for name, value in found.items() if value.strip()}
    named = {_own(field): given[name] for field, name in OURS.items() if name in given and _own(field) not in given}
    usual = {_own(field): value for field, value in USUAL.items() if not _is_given(given, field)}
    try:
        return settings.load(environment={**usual, **named, **given, "ONCUE_ENV": "production"})
    except ConfigError as error:
        raise ConfigError(_in_their_names(str(error), named), error.exit_code) from None


def _own(field: str) -> str:
    return f"ONCUE_{field.upper()}"


def _is_given(given: Mapping[str, str], field: str) -> bool:
    return _own(field) in given or NAMES.get(field, "") in given


def _in_their_names(complaint: str, named: Mapping[str, str]) -> str:
    """A complaint names the variable that was set."""
    for field, name in OURS.items():
        if _own(field) in named:
            complaint = complaint.replace(f"{_own(field)}:", f"{name}:")
    return complaint
