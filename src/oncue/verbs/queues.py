"""The verbs on queues and on their groups."""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from oncue.engine.counting import counted_queues
from oncue.errors import InvalidJob
from oncue.model import PARKED, Group, GroupSettings, HeldBack, Limits, Queue
from oncue.policy import audit_entries, rates
from oncue.policy.checks import LATEST, checked_duration, checked_limit, checked_name, checked_queue
from oncue.policy.durations import Duration
from oncue.task import UNSET, _Unset
from oncue.verbs.base import NounVerbs, compare_and_set
from oncue.verbs.base import checked_limit as checked_length

if TYPE_CHECKING:
    from oncue.policy.explain import Explanation

OF_A_GROUP = {"per_group": "limit", "rate_per_group": "rate"}
"""The limits that one group can have of its own, by their names in its settings."""


class Queues(NounVerbs):
    """In plain code: `app.wait(app.queues.pause("mail"))`."""

    async def list(self) -> builtins.list[Queue]:
        """All queues. Where thousands of jobs wait, they were counted at `counted_at`, not just now."""
        connected = await self._connected()
        return await counted_queues(connected.store, connected.now())

    async def groups(self, queue: str, *, after: str | None = None, limit: int = 1000) -> builtins.list[Group]:
        """The groups of a queue of which something waits or runs, or for which something is set, by name. `after` is
        the name to go on from."""
        queue, limit = checked_queue(queue), checked_length(limit)
        after, connected = checked_name(after, "after") if after else None, await self._connected()
        found, now = await connected.store.groups.all(queue, limit, after=after), connected.now()
        return [_without_past_pause(group, now) for group in found]

    async def group(self, queue: str, name: str) -> Group:
        """One group of a queue, whether anything is known of it or not."""
        queue, name, connected = checked_queue(queue), checked_name(name, "name"), await self._connected()
        return _without_past_pause(await connected.store.groups.get(queue, name), connected.now())

    async def explain(self, queue: str) -> Explanation:
        """Why jobs of a queue start, or wait."""
        from oncue.policy.explain import explain_queue
        from oncue.verbs.explaining import queue_facts

        return explain_queue(await queue_facts(await self._connected(), checked_queue(queue)))

    async def pause(
        self,
        queue: str,
        *,
        group: str | None = None,
        until: datetime | None = None,
        for_: Duration | None = None,
        by: str = "system",
    ) -> None:
        """No more jobs of this queue start, on any node. Those that run go on.

        With `group`, no more of this group start: until an instant, for so long, or until it is resumed.
        """
        queue, by, connected = checked_queue(queue), checked_name(by, "by"), await self._connected()
        if group is not None:
            paused_until = _checked_until(until, for_, connected.now())
            await self._set_group("pause", queue, group, by, lambda known: _paused(known, paused_until))
            return
        for field, value in (("until", until), ("for_", for_)):
            if value is not None:
                raise InvalidJob(field, "expected only with a group: a queue is paused until it is resumed")
        await connected.store.queues.pause(queue, connected.now(), note=audit_entries.of_pause(by, queue, paused=True))

    async def resume(self, queue: str, *, group: str | None = None, by: str = "system") -> None:
        """Jobs of this queue, or of this group of it, start again."""
        queue, by, connected = checked_queue(queue), checked_name(by, "by"), await self._connected()
        if group is not None:
            await self._set_group("resume", queue, group, by, lambda known: _paused(known, None))
            return
        await connected.store.queues.resume(
            queue, connected.now(), note=audit_entries.of_pause(by, queue, paused=False)
        )

    async def limit(
        self,
        queue: str,
        *,
        group: str | None = None,
        globally: int | _Unset | None = UNSET,
        per_node: int | _Unset | None = UNSET,
        per_group: int | _Unset | None = UNSET,
        rate: str | _Unset | None = UNSET,
        rate_per_group: str | _Unset | None = UNSET,
        by: str = "system",
    ) -> Limits:
        """Say how many jobs of a queue may run at once: on all nodes together, on each, and of each group. And how many
        may start in a second, a minute, an hour or a day (`rate="100/s"`): in all, and of each group.

        With `group`, `per_group` and `rate_per_group` hold for this group alone, instead of its queue's. What is not
        given stays; None lifts a limit. The limits as they are set afterwards, of the queue or of the group alone.
        """
        queue, by = checked_queue(queue), checked_name(by, "by")
        numbers = {"globally": globally, "per_node": per_node, "per_group": per_group}
        starts = {"rate": rate, "rate_per_group": rate_per_group}
        wanted = {**_given(numbers, checked_limit), **_given(starts, rates.parsed)}
        if group is None:
            return await self._limit_queue(queue, by, wanted)
        for field in wanted:
            if field not in OF_A_GROUP:
                raise InvalidJob(field, "expected only without a group: it is a limit of the whole queue")
        changes = {OF_A_GROUP[field]: value for field, value in wanted.items()}
        settings = await self._set_group(
            "limits", queue, group, by, lambda known: dataclasses.replace(known, **changes)
        )
        return Limits(per_group=settings.limit, rate_per_group=settings.rate)

    async def held_back(self, *, limit: int = 1000) -> builtins.list[HeldBack]:
        """The groups of all queues of which nothing starts: they are paused, or their circuit breaker is open."""
        connected = await self._connected()
        return await connected.store.groups.held_back(connected.now(), checked_length(limit))

    async def _limit_queue(self, queue: str, by: str, changes: dict[str, Any]) -> Limits:
        connected = await self._connected()

        async def limit() -> Limits | None:
            known = await connected.store.queues.limits(queue)
            wanted = dataclasses.replace(known, **changes)
            if wanted == known:
                return known
            note = audit_entries.of_limits(by, queue, known, wanted)
            took = await connected.store.queues.set_limits(queue, known, wanted, connected.now(), note=note)
            return wanted if took else None

        return await compare_and_set(f"queue {queue}", limit)

    async def _set_group(
        self, action: str, queue: str, group: str, by: str, change: Callable[[GroupSettings], GroupSettings]
    ) -> GroupSettings:
        group, connected = checked_name(group, "group"), await self._connected()

        async def set_group() -> GroupSettings | None:
            known = await connected.store.groups.settings(queue, group)
            wanted = change(known)
            if wanted == known:
                return known
            note = audit_entries.of_group(action, by, queue, group, known, wanted)
            took = await connected.store.groups.set(queue, group, known, wanted, connected.now(), note=note)
            return wanted if took else None

        return await compare_and_set(f"group {group} of queue {queue}", set_group)


