"""Bodies about webhooks, deliveries and executions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import ConfigDict, Field, StrictBool, StrictInt, StrictStr, WithJsonSchema

from oncue.policy.checks import LONGEST_KEY, LONGEST_NAME
from oncue.policy.headers import MOST_HEADERS
from oncue.policy.urls import LONGEST_URL
from oncue.policy.webhooks import LONGEST_DESCRIPTION, METHODS, MOST_REDIRECTS, MOST_SECRETS, MOST_STEPS
from oncue.records.documents import rules
from oncue.records.webhooks import WEBHOOK_EXAMPLE, ExecutionRecord, WebhookDetail, WebhookRecord
from oncue.server.api.models.base import WHOLE, Body, DurationValue, InstantText, Priority, Record
from oncue.server.api.models.control import GroupRecord

# What may be a secret, or may hold one, is read as it is and checked by the verbs: their complaints repeat no value,
# while those of pydantic do.
_SECRET = {"type": "string", "examples": ["env:ONCUE_SECRET_ORDERS"]}
SecretsValue: TypeAlias = Annotated[
    Any, WithJsonSchema({"anyOf": [_SECRET, {"type": "array", "items": _SECRET, "maxItems": MOST_SECRETS}]})
]
HeadersValue: TypeAlias = Annotated[
    Any,
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": MOST_HEADERS}),
]
UrlValue: TypeAlias = Annotated[
    Any,
    WithJsonSchema({"type": "string", "maxLength": LONGEST_URL, "examples": ["https://shop.example/hooks/orders"]}),
]
MethodText: TypeAlias = Annotated[StrictStr, WithJsonSchema({"type": "string", "enum": [*METHODS]})]


class HowSent(Body):
    """How a request is sent."""

    method: MethodText | None = None
    headers: HeadersValue = Field(
        None, description="Sent with every request. A value may be a reference to the workers' environment: env:NAME."
    )
    content_type: StrictStr | None = Field(None, description="application/json by default.")
    body: StrictStr | None = Field(None, description="A template with placeholders; without one, the payload as it is.")
    timeout: DurationValue | None = Field(None, description="Of one attempt, from 1 to 60 seconds; 30 by default.")
    secrets: SecretsValue = Field(
        None, description="What signs: whsec_…, or a reference to the workers' environment. Several, to change them."
    )
    retry: list[DurationValue] | None = Field(
        None, max_length=MOST_STEPS, description="How long to wait before each further attempt; [] for no retries.",
        examples=[["30s", "2m", "10m"]],
    )  # fmt: skip
    redirects: Annotated[StrictInt, Field(ge=0, le=MOST_REDIRECTS), WHOLE] | None = Field(
        None, description="How many are followed; none by default."
    )
    ca: StrictStr | None = Field(None, description="A file in the workers' directory of certificates.")
    certificate: StrictStr | None = Field(None, description="A file there, with a certificate and its key.")


class NewWebhook(HowSent):
    """A webhook to be made. Null is the same as nothing."""

    model_config = ConfigDict(json_schema_extra={"examples": [WEBHOOK_EXAMPLE]})

    name: StrictStr = Field(min_length=1, max_length=LONGEST_NAME)
    url: UrlValue
    description: StrictStr | None = Field(None, max_length=LONGEST_DESCRIPTION)
    enabled: StrictBool | None = None


class WebhookChange(HowSent):
    """What shall be different. Fields that are absent keep their value; null clears `body`, `ca` and `certificate`, and
    is the same as nothing elsewhere."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"url": "https://shop.example/v2/orders"}]})

    url: UrlValue = None
    description: StrictStr | None = Field(None, max_length=LONGEST_DESCRIPTION)
    enabled: StrictBool | None = None


class WebhookPause(Body):
    """For how long; without either, until it is resumed."""

    model_config = ConfigDict(json_schema_extra={"examples": [{}, {"for": "10m"}]})

    until: InstantText | None = Field(default=None, description="Until this instant.")
    for_: DurationValue | None = Field(default=None, alias="for", description="For so long; or give `until`.")


class NewDelivery(Body):
    """A payload to be delivered."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"payload": {"order": 7, "event": "paid"}, "key": "order:7:paid"}]}
    )

    payload: Any = Field(None, description="Any JSON.")
    key: StrictStr | None = Field(
        None, min_length=1, max_length=LONGEST_KEY, description="At most one unfinished delivery has it."
    )
    delay: DurationValue | None = Field(None, description="Not before so long from now; or give `at`.")
    at: InstantText | None = Field(None, description="Not before this instant.")
    priority: Priority | None = None


class BareDelivery(NewDelivery, HowSent):
    """A payload to be delivered to a URL that no webhook stands for. Secrets are references: jobs show their
    arguments."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"url": "https://shop.example/hooks/orders", "payload": {"order": 7}}]}
    )

    url: UrlValue


# --- looking --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownWebhook(WebhookDetail):
    """A webhook with its endpoint: the group of its name in the queue `webhooks`."""

    __pydantic_config__: ClassVar[dict[str, Any]] = rules({"id": 3, **WEBHOOK_EXAMPLE, "enabled": True})

    endpoint: GroupRecord
    """What waits and runs of its deliveries, its pause, and its circuit breaker (`trips`)."""


class WebhookPage(Record):
    webhooks: list[WebhookRecord] = Field(description="By name.")
    next: str | None = Field(description="Where to go on; null on the last page. Also in the header Link.")


class ExecutionPage(Record):
    """There is no total: counting would take as long as there are executions."""

    executions: list[ExecutionRecord] = Field(description="Newest first.")
    next: str | None = Field(description="Where to go on; null on the last page. Also in the header Link.")
