"""Changes of queues, and deleting what finished long ago."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

from oncue.checks import checked_limit, checked_name, checked_queue
from oncue.control import Limits, Note
from oncue.operations.looking import Looking
from oncue.policy import notes
from oncue.policy.durations import Duration, seconds
from oncue.task import UNSET, _Unset

PRUNE_BATCH = 1000


class Queues(Looking):
    async def pause(self, queue: str, *, by: str = "system") -> None:
        """No more jobs of this queue start, on any node. Those that run go on."""
        queue, by, connected = checked_queue(queue), checked_name(by, "by"), await self.connected()
        await connected.store.pause(queue, connected.now(), note=notes.of_pause(by, queue, paused=True))

    async def resume(self, queue: str, *, by: str = "system") -> None:
        """Jobs of this queue start again."""
        queue, by, connected = checked_queue(queue), checked_name(by, "by"), await self.connected()
        await connected.store.resume(queue, connected.now(), note=notes.of_pause(by, queue, paused=False))

    async def limit(
        self,
        queue: str,
        *,
        globally: int | _Unset | None = UNSET,
        per_node: int | _Unset | None = UNSET,
        by: str = "system",
    ) -> Limits:
        """Say how many jobs of a queue may run at once, on all nodes together and on each.

        What is not given stays; None lifts a limit. The limits as they are afterwards.
        """
        queue, by, connected = checked_queue(queue), checked_name(by, "by"), await self.connected()
        globally, per_node = _checked(globally, "globally"), _checked(per_node, "per_node")
        while True:
            known = await connected.store.limits(queue)
            wanted = Limits(
                known.globally if isinstance(globally, _Unset) else globally,
                known.per_node if isinstance(per_node, _Unset) else per_node,
            )
            if wanted == known:
                return known
            note = notes.of_limits(by, queue, known, wanted)
            if await connected.store.limit(queue, known, wanted, connected.now(), note=note):
                return wanted
            await asyncio.sleep(0)

    async def prune(
        self, older_than: Duration, told: Callable[[int], None] | None = None, *, by: str = "system"
    ) -> int:
        """Delete finished jobs older than this, in batches; how many. `told` hears the count after each batch."""
        by, connected = checked_name(by, "by"), await self.connected()
        before = connected.now() - timedelta(seconds=seconds(older_than, "older_than"))
        note = Note(by, "prune", "jobs", {"finished_before": before.isoformat()})
        total = 0
        while gone := await connected.store.prune(before, PRUNE_BATCH, noted=(note, connected.now())):
            total += gone
            if told is not None:
                told(total)
        return total


def _checked(limit: int | _Unset | None, field: str) -> int | _Unset | None:
    return limit if limit is None or isinstance(limit, _Unset) else checked_limit(limit, field)
