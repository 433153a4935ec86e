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
from oncue.policy.urls import checked_parts
from oncue.webhooks.signing import known_key

SHOWN_HEADERS = frozenset({
    "accept", "accept-charset", "accept-encoding", "accept-language", "cache-control", "content-language",
    "content-length", "content-type", "host", "user-agent", "webhook-id", "webhook-timestamp",
})  # fmt: skip
"""Headers whose values are no secret. Any other may carry one."""
HOSTS_SUFFIX = "_HOSTS"
"""`ONCUE_SECRET_ORDERS_HOSTS=erp.example,.shop.example` binds `ONCUE_SECRET_ORDERS` to these hosts."""
_FINGERPRINT_BYTES = 4


def resolved_secrets(secrets: Iterable[str], environ: Mapping[str, str], url: str | None = None) -> tuple[str, ...]:
    """The signing secrets that `sign` takes, for a request to this URL. Raises UnusableSecret, naming the variable, and
    ValueError."""
    return tuple(_resolved_secret(secret, f"secret {n}", environ, url) for n, secret in enumerate(secrets, 1))


def _resolved_secret(secret: str, name: str, environ: Mapping[str, str], url: str | None) -> str:
    if not is_reference(secret):
        known_key(secret, name)
        return secret
    variable_name = variable(secret, name)
    value = _value(variable_name, environ, url)
    try:
        known_key(value, name)
    except ValueError:
        raise UnusableSecret(variable_name, f"expected {EXPECTED_SECRET}") from None
    return value


def resolved_headers(headers: Mapping[str, str], environ: Mapping[str, str], url: str | None = None) -> dict[str, str]:
    """The headers as they are sent to this URL. Raises UnusableSecret, naming the variable, and ValueError."""
    return {name: _resolved_value(value, f"headers: {name}", environ, url) for name, value in headers.items()}


def _resolved_value(value: str, name: str, environ: Mapping[str, str], url: str | None) -> str:
    if not is_reference(value):
        return value
    variable_name = variable(value, name)
    found = _value(variable_name, environ, url)
    if not is_field_value(found):
        raise UnusableSecret(variable_name, "expected printable ASCII, without spaces or line breaks at its ends")
    return found


def _value(variable_name: str, environ: Mapping[str, str], url: str | None) -> str:
    value = environ.get(variable_name)
    if not value:
        raise UnusableSecret(variable_name, "a webhook needs this variable, and the worker's environment lacks it")
    if variable_name.endswith(HOSTS_SUFFIX) and variable_name.removesuffix(HOSTS_SUFFIX) in environ:
        raise UnusableSecret(variable_name, "it binds a secret to its hosts, and is none itself")
    hosts = environ.get(f"{variable_name}{HOSTS_SUFFIX}")
    if hosts is not None and url is not None:
        _check_host(variable_name, hosts, checked_parts(url).host)
    return value


def _check_host(variable_name: str, hosts: str, host: str) -> None:
    """A secret may be bound to hosts by the operator of the workers: else a caller of the API who may change webhooks
    could have it sent, or used for a signature, wherever he likes."""
    listed = [entry.strip().lower() for entry in hosts.split(",")]
    if host not in listed and not any(entry.startswith(".") and host.endswith(entry) for entry in listed):
        raise UnusableSecret(variable_name, f"{variable_name}{HOSTS_SUFFIX} does not list the host {host}")


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
