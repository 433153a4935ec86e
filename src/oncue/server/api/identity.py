"""Who is asking: a token's name and scopes, as the gate has found them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends
from starlette.requests import Request

from oncue.model import SCOPES, Scope

SCOPE_KEY = "oncue.identity"


@dataclass(frozen=True, slots=True)
class Identity:
    """The sender of a request. The audit log has the name."""

    name: str
    scopes: tuple[Scope, ...]


LOCAL = Identity("local", SCOPES)
"""A user of this machine, at a server that only this machine can reach, before the first token is made."""
HOST = Identity("host", SCOPES)
"""A user of an application that guards the API itself."""


def identity_of(scope: Mapping[str, Any]) -> Identity:
    """Who sent this request. Only the gate sets it, so that its absence is a bug and not a visitor."""
    found = scope.get(SCOPE_KEY)
    assert isinstance(found, Identity), "a request came past the gate"
    return found


def _caller(request: Request) -> str:
    return identity_of(request.scope).name


Caller = Annotated[str, Depends(_caller)]
"""The name of the sender, for an endpoint that changes something."""
