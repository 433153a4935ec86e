"""Webhooks, and deliveries that no node would look at."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from oncue.model import Job, Note, Orphan, State, Webhook


class Webhooks(Protocol):
    async def get(self, names: Sequence[str]) -> list[Webhook]:
        """Those of these names that there are, deleted ones too."""
        ...

    async def page(self, after: str = "", limit: int = 100) -> list[Webhook]:
        """Webhooks that are not deleted, by name; `after` is the name to go on from."""
        ...

    async def declared(self) -> list[Webhook]:
        """The webhooks that code declared at some time, and that are not deleted, by name."""
        ...

    async def write(
        self,
        webhook: Webhook,
        version: int,
        now: datetime,
        *,
        options: tuple[str, int] | None = None,
        note: Note | None = None,
    ) -> bool:
        """Write the webhook of this name if it still has this version, 0 for one that has no row yet.

        The new version is one more; the id stays. `options` are those of its deliveries, as they are stored, with
        their number of retries: the schedules whose target it is get them in the same transaction.
        """
        ...

    async def executions(
        self, endpoint: str, states: Sequence[State], before: int | None, limit: int, *, short: bool = False
    ) -> list[Job]:
        """The newest deliveries to an endpoint (the name of a webhook, or scheme, host and port of a URL) with one of
        these states; `before` is the id to go on from. `short`: without large fields, as in `jobs.find`."""
        ...

    async def orphans(self, before: datetime, after: int, limit: int) -> list[Orphan]:
        """Up to `limit` deliveries that are queued, were due before this instant, and that no node would look at.

        Of a group nothing was told, and it has no turn to come. What waits for the room, rate, pause or breaker of its
        group, or in a paused queue, is none of these. By id, from `after` on; of a large group some.
        """
        ...

    async def re_emit(self, ids: Sequence[int], now: datetime) -> list[int]:
        """Have the groups of those of these deliveries looked at that are still queued: which these are."""
        ...
