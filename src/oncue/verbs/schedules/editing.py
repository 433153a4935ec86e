"""Making schedules and changing them, at run time. What an edit means is in `policy/schedules.py`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypedDict

from oncue.application.builtin import PREFIX
from oncue.application.connecting import Connected
from oncue.application.webhooks import DELIVERIES_AT_ONCE, DELIVERY_GRACE
from oncue.errors import Conflict, InvalidJob, InvalidSchedule, StoreRefused
from oncue.model import DELIVER, WEBHOOKS_QUEUE, Missed, Note, Revised, Schedule
from oncue.policy import audit_entries, triggers
from oncue.policy import schedules as policy
from oncue.policy.checks import (
    DEFAULT_GRACE,
    checked_grace,
    checked_max_instances,
    checked_missed,
    checked_name,
    checked_priority,
    checked_queue,
    checked_retries,
    checked_schedule_name,
)
from oncue.policy.deliveries import Carried
from oncue.policy.durations import Duration
from oncue.policy.triggers import TICK, DstPolicy, Rule
from oncue.policy.windows import is_window as is_window_rule
from oncue.task import Task
from oncue.verbs.base import compare_and_set
from oncue.verbs.schedules.reading import ScheduleReading
from oncue.verbs.webhooks import Webhooks, carried_of

CREATE, UPDATE, TOGGLE, DELETE = "schedule.create", "schedule.update", "schedule.toggle", "schedule.delete"
LONGEST_DESCRIPTION = 1000
_LONG_AGO = datetime.min


class ScheduleEdit(TypedDict, total=False):
    """What `change` may be told, each as it is there. What is absent or None stays."""

    rule: Rule | str | None
    tz: str | None
    dst: DstPolicy | None
    task: Task[Any, Any] | str | None
    args: Mapping[str, Any] | None
    webhook: str | None
    description: str | None
    queue: str | None
    priority: int | None
    missed: Missed | None
    grace: Duration | None
    max_instances: int | None
    max_retries: int | None
    enabled: bool | None
    new_name: str | None


class Editing(ScheduleReading):
    async def create(
        self,
        name: str,
        rule: Rule | str,
        task: Task[Any, Any] | str | None = None,
        args: Mapping[str, Any] | None = None,
        *,
        webhook: str | None = None,
        description: str = "",
        queue: str | None = None,
        priority: int | None = None,
        missed: Missed = "latest",
        grace: Duration | None = None,
        max_instances: int | None = None,
        max_retries: int | None = None,
        enabled: bool = True,
        created_by: str = "system",
    ) -> Schedule:
        """Make a schedule of a task, or one that delivers to a webhook. Its first slot is the first one after now.

        Up to `max_instances` of its jobs are unfinished at once: by default 1, and 100 deliveries to a webhook. A job
        that does not start within its `grace` is skipped: by default 5 minutes, and a day for deliveries. Raises
        Conflict if the name is taken.
        """
        target, arguments = self._target_of(task, webhook, _checked_args({} if args is None else args))
        if webhook is not None:
            _refuse_terms_of_webhook(queue, max_retries)
        instances, patience = (1, DEFAULT_GRACE) if webhook is None else (DELIVERIES_AT_ONCE, DELIVERY_GRACE)
        wanted = self._wanted(
            checked_schedule_name(name), _rule(rule), target, arguments,
            description, queue, priority, missed, patience if grace is None else grace,
            instances if max_instances is None else max_instances, max_retries,
        )  # fmt: skip
        if webhook is not None:
            found = await Webhooks(self._app).get(webhook)
            wanted = delivering(wanted, found.name, carried_of(found))
        if not _checked_enabled(enabled):
            wanted = dataclasses.replace(wanted, enabled=False, reason=policy.BY_HAND)
        connected = await self._connected()
        await self._app.check_owner()
        by = checked_name(created_by, "created_by")

        async def create() -> Schedule | None:
            current, now = await connected.store.schedules.get(wanted.name), connected.now()
            if current is not None and current.deleted_at is None:
                raise Conflict(f"there is a schedule {wanted.name!r} already")
            change = await created_or_revived(connected, current, wanted, now, by)
            took = change is not None and await written(connected, change, now, _note(CREATE, by, None, change))
            return await self.get(wanted.name) if took else None

        return await compare_and_set(f"schedule {wanted.name!r}", create)

    async def change(
        self,
        name: str,
        *,
        rule: Rule | str | None = None,
        tz: str | None = None,
        dst: DstPolicy | None = None,
        task: Task[Any, Any] | str | None = None,
        args: Mapping[str, Any] | None = None,
        webhook: str | None = None,
        description: str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        missed: Missed | None = None,
        grace: Duration | None = None,
        max_instances: int | None = None,
        max_retries: int | None = None,
        enabled: bool | None = None,
        new_name: str | None = None,
        changed_by: str = "system",
    ) -> Schedule:
        """Change what is given; the rest stays. The edit is a new revision and starts from now.

        A rule that is only an expression keeps the time zone and the DST policy, unless they are given too. Under a new
        name it stays the same schedule, with its revisions and its slots. Raises Conflict if that is another's.
        A schedule that delivers to a webhook can be given another `webhook`.
        """
        edit = await self._edit(
            ScheduleEdit(
                rule=rule, tz=tz, dst=dst, task=task, args=args, webhook=webhook, description=description, queue=queue,
                priority=priority, missed=missed, grace=grace, max_instances=max_instances, max_retries=max_retries,
                enabled=enabled, new_name=new_name,
            )
        )  # fmt: skip

        def allowed(current: Schedule) -> Schedule:
            _refuse_code(current)
            return edit(current)

        if new_name not in (None, name):
            await self._refuse_taken(str(new_name))
        return await self._edited(name, allowed, changed_by, UPDATE)

    async def _edit(self, edit: ScheduleEdit) -> Callable[[Schedule], Schedule]:
        """What an edit makes of a schedule. The rest stays."""
        webhook, task = edit.get("webhook"), edit.get("task")
        target = None if webhook is None else await Webhooks(self._app).get(webhook)
        queue, max_retries, new_name = edit.get("queue"), edit.get("max_retries"), edit.get("new_name")
        description, priority, missed = edit.get("description"), edit.get("priority"), edit.get("missed")
        grace, max_instances, enabled = edit.get("grace"), edit.get("max_instances"), edit.get("enabled")

        def edited(current: Schedule) -> Schedule:
            delivers = current.task == DELIVER and current.group is not None
            args = edit.get("args")
            given = None if args is None else _checked_args(args)
            if delivers:
                _refuse_another_target(task)
                _refuse_terms_of_webhook(queue, max_retries)
                given = _arguments_of(current, None if target is None else target.name, given)
            elif target is not None:
                raise InvalidSchedule("webhook", "expected none: its target is a task; make another schedule for it")
            wanted = self._wanted(
                current.name if new_name is None else new_name,
                _changed_rule(current, edit.get("rule"), edit.get("tz"), edit.get("dst")),
                self._app.find(current.task) if task is None or delivers else self._target(task),
                json.loads(current.args) if given is None else given,
                current.description if description is None else description,
                current.queue if queue is None else queue,
                current.priority if priority is None else priority,
                current.missed if missed is None else missed,
                current.grace if grace is None else grace,
                current.max_instances if max_instances is None else max_instances,
                current.max_retries if max_retries is None and task is None else max_retries,
            )
            kept = {"enabled": current.enabled, "reason": current.reason, "declared_by": current.declared_by}
            if delivers:  # its webhook says what its deliveries carry
                kept |= {name: getattr(current, name) for name in ("group", "options", "max_retries", "max_runtime")}
            changed = dataclasses.replace(wanted, **kept)  # type: ignore[arg-type]
            if target is not None:
                changed = delivering(changed, target.name, carried_of(target))
            return changed if enabled is None else _toggled(changed, enabled)

        return edited

    async def _refuse_taken(self, name: str) -> None:
        taken = await (await self._connected()).store.schedules.get(checked_schedule_name(name))
        if taken is not None:
            deleted = "" if taken.deleted_at is None else ", which was deleted: its slots keep its name"
            raise Conflict(f"name: {name!r} is the name of schedule {taken.id}{deleted}")

    async def toggle(self, name: str, enabled: bool, *, changed_by: str = "system") -> Schedule:
        """Enable or disable a schedule, one declared in code too. What was due meanwhile is not fired later."""

        return await self._edited(name, lambda current: _toggled(current, enabled), changed_by, TOGGLE)

    async def delete(self, name: str, *, changed_by: str = "system") -> None:
        """Delete a schedule. Its slots stay in the ledger, so that no later one of its name fires them again."""

        def edit(current: Schedule) -> Schedule:
            _refuse_code(current)
            return policy.deleted(current, now())

        now = (await self._connected()).now
        await self._edited(name, edit, changed_by, DELETE)

    async def _edited(self, name: str, edit: Callable[[Schedule], Schedule], changed_by: str, action: str) -> Schedule:
        connected = await self._connected()
        by = checked_name(changed_by, "changed_by")

        async def change() -> Schedule | None:
            current, now = await self.get(name), connected.now()
            change = await changed(connected, current, edit(current), now, by)
            if change is None:
                return current
            try:
                took = await written(connected, change, now, _note(action, by, current, change))
            except StoreRefused as error:
                if change.schedule.name == current.name:
                    raise
                raise Conflict(f"name: {change.schedule.name!r} has just been taken") from error
            return await self._any(change.schedule.name) if took else None

        return await compare_and_set(f"schedule {name!r}", change)

    def _target_of(
        self, task: Task[Any, Any] | str | None, webhook: str | None, args: dict[str, Any]
    ) -> tuple[Task[Any, Any], dict[str, Any]]:
        """What a schedule runs, and with which arguments."""
        if (task is None) == (webhook is None):
            raise InvalidSchedule("task", "expected a task or a webhook, one of the two")
        if webhook is None:
            assert task is not None
            return self._target(task), args
        return self._app.find(DELIVER), _delivery_arguments(webhook, args)

    def _target(self, task: Task[Any, Any] | str) -> Task[Any, Any]:
        if not isinstance(task, Task | str):
            raise InvalidSchedule("task", f"expected a task or the name of one, not {task!r}")
        found = self._app.find(task) if isinstance(task, str) else task
        if found.name.startswith(PREFIX):
            raise InvalidSchedule("task", "expected a task of the application; for deliveries, give a webhook")
        return found

    def _wanted(
        self, name: str, rule: Rule, task: Task[Any, Any], args: dict[str, Any], description: str,
        queue: str | None, priority: int | None, missed: Missed, grace: Duration, max_instances: int,
        max_retries: int | None = None,
    ) -> Schedule:  # fmt: skip
        is_window = task.window is not None and is_window_rule(rule.expression)
        stored = "{}" if is_window else task.arguments.dump_for_slots(args, self._app.carried(task)["max_args"])
        return Schedule(
            id=0, name=checked_name(name, "name"), description=_checked_description(description), task=task.name,
            args=stored,
            queue=task.queue if queue is None else checked_queue(queue),
            priority=task.priority if priority is None else checked_priority(priority),
            expression=rule.expression, tz=rule.tz, dst=rule.dst, missed=checked_missed(missed),
            grace=checked_grace(grace), max_instances=checked_max_instances(max_instances), enabled=True,
            options=self._app.carried(task)["options"],
            max_retries=task.max_retries if max_retries is None else checked_retries(max_retries),
            max_runtime=self._app.carried(task)["max_runtime"], deadline=task.deadline, declared_by=None, reason=None,
            revision=0, started_at=_LONG_AGO, version=0, cursor=_LONG_AGO, next_run_at=None, last_run_at=None,
            horizon=None, created_by="", created_at=_LONG_AGO, updated_at=_LONG_AGO, deleted_at=None,
            key=None if task.own_key is None else task.own_key.of_slots(stored), address=task.address,
        )  # fmt: skip


def delivering(schedule: Schedule, webhook: str, told: Carried) -> Schedule:
    """The same schedule with a webhook as its target: what its deliveries carry, and their endpoint."""
    return dataclasses.replace(
        schedule, group=webhook, options=told.options, max_retries=told.max_retries, max_runtime=told.max_runtime
    )


def _toggled(current: Schedule, enabled: bool) -> Schedule:
    if current.enabled == _checked_enabled(enabled):
        return current
    # What no code declares any more, and somebody enables, is theirs from now on.
    declared_by = None if current.reason == policy.UNDECLARED else current.declared_by
    reason = None if enabled else policy.BY_HAND
    return dataclasses.replace(current, enabled=enabled, reason=reason, declared_by=declared_by)


# --- the write ------------------------------------------------------------------------------------------------------


async def created_or_revived(
    connected: Connected, current: Schedule | None, wanted: Schedule, now: datetime, by: str
) -> Revised | None:
    """The write that makes a schedule, also where a deleted one had its name."""
    if current is None:
        return policy.created(wanted, now, by)
    return await changed(connected, current, wanted, now, by)


async def changed(connected: Connected, current: Schedule, wanted: Schedule, now: datetime, by: str) -> Revised | None:
    """The write that makes a schedule what is wanted, or None if it is that already."""
    taken = await connected.store.slots.between(current.id, current.cursor + TICK, max(now, current.cursor))
    return policy.changed(current, wanted, now, by, [slot.scheduled_for for slot in taken])


async def written(connected: Connected, change: Revised, now: datetime, note: Note | None = None) -> bool:
    """Whether the change took: the schedule was not changed meanwhile. A change that code makes has no note."""
    store = connected.store
    (took,) = await (
        store.schedules.revise([change], now) if note is None else store.schedules.revise([change], now, [note])
    )
    return took


def _note(action: str, by: str, before: Schedule | None, change: Revised) -> Note:
    return audit_entries.of_schedule(action, by, before, None if action == DELETE else change.schedule)


# --- what is handed in ----------------------------------------------------------------------------------------------


def _checked_enabled(enabled: bool) -> bool:
    if not isinstance(enabled, bool):
        raise InvalidSchedule("enabled", f"expected True or False, not {enabled!r}")
    return enabled


def _checked_args(args: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(args, Mapping):
        raise InvalidSchedule("args", f"expected the task's arguments by name, not {args!r:.100}")
    return dict(args)


def _checked_description(text: str) -> str:
    fits = isinstance(text, str) and len(text) <= LONGEST_DESCRIPTION and "\x00" not in text
    if not fits or text.encode(errors="ignore").decode() != text:  # half a surrogate pair cannot be stored
        raise InvalidSchedule("description", f"expected a text of at most {LONGEST_DESCRIPTION} characters")
    return text


def _rule(rule: Rule | str) -> Rule:
    if isinstance(rule, Rule):
        return triggers.cron(rule.expression, tz=rule.tz, dst=rule.dst)
    return triggers.cron(rule)


def _changed_rule(current: Schedule, rule: Rule | str | None, tz: str | None, dst: DstPolicy | None) -> Rule:
    stays = Rule(current.expression, current.tz, current.dst)  # type: ignore[arg-type]
    given = rule if isinstance(rule, Rule) else stays if rule is None else dataclasses.replace(stays, expression=rule)
    wanted = dataclasses.replace(given, tz=given.tz if tz is None else tz, dst=given.dst if dst is None else dst)
    return stays if wanted == stays else _rule(wanted)


def _arguments_of(current: Schedule, webhook: str | None, given: dict[str, Any] | None) -> dict[str, Any]:
    """The arguments of a schedule that delivers, with another webhook or another payload."""
    known = json.loads(current.args)
    args = {name: value for name, value in known.items() if name != "webhook"} if given is None else given
    return _delivery_arguments(known["webhook"] if webhook is None else webhook, args)


def _delivery_arguments(webhook: str, args: Mapping[str, Any]) -> dict[str, Any]:
    unknown = args.keys() - {"payload"}
    if unknown:
        raise InvalidSchedule("args", f"expected only the payload of a webhook, not {min(unknown)!r:.100}")
    return {"webhook": webhook, **args}


def _refuse_terms_of_webhook(queue: str | None, max_retries: int | None) -> None:
    """What all deliveries have in common, or their webhook says, a schedule does not."""
    if queue not in (None, WEBHOOKS_QUEUE):
        raise InvalidJob("queue", f"expected {WEBHOOKS_QUEUE!r} or none: deliveries stay in that queue")
    if max_retries is not None:
        raise InvalidJob("max_retries", "expected none: the retries of a delivery are those of its webhook")


def _refuse_another_target(task: Task[Any, Any] | str | None) -> None:
    if task is not None:
        raise InvalidSchedule("task", "expected none: its target is a webhook; make another schedule for the task")


def _refuse_code(schedule: Schedule) -> None:
    if schedule.declared_by is not None and schedule.reason != policy.UNDECLARED:
        raise Conflict(
            f"schedule {schedule.name!r} is declared in the code of {schedule.declared_by!r}: change it there, or "
            "disable it"
        )
