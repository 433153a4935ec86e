"""The verbs on webhooks, and how those that code declares are stored."""

from __future__ import annotations

import builtins
import dataclasses
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from oncue.application.connecting import Connected
from oncue.application.webhooks import FIELDS, DeclaredWebhook, call_of, carried_by, refuse_lost_payload
from oncue.errors import Conflict, InvalidWebhook, JobNotFound, WebhookNotFound
from oncue.model import (
    DELIVER,
    STATES,
    WEBHOOKS_QUEUE,
    Attempt,
    Group,
    Job,
    JobFilter,
    Note,
    Receipt,
    Schedule,
    Webhook,
)
from oncue.policy import audit_entries
from oncue.policy.checks import checked_name
from oncue.policy.deliveries import Carried, ExecutionStatus, ladder_of, states_of
from oncue.policy.webhooks import checked_fields
from oncue.verbs.base import NounVerbs, checked_before, checked_limit, compare_and_set
from oncue.verbs.jobs.changing import Changing
from oncue.verbs.jobs.reading import JobReading, attempts_of
from oncue.verbs.queues import Queues
from oncue.webhooks.egress import Allowed, check_at_save
from oncue.webhooks.secrets import redacted, redacted_secrets
from oncue.webhooks.shares import share_out

if TYPE_CHECKING:
    from oncue.policy.durations import Duration
    from oncue.task import Call

CREATE, UPDATE, TOGGLE, DELETE = "webhook.create", "webhook.update", "webhook.toggle", "webhook.delete"
BY_HAND = "by_hand"
NAMES = tuple(FIELDS)

_log = logging.getLogger("oncue.webhooks")


