"""Who types: the name under which the audit log has what a command changes."""

from __future__ import annotations

import os


def actor() -> str:
    """`cli:` and the user of the operating system; a number where the system knows no name."""
    return f"cli:{_user()}"


def _user() -> str:
    try:
        import pwd

        name = pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError, AttributeError):  # no such system, or a container without a list of users
        name = os.environ.get("USERNAME", "")
    usable = name.isprintable() and 0 < len(name.strip()) <= 100
    return name.strip() if usable else str(os.getuid() if hasattr(os, "getuid") else "somebody")
