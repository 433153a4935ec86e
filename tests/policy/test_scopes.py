"""What each scope includes."""

from __future__ import annotations

import pytest

from oncue.model import SCOPES, Scope
from oncue.policy.scopes import INCLUDED, allows

MATRIX: dict[Scope, str] = {
    "read": "read",
    "enqueue": "enqueue",
    "operate": "read operate",
    "admin": "read enqueue operate admin",
}


@pytest.mark.parametrize("held", SCOPES)
@pytest.mark.parametrize("needed", SCOPES)
def test_a_scope_allows_what_it_includes(held: Scope, needed: Scope) -> None:
    assert allows([held], needed) == (needed in MATRIX[held].split())


def test_scopes_add_up_and_none_allow_nothing() -> None:
    assert allows(["read", "enqueue"], "enqueue")
    assert not allows(["read", "enqueue"], "operate")
    assert not any(allows([], needed) for needed in SCOPES)
    assert set(INCLUDED) == set(SCOPES)
