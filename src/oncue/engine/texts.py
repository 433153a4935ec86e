"""Texts of handlers and errors, as the database keeps them."""

from __future__ import annotations


def bounded(text: str, limit: int) -> str:
    """At most `limit` bytes of text that every database takes: no NUL, no lone surrogates."""
    clean = text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace")
    if len(clean) <= limit:
        return clean.decode()
    return "… " + clean[-(limit - 4) :].decode("utf-8", "ignore")
