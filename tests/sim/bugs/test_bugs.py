"""The checker is checked: every bug is caught by a promise that it breaks, and without it nothing is."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from oncue.sim.checker import PROMISES, Violation
from oncue.store import statements
from tests.sim.bugs.catalogue import BUGS, table
from tests.sim.bugs.kit import DIALECT, Bug, Patch, Run

DOCUMENT = Path(__file__).parents[3] / "docs" / "guarantees.md"


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_a_bug_is_caught(bug: Bug) -> None:
    seed = first_caught(bug)
    for same in range(seed + 1):
        assert not without_bugs(bug.run, same), f"seed {same} raises an alarm without the bug"


def first_caught(bug: Bug) -> int:
    """The first seed in which one of its promises catches the bug."""
    others: set[str] = set()
    for seed in range(bug.seeds):
        found = with_bug(bug, seed)
        if found.intersection(bug.caught_by):
            return seed
        others |= found
    pytest.fail(f"{bug.seeds} seeds do not show {bug.name} to any of {bug.caught_by}; what they show: {others}")


def with_bug(bug: Bug, seed: int) -> set[str]:
    """The promises that are broken. A bug may also break the run itself, which is no proof of the checker."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        bug.put_back(Patch(monkeypatch))
        try:
            return {violation.promise for violation in bug.run(seed)}
        except Exception as error:
            return {f"{type(error).__name__}: {error}"}


@cache
def without_bugs(run: Run, seed: int) -> tuple[Violation, ...]:
    return tuple(run(seed))


def test_there_are_many_bugs_and_they_name_promises_that_there_are() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 30
    assert {promise for bug in BUGS for promise in bug.caught_by} <= set(PROMISES)


def test_a_patch_that_finds_nothing_to_break_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    patch, take = Patch(monkeypatch), statements.load(DIALECT)["take"]
    with pytest.raises(AssertionError, match="not there any more"):
        patch.sql("take", "a part that nobody ever wrote", "")
    with pytest.raises(ValueError, match="not enough values"):
        patch.schema("a table that nobody ever made", "")
    with pytest.raises(AttributeError):
        patch.replace(Patch, "a_verb_that_nobody_has", None)
    assert statements.load(DIALECT)["take"] == take


def test_the_documentation_lists_the_bugs() -> None:
    assert "\n".join(table()) in DOCUMENT.read_text("utf-8"), "the table is:\n" + "\n".join(table())
