"""Priorities that work well together. The default stays 0; aging lets nothing starve."""

from __future__ import annotations

BACKGROUND = 0
"""No user waits for it."""

SCHEDULED = 20
"""Work that a clock asks for: 10 to 30."""

USER_REQUESTED = 60
"""A person waits for it: 50 to 70."""

CRITICAL_MAX_RETRIES = 10
"""For targets that must be reached in the end; 3 to 5 retries are enough for the rest."""
