"""What nodes measured minute by minute, and the state of the SLOs and alerts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from oncue.model import AlertBook, Batch, Minute


class Alerts(Protocol):
    async def append(self, minutes: Sequence[Minute]) -> None:
        """Write what a node measured. A row that is there already is written again: its node sends the same."""

    async def minutes(self, since: datetime) -> list[Minute]:
        """What all nodes measured in this minute and later ones, oldest first."""
        ...

    async def prune(self, before: datetime, limit: int) -> int:
        """Delete up to `limit` rows of minutes before this one."""
        ...

    async def book(self) -> AlertBook:
        """The state of all SLOs and alerts."""
        ...

    async def write(
        self, book: AlertBook, now: datetime, *, node: UUID, epoch: int, jobs: Sequence[Batch] = ()
    ) -> bool:
        """Write the state that follows from the stored one, and the jobs with it, in one transaction.

        `book.version` is that of the stored state. Nothing is written if that has changed, or unless `node` still leads
        under this epoch. The new version is one more, and it was evaluated now.
        """
        ...