class Webhooks(NounVerbs):
    """In plain code: `app.wait(app.webhooks.create("orders", url=…))`."""

    # --- reading ------------------------------------------------------------------------------------------------

    async def list(self, *, after: str = "", limit: int = 100) -> builtins.list[Webhook]:
        """The webhooks by name; `after` is the name to go on from."""
        return await (await self._connected()).store.webhooks.page(after, checked_limit(limit))

    async def get(self, name: str) -> Webhook:
        """One webhook. Raises WebhookNotFound."""
        found = await self._stored(await self._connected(), name)
        if found is None or found.deleted:
            raise WebhookNotFound(f"there is no webhook {name!r}")
        return found

    async def endpoint(self, name: str) -> Group:
        """What waits and runs of the deliveries to a webhook, what holds for them, and its circuit breaker."""
        webhook = await self.get(name)
        return await Queues(self._app).group(WEBHOOKS_QUEUE, webhook.name)

    async def executions(
        self,
        name: str | None = None,
        *,
        endpoint: str | None = None,
        status: ExecutionStatus | None = None,
        before: int | None = None,
        limit: int = 100,
        whole: bool = True,
    ) -> builtins.list[Job]:
        """The deliveries of a webhook, or all of them, newest first; `before` is the number to go on from. With a
        `status`, those only that are `emitted` (not ended), `delivered` or `failed`.

        `endpoint` stands for a webhook that may be deleted, or for scheme, host and port of a URL without a webhook.
        Not `whole`, large payloads and errors are left out, and `Job.shortened` says which.
        """
        if name is not None:
            endpoint = (await self.get(name)).name
        elif endpoint is not None:
            endpoint = checked_name(endpoint, "endpoint")
        states, store = states_of(status), (await self._connected()).store
        before, limit = checked_before(before, "an execution"), checked_limit(limit)
        if endpoint is not None:
            return await store.webhooks.executions(endpoint, states or STATES, before, limit, short=not whole)
        wanted = JobFilter(states, WEBHOOKS_QUEUE, DELIVER, before=before, limit=limit, short=not whole)
        return await store.jobs.find(wanted)

    async def execution(self, ref: int | UUID) -> tuple[Job, builtins.list[Attempt]]:
        """One delivery by its id or its number, with the attempts that were started, oldest first; the one under way
        is among them. Raises JobNotFound."""
        connected, jobs = await self._connected(), JobReading(self._app)
        try:
            job = await jobs.get(ref)
        except JobNotFound:
            raise JobNotFound(f"there is no execution {ref}") from None
        if job.task != DELIVER:
            raise JobNotFound(f"there is no execution {ref}: that is a job of the task {job.task!r}")
        return job, _with_the_latest(job, await attempts_of(connected.store, job))

    async def schedules_of(self, executions: Iterable[Job]) -> dict[int, str]:
        """The names of the schedules that these deliveries were made for, by their numbers; deleted ones too."""
        store = (await self._connected()).store
        numbers = sorted({job.schedule_id for job in executions if job.schedule_id is not None})
        found = [await store.schedules.by_id(number) for number in numbers]
        return {schedule.id: schedule.name for schedule in found if schedule is not None}

    async def schedules(self, name: str, *, after: str = "", limit: int = 100) -> builtins.list[Schedule]:
        """The schedules that deliver to a webhook, by name; `after` is the name to go on from."""
        webhook, connected = await self.get(name), await self._connected()
        return await connected.store.schedules.delivering_to(webhook.name, after, checked_limit(limit))

    # --- changing -----------------------------------------------------------------------------------------------

    async def create(
        self, name: str, *, url: str, enabled: bool = True, created_by: str = "system", **fields: Any
    ) -> Webhook:
        """Make a webhook. `fields` are those of `app.webhook`. Raises Conflict if the name is taken."""
        checked = checked_fields({**FIELDS, **fields, "name": name, "url": url, "enabled": enabled})
        self._check_target(checked["url"])
        by, connected = checked_name(created_by, "created_by"), await self._connected()
        await self._app.check_owner()
        await share_out(connected, self._app.settings.webhooks_per_endpoint)

        async def create() -> Webhook | None:
            current, now = await self._stored(connected, checked["name"]), connected.now()
            if current is not None and not current.deleted:
                raise Conflict(f"there is a webhook {name!r} already")
            made = webhook_of(checked, now, by)
            return await self._written(connected, current, made, now, CREATE, by)

        return await compare_and_set(f"webhook {name!r}", create)

    async def change(self, name: str, *, changed_by: str = "system", **fields: Any) -> Webhook:
        """Change the fields that are given. URL, headers, secrets, time-out and redirects hold from the next attempt
        on; method, content type, body and retry for deliveries that are made from now on."""
        if not fields:
            raise InvalidWebhook("fields", f"expected at least one of {', '.join(('url', *NAMES, 'enabled'))}")
        if "name" in fields:
            raise InvalidWebhook("name", "expected none: the name of a webhook stays, its deliveries are known by it")

        def edit(current: Webhook) -> Webhook:
            _refuse_code(current)
            return _with_fields(current, self._checked_change(current, fields))

        return await self._edited(name, edit, changed_by, UPDATE)

    async def toggle(self, name: str, enabled: bool, *, changed_by: str = "system") -> Webhook:
        """Enable or disable a webhook, one declared in code too. Deliveries to one that is disabled are skipped."""
        wanted = checked_fields({"enabled": enabled})["enabled"]

        def edit(current: Webhook) -> Webhook:
            return dataclasses.replace(current, enabled=wanted, reason=None if wanted else BY_HAND)

        return await self._edited(name, edit, changed_by, TOGGLE)

    async def delete(self, name: str, *, changed_by: str = "system") -> None:
        """Delete a webhook, with its headers and secrets. Deliveries that were made for it fail as `webhook_deleted`.

        Raises Conflict while a schedule has it as its target, and while this application's code declares it. One that
        other code declares comes back when a worker of that starts.
        """
        connected, known = await self._connected(), await self.get(name)
        if known.declared_by is not None and name in self._app.webhooks:
            raise Conflict(
                f"webhook {name!r} is declared in the code of {known.declared_by!r}: remove it there first, or "
                "disable it"
            )
        await self._refuse_target(connected, name)
        now = connected.now

        def edit(current: Webhook) -> Webhook:
            return dataclasses.replace(current, deleted=True, deleted_at=now(), headers={}, secrets=())

        await self._edited(name, edit, changed_by, DELETE)

    async def pause(
        self, name: str, *, for_: Duration | None = None, until: datetime | None = None, by: str = "system"
    ) -> None:
        """Hold the deliveries to a webhook back: for so long, until an instant, or until it is resumed."""
        webhook = await self.get(name)
        await Queues(self._app).pause(WEBHOOKS_QUEUE, group=webhook.name, for_=for_, until=until, by=by)

    async def resume(self, name: str, *, by: str = "system") -> None:
        """Deliveries to a webhook start again."""
        webhook = await self.get(name)
        await Queues(self._app).resume(WEBHOOKS_QUEUE, group=webhook.name, by=by)

    async def deliver(self, name: str, payload: Any = None, **options: Any) -> Receipt:
        """Enqueue a delivery to a webhook, with the options of `DeclaredWebhook.deliver`."""
        call, arguments = await self.call(name, payload, options)
        return await call.aenqueue(**arguments)

    async def call(self, name: str, payload: Any, options: Mapping[str, Any]) -> tuple[Call[Any], dict[str, Any]]:
        """The call that a delivery to a webhook is, and its arguments. Nothing is written."""
        webhook = await self.get(name)
        refuse_lost_payload(payload, webhook.method, webhook.body)
        call = call_of(self._app.builtin[DELIVER], webhook.name, carried_of(webhook), options)
        return call, {"webhook": webhook.name, "payload": payload}

    async def retry(self, ref: int | UUID, *, by: str = "system") -> Job:
        """Repeat a delivery that has ended, by a new one that says which it repeats. Raises Conflict if it has not."""
        job, _ = await self.execution(ref)
        return await Changing(self._app).retry(job.id, by=by)

    # --- what code declares -------------------------------------------------------------------------------------

    async def declare(self, connected: Connected, declared: DeclaredWebhook) -> None:
        """Make the stored webhook what the code declares. One that was disabled by hand stays so."""
        by = f"code:{self._app.name}"

        async def declare() -> bool | None:
            current, now = await self._stored(connected, declared.name), connected.now()
            made = webhook_of(declared.fields, now, by)
            if current is not None and not current.deleted:
                if current.declared_by is None:
                    raise Conflict(
                        f"webhook {declared.name!r} was made at run time by {current.created_by}, and the code "
                        "declares one of the same name: delete or rename one of them"
                    )
                made = _with_fields(current, declared.fields)
            wanted = dataclasses.replace(made, declared_by=self._app.name)
            if current is not None and wanted == current:
                return True
            written = await self._written(connected, current, wanted, now, None, by)
            return None if written is None else True

        await compare_and_set(f"webhook {declared.name!r}", declare)

    async def declare_all(self, connected: Connected, *, dials: bool = True) -> None:
        """Store what the code declares. With `dials`, the log says which addresses the egress guard will refuse."""
        if self._app.webhooks:
            await share_out(connected, self._app.settings.webhooks_per_endpoint)
        for declared in self._app.webhooks.values():
            if dials:
                self._warn_of_target(declared)
            try:
                await self.declare(connected, declared)
            except Conflict as error:  # one that cannot be declared does not keep a worker from working
                _log.error("webhook %s cannot be declared: %s", declared.name, error)

    def _warn_of_target(self, declared: DeclaredWebhook) -> None:
        try:
            self._check_target(declared.fields["url"])
        except InvalidWebhook as error:
            _log.error("webhook %s: every delivery will fail: %s", declared.name, error)

    # --- the write ----------------------------------------------------------------------------------------------

    def _check_target(self, url: str) -> None:
        check_at_save(url, Allowed.parse(self._app.settings.webhooks_allow))

    def _checked_change(self, current: Webhook, fields: Mapping[str, Any]) -> dict[str, Any]:
        # A template is checked against its content type, so that both are handed in.
        beside = {"body": current.body, "content_type": current.content_type}
        checked = checked_fields({**beside, **fields})
        if "url" in checked:
            self._check_target(checked["url"])
        return checked

    async def _refuse_target(self, connected: Connected, name: str) -> None:
        schedules = connected.store.schedules
        page = await schedules.delivering_to(name, limit=1000)
        while page:
            for schedule in page:
                target = f"webhook {name!r} is the target of schedule {schedule.name!r}"
                if schedule.declared_by is None:
                    raise Conflict(f"{target}: delete that first")
                if schedule.enabled:  # one that the code has given up is disabled, and cannot be deleted by itself
                    where = f"in the code of {schedule.declared_by!r}"
                    raise Conflict(f"{target}, which is declared {where}: remove it there first, or disable it")
            page = await schedules.delivering_to(name, page[-1].name, 1000) if len(page) == 1000 else []

    async def _edited(self, name: str, edit: Callable[[Webhook], Webhook], changed_by: str, action: str) -> Webhook:
        by, connected = checked_name(changed_by, "changed_by"), await self._connected()

        async def change() -> Webhook | None:
            current, now = await self.get(name), connected.now()
            wanted = edit(current)
            return current if wanted == current else await self._written(connected, current, wanted, now, action, by)

        return await compare_and_set(f"webhook {name!r}", change)

    async def _written(
        self, connected: Connected, current: Webhook | None, wanted: Webhook, now: datetime, action: str | None, by: str
    ) -> Webhook | None:
        """The webhook as it was written; None if another change came in between."""
        version = 0 if current is None else current.version
        told, note = carried_of(wanted), None if action is None else _note(action, by, current, wanted)
        changed = dataclasses.replace(wanted, updated_at=now)
        if current is not None and current.deleted and not wanted.deleted:
            changed = dataclasses.replace(changed, deleted_at=current.deleted_at)
        took = await connected.store.webhooks.write(
            changed, version, now, options=(told.options, told.max_retries), note=note
        )
        return await self._stored(connected, wanted.name) if took else None

    async def _stored(self, connected: Connected, name: str) -> Webhook | None:
        found = await connected.store.webhooks.get([name])
        return found[0] if found else None


