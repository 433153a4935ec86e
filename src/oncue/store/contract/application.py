"""Whose tables these are: one application, one set of tables."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from oncue.model import Note, Owner


class Application(Protocol):
    async def owner(self) -> Owner | None:
        """The application that the tables belong to; None until its first worker has started."""
        ...

    async def own(self, owner: Owner, known: Owner | None, now: datetime, *, note: Note | None = None) -> bool:
        """Write whose tables these are, if `known` is what stands there."""
        ...
