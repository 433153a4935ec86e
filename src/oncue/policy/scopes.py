"""What a credential may do. A scope may include others; nothing else does."""

from __future__ import annotations

from collections.abc import Iterable

from oncue.model import SCOPES, Scope

INCLUDED: dict[Scope, frozenset[Scope]] = {
    "read": frozenset({"read"}),
    "enqueue": frozenset({"enqueue"}),
    "operate": frozenset({"operate", "read"}),
    "admin": frozenset(SCOPES),
}


def allows(scopes: Iterable[Scope], needed: Scope) -> bool:
    """Whether these scopes allow what needs that one."""
    return any(needed in INCLUDED[scope] for scope in scopes)
