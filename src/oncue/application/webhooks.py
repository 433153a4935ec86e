"""Webhooks that code declares, and how deliveries are enqueued."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from oncue.errors import InvalidWebhook
from oncue.model import DELIVER, Missed, Receipt
from oncue.policy.checks import checked_grace, checked_max_instances, checked_missed
from oncue.policy.content_types import JSON_TYPE
from oncue.policy.deliveries import Carried, Form, carried
from oncue.policy.durations import Duration
from oncue.policy.headers import HIDDEN
from oncue.policy.retry import DEFAULT_LADDER
from oncue.policy.secrets import is_reference
from oncue.policy.templates import has_body
from oncue.policy.urls import origin
from oncue.policy.webhooks import DEFAULT_TIMEOUT, checked_fields
from oncue.task import Call, Declared, Task, _Unset

if TYPE_CHECKING:
    from oncue.app import Oncue
    from oncue.policy.triggers import Rule

FIELDS: dict[str, Any] = {
    "description": "", "method": "POST", "headers": {}, "content_type": JSON_TYPE, "body": None,
    "timeout": DEFAULT_TIMEOUT, "secrets": (), "retry": DEFAULT_LADDER, "redirects": 0, "ca": None,
    "certificate": None,
}  # fmt: skip
"""What a webhook has beside its name and URL, and what that is by default."""
DELIVERIES_AT_ONCE, DELIVERY_GRACE = 100, "1d"
"""Of one schedule, unless it says otherwise: a delivery that is tried again does not hold up the next."""


class DeclaredWebhook:
    """A webhook that code declares: `orders = app.webhook("orders", url=…)`, then `orders.deliver(payload)`."""

    def __init__(
        self,
        app: Oncue,
        fields: Mapping[str, Any],
        rule: Rule | None,
        missed: Missed | _Unset,
        grace: Duration | _Unset,
        max_instances: int | _Unset,
    ) -> None:
        self._app = app
        self.fields = checked_fields({**FIELDS, **fields})
        self.name: str = self.fields["name"]
        self.carried = carried_by(self.fields)
        self.schedule = _declared(rule, missed, grace, max_instances, self.fields["description"])

    def __repr__(self) -> str:
        return f"<webhook {self.name}>"

    @property
    def task(self) -> Task[Any, Any]:
        """What its deliveries are jobs of."""
        return self._app.internals.builtin[DELIVER]

    def deliver(self, payload: Any = None, **options: Any) -> Receipt:
        """Enqueue a delivery. In async code use `adeliver`.

        Options are `key`, `delay`, `at`, `priority`, `enqueued_by` and `on`, as in `Task.using`: `on=session` writes it
        in the caller's own transaction.
        """
        return self._call(payload, options).enqueue(webhook=self.name, payload=payload)

    async def adeliver(self, payload: Any = None, **options: Any) -> Receipt:
        return await self._call(payload, options).aenqueue(webhook=self.name, payload=payload)

    def _call(self, payload: Any, options: Mapping[str, Any]) -> Call[Any]:
        refuse_lost_payload(payload, self.fields["method"], self.fields["body"])
        return call_of(self.task, self.name, self.carried, options)


def refuse_lost_payload(payload: Any, method: str, body: str | None) -> None:
    """A payload that no request would carry is a mistake of the caller."""
    if payload is not None and not has_body(method, body):
        raise InvalidWebhook("payload", f"expected none: a {method} without a template has no body")


def carried_by(fields: Mapping[str, Any]) -> Carried:
    """What deliveries of a webhook with these fields carry."""
    return carried(Form(fields["method"], fields["content_type"], fields["body"]), fields["retry"])


def call_of(task: Task[Any, Any], group: str, told: Carried, options: Mapping[str, Any]) -> Call[Any]:
    """A call whose jobs are deliveries to one endpoint."""
    unknown = set(options) - {"key", "delay", "at", "priority", "enqueued_by", "on"}
    if unknown:
        raise TypeError(f"deliver() has no option {min(unknown)!r}")
    key = options.get("key")
    if key is not None:
        options = {**options, "key": _key_of(group, key)}
    call = task.using(**options, group=group, max_retries=told.max_retries)
    call.carried = (told.options, told.max_runtime)
    return call


def _key_of(group: str, key: Any) -> Any:
    """One task delivers to all endpoints, and a key is one endpoint's own. The first colon ends the endpoint's name:
    else the key `b:c` of `a` would be the key `c` of `a:b`."""
    if callable(key):
        return lambda *args, **kwargs: _key_of(group, key(*args, **kwargs))
    if not isinstance(key, str) or not key:
        return key
    return f"{group.replace('%', '%25').replace(':', '%3A')}:{key}"


def bare_call(
    task: Task[Any, Any], url: str, payload: Any, fields: Mapping[str, Any], options: Mapping[str, Any]
) -> tuple[Call[Any], dict[str, Any]]:
    """The call and the arguments of a delivery to a URL that no webhook stands for."""
    checked = checked_fields({**FIELDS, **fields, "url": url})
    _refuse_stored_secrets(checked)
    refuse_lost_payload(payload, checked["method"], checked["body"])
    arguments: dict[str, Any] = {"url": checked["url"], "payload": payload}
    for name in ("headers", "secrets", "timeout", "redirects", "ca", "certificate"):
        value = list(checked[name]) if name == "secrets" else checked[name]
        if checked[name] != FIELDS[name]:
            arguments[name] = value
    return call_of(task, origin(checked["url"]), carried_by(checked), options), arguments


def _refuse_stored_secrets(fields: Mapping[str, Any]) -> None:
    """Arguments of jobs are shown to everybody who may look at jobs."""
    from oncue.webhooks.secrets import redacted

    if any(not is_reference(secret) for secret in fields["secrets"]):
        raise InvalidWebhook("secrets", "expected references (env:ONCUE_SECRET_ORDERS): a job shows its arguments")
    for name, value in redacted(fields["headers"]).items():
        if value == HIDDEN:
            expected = "a reference such as env:ONCUE_SECRET_TOKEN: a job shows its arguments; or make it a webhook"
            raise InvalidWebhook("headers", f"{name}: expected {expected}")


def _declared(
    rule: Rule | None,
    missed: Missed | _Unset,
    grace: Duration | _Unset,
    max_instances: int | _Unset,
    description: str,
) -> Declared | None:
    from oncue.policy.triggers import Rule

    if rule is None:
        for name, value in {"missed": missed, "grace": grace, "max_instances": max_instances}.items():
            if not isinstance(value, _Unset):
                raise InvalidWebhook(name, "only webhooks with a schedule= have one")
        return None

    if not isinstance(rule, Rule):
        raise InvalidWebhook("schedule", f'expected cron("*/5 * * * *"), not {rule!r:.100}')
    return Declared(
        rule,
        checked_missed("latest" if isinstance(missed, _Unset) else missed),
        checked_grace(DELIVERY_GRACE if isinstance(grace, _Unset) else grace),
        checked_max_instances(DELIVERIES_AT_ONCE if isinstance(max_instances, _Unset) else max_instances),
        description,
    )
