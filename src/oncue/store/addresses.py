"""Addresses of databases, as people may see them, and the names of schemas."""

from __future__ import annotations

import re

_PASSWORD = re.compile(r"(://[^:/@\s]*):[^\s'\"]*@|([?&](?:password|sslpassword)=)[^&\s'\"]*")


def hidden(text: str) -> str:
    """The same without the passwords of any addresses in it."""
    return _PASSWORD.sub(lambda found: f"{found[1]}:***@" if found[1] else f"{found[2]}***", text)


_SCHEMA = re.compile(r"[a-z_][a-z0-9_]*")
LONGEST_SCHEMA = 40
"""Its notification channel has a name of at most 63 bytes."""


def checked_schema(name: str) -> str:
    """The name of a schema of PostgreSQL. Raises ValueError if it cannot be one of ours."""
    usable = isinstance(name, str) and _SCHEMA.fullmatch(name) and len(name) <= LONGEST_SCHEMA
    if not usable or name.startswith("pg_") or name == "information_schema":
        raise ValueError(
            f"schema: expected 1 to {LONGEST_SCHEMA} lower-case letters, digits and underscores that begin with a "
            f"letter or an underscore, and not with pg_, not {name!r}"
        )
    return name