def _with_the_latest(job: Job, ended: builtins.list[Attempt]) -> builtins.list[Attempt]:
    """With the attempt that is under way, if one is."""
    if job.state != "running" or job.started_at is None:
        return ended
    latest = Attempt(
        job.id, job.attempt + 1, job.claim_no, job.node_id, job.started_at, None, "running", None, job.details
    )
    return [*ended, latest]


def carried_of(webhook: Webhook) -> Carried:
    """What deliveries carry that are made now."""
    fields = {"method": webhook.method, "content_type": webhook.content_type, "body": webhook.body}
    return carried_by({**fields, "retry": ladder_of(webhook.retry)})


def webhook_of(fields: Mapping[str, Any], now: datetime, by: str) -> Webhook:
    """A webhook that is not stored yet, of fields that were checked."""
    return _with_fields(_new(fields, now, by), fields)


def _new(fields: Mapping[str, Any], now: datetime, by: str) -> Webhook:
    ladder = json.dumps(fields["retry"].stored())
    return Webhook(
        id=0, name=fields["name"], description="", url="", method="", headers={}, content_type="", body=None,
        timeout=0.0, secrets=(), retry=ladder, redirects=0, ca=None, certificate=None, enabled=True, reason=None,
        declared_by=None, version=0, created_by=by, created_at=now, updated_at=now,
    )  # fmt: skip


