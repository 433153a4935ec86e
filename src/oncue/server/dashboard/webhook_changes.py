"""What an operator does with a webhook: pause it, enable it, deliver to it, delete it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncue.errors import InvalidJob, InvalidWebhook
from oncue.model import WEBHOOKS_QUEUE
from oncue.policy.durations import describe
from oncue.server.api.problems import invalid
from oncue.server.dashboard.deeds import Done, whole
from oncue.server.dashboard.typed import duration, json_value

if TYPE_CHECKING:
    from oncue.server.dashboard.deeds import Deed
    from oncue.server.dashboard.pages import Dashboard

EXAMPLE = '{"order": 7}'
NONE = "none"
"""What takes a limit back: then that of the queue holds."""
LIMITS = {"per_group": "share", "rate_per_group": "rate"}
"""What the page calls a field of the verb."""


def add(dashboard: Dashboard) -> None:
    _add_switches(dashboard)
    _add_deliveries(dashboard)


def _add_switches(dashboard: Dashboard) -> None:
    @dashboard.action("/webhooks/pause", needs="operate")
    async def pause(deed: Deed) -> Done:
        name, length = deed.text("name"), duration("for", deed.maybe("for"))
        try:
            await deed.app.webhooks.pause(name, for_=length, by=deed.by)
        except InvalidJob as error:  # it calls the field as Python does
            raise invalid("for", str(error).removeprefix(f"{error.field}: ")) from None
        ends = "until it is resumed" if length is None else f"for {describe(length)}"
        return Done(f"{name} is paused {ends}: its deliveries wait.")

    @dashboard.action("/webhooks/resume", needs="operate")
    async def resume(deed: Deed) -> Done:
        name = deed.text("name")
        await deed.app.webhooks.resume(name, by=deed.by)
        return Done(f"{name} is resumed: what waits is sent.")

    @dashboard.action("/endpoints/resume", needs="operate")
    async def resume_endpoint(deed: Deed) -> Done:
        """Of a URL that no webhook stands for."""
        endpoint = deed.text("endpoint")
        await deed.app.queues.resume(WEBHOOKS_QUEUE, group=endpoint, by=deed.by)
        return Done(f"{endpoint} is resumed: what waits is sent.")

    @dashboard.action("/webhooks/limit", needs="operate")
    async def limit(deed: Deed) -> Done:
        """A field that is empty stays as it is."""
        webhook = await deed.app.webhooks.get(deed.text("name"))
        limits: dict[str, Any] = {}
        if (share := deed.maybe("share")) is not None:
            limits["per_group"] = None if share == NONE else whole("share", share)
        if (rate := deed.maybe("rate")) is not None:
            limits["rate_per_group"] = None if rate == NONE else rate
        if not limits:
            raise invalid("share", f"expected a share or a rate; {NONE} takes one back")
        try:
            await deed.app.queues.limit(WEBHOOKS_QUEUE, group=webhook.name, by=deed.by, **limits)
        except InvalidJob as error:  # it calls the fields as the verb does
            field = LIMITS.get(error.field, error.field)
            raise invalid(field, str(error).removeprefix(f"{error.field}: ")) from None
        return Done(f"The limits of {webhook.name} are set.")

    @dashboard.action("/webhooks/toggle", needs="operate")
    async def toggle(deed: Deed) -> Done:
        name, enabled = deed.text("name"), deed.text("enabled")
        if enabled not in ("yes", "no"):
            raise invalid("enabled", f"expected yes or no, not {enabled!r:.60}")
        await deed.app.webhooks.toggle(name, enabled == "yes", changed_by=deed.by)
        told = "enabled" if enabled == "yes" else "disabled: its deliveries are skipped"
        return Done(f"{name} is {told}.")

    @dashboard.action("/webhooks/delete", needs="operate")
    async def delete(deed: Deed) -> Done:
        name = deed.text("name")
        await deed.app.webhooks.delete(name, changed_by=deed.by)
        return Done(f"{name} is deleted.", go="/webhooks")


def _add_deliveries(dashboard: Dashboard) -> None:
    @dashboard.action("/webhooks/deliver", needs="enqueue")
    async def deliver(deed: Deed) -> Done:
        name, content = deed.text("name"), json_value("payload", deed.maybe("payload"), EXAMPLE)
        options = {"key": deed.maybe("key"), "enqueued_by": deed.by}
        try:
            receipt = await deed.app.webhooks.deliver(name, content, **options)
        except InvalidJob as error:
            if error.field != "args":
                raise
            raise InvalidWebhook("payload", str(error).removeprefix("args: ")) from None
        if not receipt.created:
            return Done(f"Nothing was written: execution {receipt.id} has this key and is not finished.")
        return Done("", go=f"/executions/{receipt.uid}")
