"""What a job carries with it from enqueue to settle, resolved once and stored as text on its row."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from oncue.model import Delivery
from oncue.policy.retry import DEFAULT_POLICY, Policy, from_stored


@dataclass(frozen=True, slots=True)
class Options:
    delivery: Delivery = "at_least_once"
    timeout: float | None = None
    max_runtime: float | None = 3600.0
    retry: Policy = DEFAULT_POLICY

    def stored(self) -> str:
        """Only what differs from the defaults above, which never change: most rows store nothing but braces."""
        values: dict[str, Any] = {
            "delivery": self.delivery,
            "timeout": self.timeout,
            "max_runtime": self.max_runtime,
        }
        told = {name: value for name, value in values.items() if value != getattr(DEFAULTS, name)}
        if self.retry != DEFAULTS.retry:
            told["retry"] = self.retry.stored()
        return json.dumps(told, separators=(",", ":"))


DEFAULTS = Options()
_KNOWN = frozenset(field.name for field in fields(Options))


@lru_cache(maxsize=4096)
def read(text: str) -> Options:
    """The options of a job. Jobs of one task share one text, so that this is a look-up on the hot path."""
    try:
        told = {name: value for name, value in json.loads(text).items() if name in _KNOWN}
        if "retry" in told:
            told["retry"] = from_stored(told["retry"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return DEFAULTS  # written by another version or by hand: one such row must not stop a whole pass
    return Options(**told)


@lru_cache(maxsize=4096)
def longest(text: str) -> float | None:
    """After how many seconds an attempt with these options is cut off, if ever."""
    found = read(text)
    return min((limit for limit in (found.timeout, found.max_runtime) if limit is not None), default=None)