def _with_fields(webhook: Webhook, checked: Mapping[str, Any]) -> Webhook:
    fields = {name: value for name, value in checked.items() if name != "name"}
    if "retry" in fields:
        fields["retry"] = json.dumps(fields["retry"].stored())
    if "enabled" in fields:
        fields["reason"] = None if fields["enabled"] else BY_HAND
    return dataclasses.replace(webhook, **fields)


def _refuse_code(webhook: Webhook) -> None:
    if webhook.declared_by is not None:
        raise Conflict(
            f"webhook {webhook.name!r} is declared in the code of {webhook.declared_by!r}: change it there, or "
            "disable it"
        )


def _note(action: str, by: str, before: Webhook | None, after: Webhook) -> Note:
    was = None if before is None or before.deleted else _shown(before)
    return audit_entries.of_webhook(action, by, after.name, was, None if after.deleted else _shown(after))


def _shown(webhook: Webhook) -> dict[str, Any]:
    """What the audit log shows of a webhook: no secret, and no value of a header that may be one."""
    fields = {name: getattr(webhook, name) for name in ("url", *NAMES, "enabled")}
    hidden = {"headers": redacted(webhook.headers), "secrets": redacted_secrets(webhook.secrets)}
    return {**fields, **hidden, "retry": json.loads(webhook.retry)}
