"""Signatures of deliveries, by the scheme of Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`.

The id is the same for all attempts of a delivery, and receivers tell repeats by it; the timestamp is that of the
attempt, so that a recorded request is of no use later. While a secret is being replaced there are two: each makes a
signature, and a receiver that knows either of them is content. Neither the id nor the timestamp may have a full stop,
since the same signature would then fit a message that is cut at another one.
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from math import floor

from oncue.clock import wall
from oncue.errors import WebhookVerificationError
from oncue.policy.durations import Duration, describe, seconds
from oncue.policy.secrets import SECRET_PREFIX, signing_key

ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER = "webhook-id", "webhook-timestamp", "webhook-signature"
TOLERANCE = "5m"
NEW_SECRET_BYTES = 32
_VERSION = "v1"
_ID = re.compile(r"[!-\-/-~]{1,256}")
_EXPECTED_ID = "1 to 256 printable characters of ASCII, without spaces and full stops"
_MOST_DIGITS = 15
"""Of a timestamp: enough for thirty million years, and few enough for a float."""


def new_secret(random_bytes: Callable[[int], bytes]) -> str:
    """A fresh signing secret, made of bytes such as `secrets.token_bytes` gives."""
    return SECRET_PREFIX + base64.b64encode(random_bytes(NEW_SECRET_BYTES)).decode()


def sign(secrets: str | Sequence[str], id: str, timestamp: datetime, body: bytes | str) -> dict[str, str]:
    """The headers of a delivery: its id, the time of this attempt, and a signature for each secret.

    Without a secret there is no signature. Raises ValueError for what cannot be signed, without repeating a secret.
    """
    keys = _keys(secrets)
    if not _ID.fullmatch(id):
        raise ValueError(f"id: expected {_EXPECTED_ID}, not {id!r:.100}")
    at = str(floor(_aware(timestamp, "timestamp").timestamp()))
    headers = {ID_HEADER: id, TIMESTAMP_HEADER: at}
    if keys:
        headers[SIGNATURE_HEADER] = " ".join(_signatures(keys, id, at, body))
    return headers


def verify(
    body: bytes | str,
    headers: Mapping[str, str],
    secrets: str | Sequence[str],
    *,
    tolerance: Duration = TOLERANCE,
    now: datetime | None = None,
) -> None:
    """Return if the request is genuine and fresh; raise WebhookVerificationError if not.

    `body` is the request's body as it arrived, before it was parsed. `secrets` is one secret or several, any of which
    may have signed. The timestamp may be off by `tolerance` in either direction from `now`, which is the host's clock
    unless it is given. A request that was recorded passes again within the tolerance: remember the `webhook-id` of
    what was handled, and ignore it the next time. Raises ValueError if a secret or the tolerance is malformed: that is
    a mistake of the receiver's and not of the request.
    """
    if not isinstance(body, bytes | bytearray | memoryview | str):
        raise TypeError(f"body: expected the bytes as they arrived, before they were parsed, not {type(body).__name__}")
    keys, allowed = _keys(secrets), seconds(tolerance, "tolerance")
    if not keys:
        raise ValueError("secrets: expected at least one")
    current = wall() if now is None else _aware(now, "now")
    id, timestamp, given = (_header(headers, name) for name in (ID_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER))
    if not _ID.fullmatch(id):
        raise WebhookVerificationError(f"{ID_HEADER}: expected {_EXPECTED_ID}")
    _check_time(timestamp, current.timestamp(), allowed)
    # As bytes: to compare texts beyond ASCII raises an error.
    candidates = [text.encode(errors="replace") for text in given.split(" ") if text.startswith(f"{_VERSION},")]
    expected = [signature.encode() for signature in _signatures(keys, id, timestamp, body)]
    if not any(hmac.compare_digest(ours, theirs) for ours in expected for theirs in candidates):
        raise WebhookVerificationError(f"{SIGNATURE_HEADER}: no signature matches this body and these secrets")


def _keys(secrets: str | Sequence[str]) -> list[bytes]:
    listed = [secrets] if isinstance(secrets, str) else secrets
    if not isinstance(listed, Iterable) or isinstance(listed, bytes):  # such as a variable that is not set
        raise ValueError(f"secrets: expected one such as `whsec_…`, or a list of them, not {type(secrets).__name__}")
    return [known_key(secret, f"secret {number}") for number, secret in enumerate(listed, 1)]


def known_key(secret: str, name: str) -> bytes:
    """As `signing_key`, which takes as long as the signature itself."""
    return _decoded(secret, name) if isinstance(secret, str) else signing_key(secret, name)


_decoded = lru_cache(maxsize=1024)(signing_key)


def _signatures(keys: Sequence[bytes], id: str, timestamp: str, body: bytes | str) -> Iterator[str]:
    content = body.encode(errors="surrogatepass") if isinstance(body, str) else bytes(body)
    signed = f"{id}.{timestamp}.".encode() + content
    for key in keys:
        yield f"{_VERSION},{base64.b64encode(hmac.digest(key, signed, 'sha256')).decode()}"


def _aware(moment: datetime, name: str) -> datetime:
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise ValueError(f"{name}: expected a datetime with a time zone, not {moment!r:.100}")
    return moment


def _header(headers: Mapping[str, str], name: str) -> str:
    """Of a header that comes twice, the caller may read another value than the one that was signed."""
    values = [value for key, value in headers.items() if key.lower() == name]
    if not values or not values[0]:
        raise WebhookVerificationError(f"{name}: the header is missing")
    if len(values) > 1:
        raise WebhookVerificationError(f"{name}: the header is there {len(values)} times")
    return values[0]


def _check_time(timestamp: str, now: float, tolerance: float) -> None:
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= _MOST_DIGITS):
        raise WebhookVerificationError(f"{TIMESTAMP_HEADER}: expected seconds since 1970 as a whole number")
    age = now - int(timestamp)
    if abs(age) > tolerance:
        off = describe(round(abs(age)))
        away = f"too old: {off} ago" if age > 0 else f"too new: {off} in the future"
        raise WebhookVerificationError(f"{TIMESTAMP_HEADER}: {away}, and {describe(tolerance)} is allowed")
