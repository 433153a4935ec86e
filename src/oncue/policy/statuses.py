"""States by their names, and by the names that the crawler's operators know."""

from __future__ import annotations

from collections.abc import Sequence

from oncue.model import STATES, WAITING, State

ALIASES: dict[str, State] = {"crawling": "running", "success": "succeeded"}

LISTED_AS_QUEUED: tuple[State, ...] = tuple(state for state in STATES if state in WAITING)


def listed(states: Sequence[State]) -> tuple[State, ...]:
    """The states that a listing shows. `queued` is all that waits, as in the stats: due later and retrying ones too."""
    wanted = (each for state in states for each in (LISTED_AS_QUEUED if state == "queued" else (state,)))
    return tuple(dict.fromkeys(wanted))


def state_named(name: str) -> State:
    """A state by its name or alias. Raises ValueError, which lists those that there are."""
    word = name.strip().lower()
    for state in STATES:
        if word in (state, *(alias for alias, meant in ALIASES.items() if meant == state)):
            return state
    raise ValueError(f"expected one of {', '.join((*STATES, *ALIASES))}, not {name!r:.100}")
