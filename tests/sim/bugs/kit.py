"""What a seeded bug is, and how it is put back.

A bug is a function that takes a `Patch` and breaks the real engine, store or policy with it, as it was broken in the
field. Around it stand the name of the bug, where it was seen, the run that it needs, and the promises one of which has
to catch it. Every patch fails loudly when what it replaces is not there any more: no bug rots away in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest

from oncue.sim.checker import Violation
from oncue.store import statements

DIALECT = "sqlite"
"""What the simulator's store speaks."""

Run: TypeAlias = Callable[[int], Sequence[Violation]]
"""From a seed to the violations that the checker finds."""


class Patch:
    """Breaks things, for as long as its monkeypatch lasts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def replace(self, owner: Any, name: Any, new: Any) -> Any:
        """Put something else in the place of an attribute, or of an entry of a dictionary; what was there."""
        if isinstance(owner, dict):
            old = owner[name]
            self._monkeypatch.setitem(owner, name, new)
        else:
            old = getattr(owner, name)
            self._monkeypatch.setattr(owner, name, new)
        return old

    def add(self, owner: Any, name: str, new: Any) -> None:
        """Give something an attribute that it does not have."""
        assert not hasattr(owner, name), f"{owner} has something called {name} by now"
        self._monkeypatch.setattr(owner, name, new, raising=False)

    def sql(self, statement: str, old: str, new: str) -> None:
        """Rewrite a part of one of the store's statements."""
        known = dict(statements.load(DIALECT))
        known[statement] = _rewritten(known[statement], statements.spelled_out(old), statements.spelled_out(new))
        self._monkeypatch.setattr(statements, "load", lambda dialect: known)

    def reorder(self, **places: str) -> None:
        """Put a statement in another one's place, so that a transaction takes its steps in another order."""
        known = dict(statements.load(DIALECT))
        assert set(places) == set(places.values()), "each statement needs a place"
        moved = known | {place: known[statement] for place, statement in places.items()}
        self._monkeypatch.setattr(statements, "load", lambda dialect: moved)

    def schema(self, old: str, new: str) -> None:
        """Rewrite a part of the tables, in the last step that has it: what it makes is what stays."""
        steps, old, new = statements.migrations(DIALECT), statements.spelled_out(old), statements.spelled_out(new)
        *_, last = [step for step in steps if old in step.script]
        changed = tuple(one._replace(script=_rewritten(one.script, old, new)) if one is last else one for one in steps)
        self._monkeypatch.setattr(statements, "migrations", lambda dialect: changed)


def _rewritten(text: str, old: str, new: str) -> str:
    assert old in text, f"{old!r} is not there any more, so that nothing can be broken there: {text}"
    return text.replace(old, new)


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    seen_in: str
    """In which kind of system, and in whose: a sentence."""
    put_back: Callable[[Patch], None]
    run: Run
    caught_by: tuple[str, ...]
    """The promises that it breaks: which of them comes first depends on the seed."""
    seeds: int = 40
    """So many of them at most until it is caught."""

    def __str__(self) -> str:
        return self.name


BUGS: list[Bug] = []


def bug(
    name: str, *, seen_in: str, run: Run, caught_by: str | tuple[str, ...], seeds: int = 40
) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Name a way to break things as a bug of the kit."""

    def declare(put_back: Callable[[Patch], None]) -> Callable[[Patch], None]:
        promises = (caught_by,) if isinstance(caught_by, str) else caught_by
        BUGS.append(Bug(name, seen_in, put_back, run, promises, seeds))
        return put_back

    return declare
