"""Makes the stored schedules what the code declares, with respect for what operators and other versions want."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from oncue.application.connecting import Connected
from oncue.errors import Conflict
from oncue.model import DELIVER, Schedule
from oncue.policy import audit_entries, options
from oncue.policy import schedules as policy
from oncue.policy.triggers import Rule
from oncue.task import Declared, Task
from oncue.verbs.base import compare_and_set
from oncue.verbs.schedules.editing import Editing, changed, created_or_revived, delivering, written
from oncue.verbs.webhooks import Webhooks

PAGE = 1000

log = logging.getLogger("oncue.schedules")


class Declaring(Editing):
    async def synchronise(
        self,
        connected: Connected | None = None,
        *,
        only: Callable[[Rule], bool] = lambda rule: True,
        dials: bool = True,
    ) -> None:
        """Make the stored schedules what the code declares. Those that it no longer declares are disabled.

        A worker does this when it starts. With `only`, schedules of other rules are left for later. Where nothing
        `dials`, as in a test, no webhook is told that its address is forbidden.
        """
        connected = connected or await self._connected()
        await Webhooks(self._app).declare_all(connected, dials=dials)
        await self._limit_windows(connected)
        for wanted in self._declared(only):
            try:
                await self._declare(connected, wanted)
            except Conflict as error:  # one schedule that cannot be declared does not keep a worker from working
                log.error("schedule %s cannot be declared: %s", wanted.name, error)
                self._app.telemetry.emit("schedule.error", {}, schedule=wanted.name, error=error)
        await self._rekey(connected)
        await self.disable_undeclared(connected)

    def _declared(self, only: Callable[[Rule], bool]) -> list[Schedule]:
        """The schedules that the code declares: of tasks, and of webhooks."""
        wanted = [
            self._of_code(task.name, task, {}, task.schedule)
            for task in self._app.tasks.values()
            if task.schedule is not None and only(task.schedule.rule)
        ]
        deliver = self._app.find(DELIVER)
        for webhook in self._app.webhooks.values():
            if webhook.schedule is not None and only(webhook.schedule.rule):
                made = self._of_code(webhook.name, deliver, {"webhook": webhook.name}, webhook.schedule)
                wanted.append(delivering(made, webhook.name, webhook.carried))
        return wanted

    def _of_code(self, name: str, task: Task[Any, Any], args: dict[str, Any], declared: Declared) -> Schedule:
        rule, missed, grace, max_instances, description = declared
        wanted = self._wanted(name, rule, task, args, description, None, None, missed, grace, max_instances)
        return dataclasses.replace(wanted, declared_by=self._app.name)

    async def _limit_windows(self, connected: Connected) -> None:
        """Bound what runs of windows at once, on all nodes: each queue has the least that one of its windows declares.

        The limit follows the code for as long as it is what the code declared before. Another one was set by hand, and
        stays. This comes before the windows are declared: a worker that dies in between does it again.
        """
        declared = _least((task.queue, task.window.max_concurrency) for task in self._app.tasks.values() if task.window)
        if not declared:
            return
        stored = [(one.queue, options.read(one.options).window) for one in await connected.store.windows.all()]
        before = _least(
            (queue, window.max_concurrency) for queue, window in stored if window and window.max_concurrency
        )
        for queue, most in declared.items():
            await compare_and_set(f"queue {queue}", partial(self._limited, connected, queue, before.get(queue), most))

    async def _limited(self, connected: Connected, queue: str, before: int | None, most: int) -> bool | None:
        known, now = await connected.store.queues.limits(queue), connected.now()
        if known.globally == most:
            return True
        if known.globally != before:
            log.warning(
                "queue %s: max_concurrency is %d in the code, and the limit that was set by hand is %s: that one "
                "counts; `oncue queues limit %s --global %d` sets the code's", queue, most, known.globally, queue, most,
            )  # fmt: skip
            return True
        wanted = dataclasses.replace(known, globally=most)
        note = audit_entries.of_limits(f"code:{self._app.name}", queue, known, wanted)
        return True if await connected.store.queues.set_limits(queue, known, wanted, now, note=note) else None

    async def _rekey(self, connected: Connected) -> None:
        """Give the schedules that were made at run time the keys that their tasks declare by now."""
        page = await connected.store.schedules.page(limit=PAGE)
        while page:
            for stored in page:
                task = self._app.tasks.get(stored.task)
                if task is not None and stored.declared_by is None and self._key_of(task, stored) != stored.key:
                    await compare_and_set(
                        f"schedule {stored.name!r}", partial(self._rekeyed, connected, task, stored.name)
                    )
            page = await connected.store.schedules.page(page[-1].name, PAGE) if len(page) == PAGE else []

    async def _rekeyed(self, connected: Connected, task: Task[Any, Any], name: str) -> bool | None:
        stored, now = await connected.store.schedules.get(name), connected.now()
        if stored is None or stored.task != task.name:
            return True
        wanted = dataclasses.replace(stored, key=self._key_of(task, stored))
        change = await changed(connected, stored, wanted, now, f"code:{self._app.name}")
        return True if change is None or await written(connected, change, now) else None

    def _key_of(self, task: Task[Any, Any], stored: Schedule) -> str | None:
        """The key of its jobs. Arguments that the code of today refuses leave it as it is: its jobs will tell."""
        try:
            return None if task.own_key is None else task.own_key.of_slots(stored.args)
        except ValueError as error:
            log.error("schedule %s: the key of its jobs cannot be worked out: %s", stored.name, error)
            return stored.key

    async def disable_undeclared(self, connected: Connected | None = None) -> None:
        """Disable what code declared once and no live worker of any version declares now.

        In a rolling deployment that is when the last worker of the old version is gone, so workers look again and
        again.
        """
        connected = connected or await self._connected()
        ours = set(self._app.scheduled)
        stored = [
            one.name for one in await connected.store.schedules.declared() if one.enabled and one.name not in ours
        ]
        if not stored:
            return
        now = connected.now()
        living = {
            name for node in await connected.store.nodes.alive() if node.expires_at > now for name in node.schedules
        }
        for name in stored:
            if name not in living:
                await self._disable(connected, name)

    async def _declare(self, connected: Connected, wanted: Schedule) -> None:
        async def declare() -> bool | None:
            current, now = await connected.store.schedules.get(wanted.name), connected.now()
            allowed = wanted if current is None else _as_operators_left_it(current, wanted)
            change = await created_or_revived(connected, current, allowed, now, f"code:{self._app.name}")
            if change is None:
                return True
            if not await written(connected, change, now):
                return None
            if change.revision is not None:
                log.info("schedule %s: %s, revision %d", wanted.name, wanted.expression, change.revision.revision)
            return True

        await compare_and_set(f"schedule {wanted.name!r}", declare)

    async def _disable(self, connected: Connected, name: str) -> None:
        """Disable a schedule that is declared no more. It may fire all the while: try until it holds still."""

        async def disable() -> bool | None:
            stored, now = await connected.store.schedules.get(name), connected.now()
            if stored is None or not stored.enabled or stored.declared_by is None:
                return True
            disabled = dataclasses.replace(stored, enabled=False, reason=policy.UNDECLARED)
            change = await changed(connected, stored, disabled, now, f"code:{self._app.name}")
            if change is None or not await written(connected, change, now):
                return None
            log.warning("schedule %s is disabled: the code of %r no longer declares it", name, self._app.name)
            return True

        await compare_and_set(f"schedule {name!r}", disable)


def _least(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for queue, most in pairs:
        found[queue] = min(most, found.get(queue, most))
    return found


def _as_operators_left_it(current: Schedule, wanted: Schedule) -> Schedule:
    """A schedule that was disabled by hand stays so, whatever the code says."""
    made_in_code = current.created_by.startswith("code:")
    if current.deleted_at is None and current.declared_by is None and not made_in_code:
        raise Conflict(
            f"schedule {current.name!r} was made at run time by {current.created_by}, and the code declares one of the "
            "same name: delete or rename one of them"
        )
    if current.deleted_at is None and not current.enabled and current.reason == policy.BY_HAND:
        return dataclasses.replace(wanted, enabled=False, reason=policy.BY_HAND)
    return wanted
