"""Addresses of databases, as people may see them."""

from __future__ import annotations

import re

_PASSWORD = re.compile(r"(://[^:/@\s]*):[^\s'\"]*@|([?&](?:password|sslpassword)=)[^&\s'\"]*")


def hidden(text: str) -> str:
    """The same without the passwords of any addresses in it."""
    return _PASSWORD.sub(lambda found: f"{found[1]}:***@" if found[1] else f"{found[2]}***", text)
