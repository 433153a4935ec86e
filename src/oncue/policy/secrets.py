"""What a secret looks like: one of Standard Webhooks, or a reference to a variable of the environment.

A reference may name only variables with a prefix of their own. Otherwise a header of a webhook could carry any variable
of the worker to any server, the address of the database with its password for one. No complaint repeats a value.
"""

from __future__ import annotations

import base64
import re

SECRET_PREFIX = "whsec_"
FEWEST_BYTES, MOST_BYTES = 24, 64
REFERENCE_PREFIX = "env:"
VARIABLE_PREFIX = "ONCUE_SECRET_"
EXPECTED_SECRET = f"`{SECRET_PREFIX}` followed by {FEWEST_BYTES} to {MOST_BYTES} bytes in base64"
EXPECTED_REFERENCE = f"`{REFERENCE_PREFIX}{VARIABLE_PREFIX}` followed by 1 to 100 letters, digits and underscores"

_SECRET = re.compile(r"whsec_([A-Za-z0-9+/]{1,100})={0,2}")
_VARIABLE = re.compile(r"ONCUE_SECRET_[A-Za-z0-9_]{1,100}")


def signing_key(secret: str, name: str = "secret") -> bytes:
    """The bytes that a secret stands for, with or without the padding of base64. Raises ValueError, naming it."""
    found = _SECRET.fullmatch(secret) if isinstance(secret, str) else None
    key = _decoded(found[1]) if found else None
    if key is None or not FEWEST_BYTES <= len(key) <= MOST_BYTES:
        raise ValueError(f"{name}: expected {EXPECTED_SECRET}")
    return key


def _decoded(digits: str) -> bytes | None:
    try:
        return base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)
    except ValueError:
        return None


def is_reference(value: str) -> bool:
    """Whether a value means a variable of the environment, one that may be read or not."""
    return value.startswith(REFERENCE_PREFIX)


def variable(reference: str, name: str = "secret") -> str:
    """The variable that a reference names. Raises ValueError if it is not one of those that may be read."""
    found = reference.removeprefix(REFERENCE_PREFIX)
    if not is_reference(reference) or not _VARIABLE.fullmatch(found):
        raise ValueError(f"{name}: expected {EXPECTED_REFERENCE}")
    return found