def _given(limits: dict[str, Any], check: Callable[[Any, str], Any]) -> dict[str, Any]:
    """The limits that are to change, checked; None stays None."""
    given = {field: value for field, value in limits.items() if not isinstance(value, _Unset)}
    return {field: None if value is None else check(value, field) for field, value in given.items()}


def _paused(settings: GroupSettings, until: datetime | None) -> GroupSettings:
    return dataclasses.replace(settings, paused_until=until)


def _checked_until(until: datetime | None, for_: Duration | None, now: datetime) -> datetime:
    """The end of a pause; PARKED if it has none."""
    if until is not None and for_ is not None:
        raise InvalidJob("until", "give either the end of the pause or its length, not both")
    if for_ is not None:
        return now + timedelta(seconds=checked_duration(for_, "for_"))
    if until is None:
        return PARKED
    if not isinstance(until, datetime) or until.tzinfo is None:
        raise InvalidJob("until", f"expected a datetime with a time zone, not {until!r}")
    if not now < until < LATEST:
        raise InvalidJob("until", f"expected an instant that is to come, before {LATEST:%Y}, not {until.isoformat()}")
    return until.astimezone(UTC)


def _without_past_pause(group: Group, now: datetime) -> Group:
    """A pause that is over is none."""
    over = group.paused_until is not None and group.paused_until <= now
    return dataclasses.replace(group, paused_until=None) if over else group
