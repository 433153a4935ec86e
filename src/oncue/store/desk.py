"""The verbs of operators and callers: the third part of the store's contract.

A change by hand carries its `Note`, which is written to the audit log in the same transaction, if the change is. Seats
of limited queues change hands by compare-and-set on the queue's `version`, as slots do on the schedule's.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from oncue.model import Age, AuditEntry, Count, KeptRequest, LimitedQueue, Limits, Note, Progress, Sample, Token


class Desk(Protocol):
    # --- queues -------------------------------------------------------------------------------------------------

    async def limits(self, queue: str) -> Limits:
        """The limits of a queue; one that is not known has none."""
        ...

    async def limit(
        self, queue: str, known: Limits, limits: Limits, now: datetime, *, note: Note | None = None
    ) -> bool:
        """Set the limits of a queue that still has those that are known."""
        ...

    async def seating(self, queues: Sequence[str], tasks: Sequence[str]) -> list[LimitedQueue]:
        """Those of these queues that have a limit, who holds their seats, and whether one of these tasks waits."""
        ...

    async def take_seats(self, queue: str, version: int, node: UUID, seats: int, wanted: int) -> bool:
        """Hold so many seats of a queue from here on, if nobody's have changed since."""
        ...

    # --- progress -----------------------------------------------------------------------------------------------

    async def report_progress(self, progress: Sequence[Progress]) -> None:
        """Show how far attempts have come that still hold their jobs."""

    # --- counting -----------------------------------------------------------------------------------------------

    async def count(self, limit: int) -> list[Count]:
        """Count what waits and what runs, up to `limit` rows of each kind."""
        ...

    async def keep_sample(self, sample: Sample) -> None:
        """Keep what was counted for whoever asks, unless there is a later one."""

    async def last_sample(self) -> Sample | None: ...

    async def ages(self, now: datetime, heads: int) -> list[Age]:
        """The longest wait in each queue and the longest run of each task. Of what waits, the first `heads` of every
        priority are looked at: a job further back may have waited longer, if those before it have just come back.
        """
        ...

    # --- tokens -------------------------------------------------------------------------------------------------

    async def add_token(self, token: Token, *, note: Note | None = None) -> None: ...

    async def token(self, token_id: str) -> Token | None: ...

    async def tokens(self) -> list[Token]:
        """All of them, the revoked and the expired too, oldest first."""
        ...

    async def has_tokens(self) -> bool:
        """Whether a token was ever made."""
        ...

    async def revoke_token(self, token_id: str, now: datetime, *, note: Note | None = None) -> bool:
        """Revoke a token that was not revoked."""
        ...

    async def mark_token_used(self, token_id: str, now: datetime) -> None: ...

    # --- the audit log ------------------------------------------------------------------------------------------

    async def audit_log(
        self, *, actor: str | None = None, subject: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[AuditEntry]:
        """Changes by hand, newest first; `before` is the id to go on from."""
        ...

    async def prune_audit_log(self, before: datetime, limit: int) -> int:
        """Delete up to `limit` entries that are older than this. How many."""
        ...

    # --- requests -----------------------------------------------------------------------------------------------

    async def begin_request(self, actor: str, key: str, request: KeptRequest) -> KeptRequest | None:
        """Keep a request under its key; None if it is new, else the one that is kept already."""
        ...

    async def end_request(self, actor: str, key: str, status: int, answer: str) -> None:
        """Keep what was answered."""

    async def forget_request(self, actor: str, key: str) -> None:
        """The request came to nothing: its key may be used again."""

    async def prune_requests(self, before: datetime, limit: int) -> int:
        """Delete up to `limit` requests that began before this instant. How many."""
        ...
