"""Secrets of webhooks on their way out: read from the environment when a delivery is sent, hidden when it is shown.

A signing secret or a header's value may be a reference such as `env:ONCUE_SECRET_ORDERS`. The database then holds the
name of the variable alone. Import the names from here: a call `secrets.x()` looks like the standard library's dice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from oncue.errors import UnusableSecret
from oncue.policy.headers import HIDDEN, is_field_value
from oncue.policy.secrets import EXPECTED_SECRET, is_reference, variable
from oncue.webhooks.signing import known_key

SHOWN_HEADERS = frozenset({
    "accept", "accept-charset", "accept-encoding", "accept-language", "cache-control", "content-language",
    "content-length", "content-type", "host", "user-agent", "webhook-id", "webhook-timestamp",
})  # fmt: skip
"""Headers whose values are no secret. Any other may carry one."""
_FINGERPRINT_BYTES = 4


def resolved_secrets(secrets: Iterable[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """The signing secrets that `sign` takes. Raises UnusableSecret, naming the variable, and ValueError."""
    return tuple(_resolved_secret(secret, f"secret {n}", environ) for n, secret in enumerate(secrets, 1))


def _resolved_secret(secret: str, name: str, environ: Mapping[str, str]) -> str:
    if not is_reference(secret):
        known_key(secret, name)
        return secret
    variable_name = variable(secret, name)
    value = _value(variable_name, environ)
    try:
        known_key(value, name)
    except ValueError:
        raise UnusableSecret(variable_name, f"expected {EXPECTED_SECRET}") from None
    return value


def resolved_headers(headers: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The headers as they are sent. Raises UnusableSecret, naming the variable, and ValueError."""
    return {name: _resolved_value(value, f"headers: {name}", environ) for name, value in headers.items()}


def _resolved_value(value: str, name: str, environ: Mapping[str, str]) -> str:
    if not is_reference(value):
        return value
    variable_name = variable(value, name)
    found = _value(variable_name, environ)
    if not is_field_value(found):
        raise UnusableSecret(variable_name, "expected printable ASCII, without spaces or line breaks at its ends")
    return found


def _value(variable_name: str, environ: Mapping[str, str]) -> str:
    value = environ.get(variable_name)
    if not value:
        raise UnusableSecret(variable_name, "a webhook needs this variable, and the worker's environment lacks it")
    return value


def redacted_secrets(secrets: Iterable[str]) -> list[str]:
    """Signing secrets as answers show them: a reference as it is, of any other a fingerprint to tell two apart by."""
    return [secret if _is_shown_reference(secret) else f"{HIDDEN} {_fingerprint(secret)}" for secret in secrets]


def redacted(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers as answers show them. Values are hidden without a fingerprint: a password can be guessed by it."""
    return {name: value if _is_shown(name, value) else HIDDEN for name, value in headers.items()}


def _is_shown(name: str, value: str) -> bool:
    return name.lower() in SHOWN_HEADERS or _is_shown_reference(value)


def _is_shown_reference(value: str) -> bool:
    try:
        variable(value)
    except ValueError:
        return False
    return True


def _fingerprint(secret: str) -> str:
    return (
        hashlib.sha256(b"oncue webhook secret " + secret.encode(errors="replace")).digest()[:_FINGERPRINT_BYTES].hex()
    )
