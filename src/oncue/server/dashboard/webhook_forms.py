"""The form of a webhook: what it shows of one that there is, and what its fields mean.

No secret and no value of a header that may be one goes into the form. What was hidden and comes back as it was shown
stays what it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from oncue.errors import Conflict
from oncue.model import Webhook
from oncue.policy.content_types import JSON_TYPE
from oncue.policy.deliveries import ladder_of
from oncue.policy.durations import describe
from oncue.policy.headers import HIDDEN
from oncue.policy.retry import DEFAULT_LADDER
from oncue.policy.webhooks import DEFAULT_TIMEOUT, METHODS
from oncue.server.api.problems import invalid
from oncue.server.dashboard.deeds import Done, whole
from oncue.webhooks.secrets import redacted, redacted_secrets

if TYPE_CHECKING:
    from oncue.server.dashboard.deeds import Deed
    from oncue.server.dashboard.pages import Dashboard
    from oncue.server.dashboard.view import View

TEXTS = ("url", "method", "headers", "content_type", "body", "timeout", "retry", "redirects", "ca", "certificate",
         "description")  # fmt: skip
"""The fields that a form has as a text."""
NONE = "none"
"""How a ladder without steps is written."""


def add(dashboard: Dashboard) -> None:
    @dashboard.page("/new-webhook", "webhook_form.html", title="New webhook", room="webhooks", needs="operate")
    async def new(view: View) -> dict[str, Any]:
        return {"shown": FRESH, "webhook": None, "secrets": [], "methods": METHODS, "hidden": HIDDEN}

    @dashboard.page("/edit-webhook", "webhook_form.html", title="Webhook", room="webhooks", needs="operate")
    @dashboard.page("/edit-webhook/{name:path}", "webhook_form.html", title="Webhook", room="webhooks", needs="operate")
    async def edit(view: View) -> dict[str, Any]:
        webhook = await view.app.webhooks.get(view.name)
        return {
            "title": f"Edit {webhook.name}", "shown": shown(webhook), "webhook": webhook, "methods": METHODS,
            "secrets": redacted_secrets(webhook.secrets), "hidden": HIDDEN,
        }  # fmt: skip

    @dashboard.action("/webhooks/create", needs="operate")
    async def create(deed: Deed) -> Done:
        texts = given(deed)
        fields = {name: read(name, text, {}) for name, text in texts.items() if text != FRESH[name]}
        secrets = _new_secrets(deed)
        made = await deed.app.webhooks.create(
            deed.text("name"), enabled=deed.has("enabled"), created_by=deed.by, secrets=secrets,
            **{"url": "", **fields},
        )  # fmt: skip
        return Done("", go=_place(made.name))

    @dashboard.action("/webhooks/edit", needs="operate")
    async def change(deed: Deed) -> Done:
        webhook = await deed.app.webhooks.get(deed.text("name"))
        if deed.number("version") != webhook.version:
            raise Conflict(f"webhook {webhook.name!r} was changed by others meanwhile: load the page again")
        known, texts = shown(webhook), given(deed)
        fields = {name: read(name, text, webhook.headers) for name, text in texts.items() if text != known[name]}
        secrets = _secrets(deed, webhook)
        if secrets != webhook.secrets:
            fields["secrets"] = secrets
        if fields:
            await deed.app.webhooks.change(webhook.name, changed_by=deed.by, **fields)
        return Done("", go=_place(webhook.name))


def _place(name: str) -> str:
    from urllib.parse import quote, urlencode

    if {"", ".", ".."} & set(name.split("/")):
        return f"/webhooks?{urlencode({'name': name})}"
    return f"/webhooks/{quote(name, safe='/:@')}"


# --- texts ----------------------------------------------------------------------------------------------------------


def shown(webhook: Webhook) -> dict[str, str]:
    """The fields of a webhook as its form shows them."""
    return {
        "url": webhook.url, "method": webhook.method, "content_type": webhook.content_type,
        "headers": "\n".join(f"{name}: {value}" for name, value in redacted(webhook.headers).items()),
        "body": _tidy(webhook.body or ""), "timeout": describe(webhook.timeout),
        "retry": _steps(ladder_of(webhook.retry).steps), "redirects": str(webhook.redirects), "ca": webhook.ca or "",
        "certificate": webhook.certificate or "", "description": _tidy(webhook.description),
    }  # fmt: skip


def _steps(steps: tuple[float, ...]) -> str:
    return ", ".join(map(describe, steps)) or NONE


FRESH = {
    "url": "", "method": "POST", "headers": "", "content_type": JSON_TYPE, "body": "",
    "timeout": describe(DEFAULT_TIMEOUT), "retry": _steps(DEFAULT_LADDER.steps), "redirects": "0", "ca": "",
    "certificate": "", "description": "",
}  # fmt: skip
"""What the form of a new webhook shows."""


def _tidy(text: str) -> str:
    return text.replace("\r\n", "\n").strip()


def given(deed: Deed) -> dict[str, str]:
    """The fields that a form has, as they were typed."""
    return {name: _tidy(deed.maybe(name) or "") for name in TEXTS if deed.has(name)}


def read(name: str, text: str, known: Mapping[str, str]) -> Any:
    """What a field means. `known` are the headers, of which some were hidden."""
    match name:
        case "headers":
            return headers(text, known)
        case "retry":
            steps = [step.strip() for step in text.split(",")]
            return [] if text.lower() in ("", NONE) else [float(step) if step.isdecimal() else step for step in steps]
        case "timeout":
            return float(text) if text.isdecimal() and len(text) < 10 else text
        case "redirects":
            return whole("redirects", text or "0")
        case "body" | "ca" | "certificate":
            return text or None
    return text


def headers(text: str, known: Mapping[str, str]) -> dict[str, str]:
    """`Name: value`, one in a line. A complaint never repeats a value: it may be a secret."""
    found: dict[str, str] = {}
    stored = {name.lower(): value for name, value in known.items()}
    for number, line in enumerate(filter(None, map(str.strip, text.split("\n"))), 1):
        name, colon, value = line.partition(":")
        name, value = name.strip(), value.strip()
        if not colon or not name:
            raise invalid("headers", f"line {number}: expected 'Name: value'")
        if name.lower() in map(str.lower, found):
            raise invalid("headers", f"{name:.100} is there twice")
        found[name] = stored.get(name.lower(), value) if value == HIDDEN else value
    return found


# --- secrets --------------------------------------------------------------------------------------------------------


def _new_secrets(deed: Deed) -> tuple[str, ...]:
    return tuple((deed.maybe("secrets") or "").split())


def _secrets(deed: Deed, webhook: Webhook) -> tuple[str, ...]:
    """The new ones first, then those of the stored ones that are kept."""
    kept = set(map(str.strip, deed.many("keep")))
    known = [secret for number, secret in enumerate(webhook.secrets) if str(number) in kept]
    return tuple(dict.fromkeys((*_new_secrets(deed), *known)))
