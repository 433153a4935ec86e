"""The settings as they may be shown: without what is secret in them, durations as people write them."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from oncue.policy.durations import describe
from oncue.settings import Settings
from oncue.store.addresses import hidden

DURATIONS = (
    "poll_interval", "tick_interval", "lease", "beat", "drain_timeout", "start_timeout", "max_runtime", "retention",
    "ledger_retention", "aging_interval", "aging_after", "maintenance_interval", "session_lifetime",
    "http_header_timeout", "http_body_timeout", "http_keep_alive", "reconcile_interval", "reconcile_threshold",
    "cluster_quorum_timeout", "alert_running_for",
)  # fmt: skip
ADDRESSES = ("database_url", "redis_url")


def value_of(settings: Settings, name: str) -> Any:
    value = getattr(settings, name)
    if value is None:
        return None
    if name in ADDRESSES:
        return hidden(str(value))
    if name == "alert_webhook":
        return _without_path(str(value))
    if name in DURATIONS:
        return describe(value)
    return ",".join(value) if isinstance(value, tuple) else value


def _without_path(value: str) -> str:
    """The path of a webhook's address is often the secret itself."""
    if "://" not in value:
        return value
    parts = urlsplit(value)
    host = parts.hostname or ""
    port = "" if parts.port is None else f":{parts.port}"
    is_bare = parts.path in ("", "/") and not parts.query
    return f"{parts.scheme}://{host}{port}" + ("" if is_bare else "/***")
