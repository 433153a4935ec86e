"""The verbs on queues."""

from __future__ import annotations

from oncue.engine.counting import counted_queues
from oncue.model import Limits, Queue
from oncue.policy import audit_entries
from oncue.policy.checks import checked_limit, checked_name, checked_queue
from oncue.task import UNSET, _Unset
from oncue.verbs.base import NounVerbs, compare_and_set


class Queues(NounVerbs):
    """In plain code: `app.wait(app.queues.pause("mail"))`."""

    async def list(self) -> list[Queue]:
        """All queues. Where thousands of jobs wait, they were counted at `counted_at`, not just now."""
        connected = await self._connected()
        return await counted_queues(connected.store, connected.now())

    async def pause(self, queue: str, *, by: str = "system") -> None:
        """No more jobs of this queue start, on any node. Those that run go on."""
        queue, by, connected = checked_queue(queue), checked_name(by, "by"), await self._connected()
        await connected.store.queues.pause(queue, connected.now(), note=audit_entries.of_pause(by, queue, paused=True))

    async def resume(self, queue: str, *, by: str = "system") -> None:
        """Jobs of this queue start again."""
        queue, by, connected = checked_queue(queue), checked_name(by, "by"), await self._connected()
        await connected.store.queues.resume(
            queue, connected.now(), note=audit_entries.of_pause(by, queue, paused=False)
        )

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
        queue, by, connected = checked_queue(queue), checked_name(by, "by"), await self._connected()
        globally, per_node = _checked(globally, "globally"), _checked(per_node, "per_node")

        async def limit() -> Limits | None:
            known = await connected.store.queues.limits(queue)
            wanted = Limits(
                known.globally if isinstance(globally, _Unset) else globally,
                known.per_node if isinstance(per_node, _Unset) else per_node,
            )
            if wanted == known:
                return known
            note = audit_entries.of_limits(by, queue, known, wanted)
            took = await connected.store.queues.set_limits(queue, known, wanted, connected.now(), note=note)
            return wanted if took else None

        return await compare_and_set(f"queue {queue}", limit)


def _checked(limit: int | _Unset | None, field: str) -> int | _Unset | None:
    return limit if limit is None or isinstance(limit, _Unset) else checked_limit(limit, field)
