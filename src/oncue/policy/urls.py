"""The URLs that webhooks may have."""

from __future__ import annotations

from oncue.errors import InvalidWebhook


def checked_url(value: object, field: str = "url") -> str:
    if not isinstance(value, str) or not value.lower().startswith(("http://", "https://")):
        raise InvalidWebhook(field, "expected a URL that begins with http:// or https://")
    return value
