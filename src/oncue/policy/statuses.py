"""States by their names, and by the names that the crawler's operators know."""

from __future__ import annotations

from oncue.model import STATES, State

ALIASES: dict[str, State] = {"crawling": "running", "success": "succeeded"}


def state_named(name: str) -> State:
    """A state by its name or alias. Raises ValueError, which lists those that there are."""
    word = name.strip().lower()
    for state in STATES:
        if word in (state, *(alias for alias, meant in ALIASES.items() if meant == state)):
            return state
    raise ValueError(f"expected one of {', '.join((*STATES, *ALIASES))}, not {name!r:.100}")
