"""Deliveries to webhooks: when they are sent, what they carry, what counts as delivered, and breakers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple

from oncue.engine.context import current
from oncue.errors import Fail, Retry, StoreError
from oncue.model import Claim, Webhook
from oncue.policy import breaker, http
from oncue.policy.breaker import Circuit, Evidence, Transition
from oncue.policy.deliveries import Form
from oncue.policy.retry import Ladder
from oncue.policy.templates import DeliveryFacts
from oncue.webhooks import delivery
from oncue.webhooks.delivery import Deliveries, Target
from oncue.webhooks.lookups import EndpointNow, Lookups
from oncue.webhooks.transport import NotSent, Request, Response, Transport
from tests.sim.bugs import runs
from tests.sim.bugs.kit import Patch, bug

OWN = "oncue, until its simulator had deliveries: "
SPACED = "attempts of a delivery are spaced by its ladder"
BOUNDED = "a delivery is sent as often as its ladder says"
OFF = "a deleted or disabled webhook is sent nothing"
AS_MADE = "a delivery is sent as it was made"
ONE_ID = "a delivery has one id and one body"
CHARGED = "only what was sent is charged"


class _Around(NamedTuple):
    """A transport that sends in another way."""

    transport: Transport
    way: Callable[[Transport, Request], Awaitable[Response]]

    async def send(self, request: Request) -> Response:
        return await self.way(self.transport, request)


def _send_by(patch: Patch, way: Callable[[Transport, Request], Awaitable[Response]]) -> None:
    real = patch.replace(Deliveries, "_opened", lambda deliveries: _Around(real(deliveries), way))


# --- when, and how often --------------------------------------------------------------------------------------------


@bug(
    "a retry that comes before its step",
    seen_in="Svix: jitter to both sides is applied last, so that a retry may come before the delay that it was given "
    "(svix/svix-webhooks#2200)",
    run=runs.deliveries,
    caught_by=SPACED,
)
def early_by_jitter(patch: Patch) -> None:
    def delay(self: Ladder, retry_count: int, dice: Random) -> float:
        return real(self, retry_count, dice) * dice.uniform(0.8, 1.2)  # type: ignore[no-any-return]

    real = patch.replace(Ladder, "delay", delay)


@bug(
    "a Retry-After that nobody reads",
    seen_in="Svix: a destination that answered 429 with a Retry-After was called again by the sender's own schedule "
    "(svix/svix-webhooks#2200)",
    run=runs.outages,
    caught_by=SPACED,
)
def retry_after_ignored(patch: Patch) -> None:
    patch.replace(http, "retry_after", lambda headers, now: None)


@bug(
    "a Retry-After that is believed whatever it says",
    seen_in="senders without a cap: one wrong header parks a delivery for a day (PostHog/posthog#93061 adds one)",
    run=runs.outages,
    caught_by=SPACED,
)
def retry_after_unbounded(patch: Patch) -> None:
    patch.replace(http, "LONGEST_RETRY_AFTER", 1e9)


@bug(
    "a client that tries again below the queue",
    seen_in="senders whose HTTP client has retries of its own: each attempt of the queue is several requests "
    "(mlflow/mlflow#16893)",
    run=runs.deliveries,
    caught_by=BOUNDED,
)
def retries_in_the_client(patch: Patch) -> None:
    async def send(transport: Transport, request: Request) -> Response:
        try:
            return await transport.send(request)
        except NotSent:
            return await transport.send(request)

    _send_by(patch, send)


@bug(
    "a request that goes on after its delivery",
    seen_in="senders that fire and forget: what a task of its own sends later does not know how the delivery ended",
    run=runs.deliveries,
    caught_by=("a delivery that has ended is not sent", BOUNDED),
)
def sent_in_the_background(patch: Patch) -> None:
    async def again(transport: Transport, request: Request) -> None:
        await asyncio.sleep(1.0)
        await transport.send(request)

    async def send(transport: Transport, request: Request) -> Response:
        response = await transport.send(request)
        if response.status == 404:
            tasks.append(asyncio.get_running_loop().create_task(again(transport, request)))
        return response

    tasks: list[Any] = []
    _send_by(patch, send)


# --- what counts as delivered ---------------------------------------------------------------------------------------


@bug(
    "any answer counts as delivered",
    seen_in="kamu: a webhook whose target answered 404 was a success (kamu-data/kamu-cli#1335)",
    run=runs.deliveries,
    caught_by="what is delivered was answered with 2xx",
)
def any_answer_delivers(patch: Patch) -> None:
    patch.replace(http, "outcome", lambda status: "delivered")


@bug(
    "a time-out that is final",
    seen_in="senders that give up on whatever is no answer, as if it were a 4xx",
    run=runs.deliveries,
    caught_by="an attempt ends as its endpoint answered",
)
def no_answer_is_final(patch: Patch) -> None:
    patch.replace(delivery, "_no_answer", lambda error: Fail(error.message))


@bug(
    "an error of the database that costs an attempt",
    seen_in=OWN + "the look-up of a webhook failed, and its delivery had one try less",
    run=runs.deliveries,
    caught_by=CHARGED,
)
def charged_for_the_database(patch: Patch) -> None:
    async def looked_up(self: Deliveries, *asked: Any) -> Any:
        try:
            return await real(self, *asked)
        except StoreError as error:
            raise Retry(str(error)) from None

    real = patch.replace(Deliveries, "_looked_up", looked_up)


@bug(
    "an open breaker that costs an attempt",
    seen_in="senders whose breaker raises like the endpoint itself: a delivery uses up its retries and sends nothing",
    run=runs.outages,
    caught_by=CHARGED,
)
def charged_for_the_breaker(patch: Patch) -> None:
    def refuse(claim: Claim, found: EndpointNow, now: datetime) -> None:
        if found.trips and found.paused_until is not None and found.paused_until > now:
            raise Retry("the circuit breaker is open")

    patch.replace(delivery, "_wait_for_breaker", refuse)


# --- what is sent, and where to -------------------------------------------------------------------------------------


@bug(
    "a new id for each attempt",
    seen_in="go-service: each retry of an event minted a webhook-id of its own, and no receiver could tell "
    "(alexfalkowski/go-service#3077)",
    run=runs.deliveries,
    caught_by=ONE_ID,
)
def an_id_of_its_own(patch: Patch) -> None:
    def sign(secrets: Any, message_id: str, now: datetime, body: bytes) -> dict[str, str]:
        return real(secrets, f"{message_id}-{current.get().claim.attempt}", now, body)  # type: ignore[no-any-return]

    real = patch.replace(delivery, "sign", sign)


@bug(
    "a body that is made anew with the time of the attempt",
    seen_in="Documenso: createdAt was the time of the attempt, so that two attempts of one event had different bodies "
    "(documenso/documenso#3204)",
    run=runs.deliveries,
    caught_by=ONE_ID,
)
def a_body_with_the_hour(patch: Patch) -> None:
    def facts(uid: str, webhook: str | None, slot: datetime | None, made: datetime, payload: Any) -> DeliveryFacts:
        return real(uid, webhook, slot, made + timedelta(seconds=current.get().claim.attempt), payload)  # type: ignore[no-any-return]

    real = patch.replace(delivery, "DeliveryFacts", facts)


@bug(
    "a body by the template of today",
    seen_in="senders that keep the event and make the body when they send: an edit changes what was already promised",
    run=runs.edits,
    caught_by=AS_MADE,
)
def rendered_by_the_edited_template(patch: Patch) -> None:
    def target_now(name: str, webhook: Webhook | None, claim: Claim) -> Target:
        if webhook is not None:
            forms[claim.id] = Form(webhook.method, webhook.content_type, webhook.body)
        return real(name, webhook, claim)  # type: ignore[no-any-return]

    forms: dict[int, Form] = {}
    real = patch.replace(delivery, "_target_now", target_now)
    form_of = patch.replace(delivery, "form_of", lambda stored: forms.get(current.get().claim.id) or form_of(stored))


@bug(
    "an edit that does not reach the schedules of its webhook",
    seen_in="schedulers that copy a target's settings when the schedule is made, and never again",
    run=runs.edits,
    caught_by=AS_MADE,
)
def schedules_not_told(patch: Patch) -> None:
    patch.sql("retell_schedules", "where group_name = :name", "where false and group_name = :name")


@bug(
    "a webhook that is remembered",
    seen_in="senders that cache endpoints: after an edit they call the old URL until they are restarted",
    run=runs.edits,
    caught_by=("a delivery goes to where its webhook points", OFF),
)
def remembered(patch: Patch) -> None:
    async def find(self: Lookups, webhook: str | None, group: str) -> EndpointNow:
        found: EndpointNow = await real(self, webhook, group)
        kept = cache.setdefault((id(self), webhook), found.webhook)
        return found._replace(webhook=kept or found.webhook)

    cache: dict[tuple[int, str | None], Webhook | None] = {}
    real = patch.replace(Lookups, "find", find)


@bug(
    "a deleted webhook that is still sent to",
    seen_in="Keygen: retries of a failed event went on after its endpoint was deleted (keygen-sh/keygen-api#139)",
    run=runs.edits,
    caught_by=OFF,
)
def sent_though_deleted(patch: Patch) -> None:
    def target_now(name: str, webhook: Webhook | None, claim: Claim) -> Target:
        alive = None if webhook is None else replace(webhook, deleted=False, deleted_at=None)
        return real(name, alive, claim)  # type: ignore[no-any-return]

    real = patch.replace(delivery, "_target_now", target_now)


@bug(
    "a webhook made anew that inherits deliveries",
    seen_in="senders that know endpoints by their names: who takes a name that was freed gets the last owner's events",
    run=runs.edits,
    caught_by=OFF,
)
def inherited(patch: Patch) -> None:
    def target_now(name: str, webhook: Webhook | None, claim: Claim) -> Target:
        return real(name, None if webhook is None else replace(webhook, deleted_at=None), claim)  # type: ignore[no-any-return]

    real = patch.replace(delivery, "_target_now", target_now)


# --- breakers -------------------------------------------------------------------------------------------------------


@bug(
    "a breaker that never closes",
    seen_in="disyuntor: after a call that succeeded in the half-open state it stayed half open (auth0/disyuntor#6)",
    run=runs.outages,
    caught_by="a breaker closes when its endpoint answers",
)
def never_closes(patch: Patch) -> None:
    def after(circuit: Circuit, evidence: Evidence | None, now: datetime, threshold: int) -> Any:
        found, transition = real(circuit, evidence, now, threshold)
        return found, transition if transition is None or transition.trips else None

    real = patch.replace(breaker, "after", after)


@bug(
    "a half-open breaker that lets everything through",
    seen_in="opossum: half open did not count as open, and all new requests passed (nodeshift/opossum#119)",
    run=runs.outages,
    caught_by="a group keeps its limit",
)
def all_at_once(patch: Patch) -> None:
    patch.sql("groups_in_turn", "case when g.trips > 0 then 1 else", "case when false then 1 else")


@bug(
    "a breaker that forgets a failed probe",
    seen_in="JRugged: a call that failed in the half-closed state closed the breaker, which then counted from the "
    "start (Comcast/jrugged#21)",
    run=runs.outages,
    caught_by="a failed probe keeps its breaker open for longer",
)
def failed_probe_forgotten(patch: Patch) -> None:
    def after(circuit: Circuit, evidence: Evidence | None, now: datetime, threshold: int) -> Any:
        found, transition = real(circuit, evidence, now, threshold)
        return found, None if circuit.trips and transition is not None and transition.trips else transition

    real = patch.replace(breaker, "after", after)


@bug(
    "a breaker that opens for a moment",
    seen_in="breakers whose pause is counted in the wrong unit: the endpoint is called again before it can recover",
    run=runs.outages,
    caught_by="a breaker opens by the failures of its own endpoint",
)
def open_for_a_moment(patch: Patch) -> None:
    def after(circuit: Circuit, evidence: Evidence | None, now: datetime, threshold: int) -> Any:
        found, transition = real(circuit, evidence, now, threshold)
        if transition is not None and transition.trips:
            until = now + (transition.paused_until - now) / 1000
            transition = Transition(transition.known_trips, transition.trips, until)
        return found, transition

    real = patch.replace(breaker, "after", after)


class _OneCount(dict[str, int]):
    """Has one entry, whatever the key."""

    def get(self, key: str, default: Any = None) -> Any:
        return super().get("all", default)

    def __setitem__(self, key: str, value: int) -> None:
        super().__setitem__("all", value)

    def pop(self, key: str, default: Any = None) -> Any:
        return super().pop("all", default)


@bug(
    "one breaker's count for all endpoints",
    seen_in="services with one breaker around their HTTP client: the failures of one host shut out all the others",
    run=runs.outages,
    caught_by="a breaker opens by the failures of its own endpoint",
)
def one_count_for_all(patch: Patch) -> None:
    def judge(self: Deliveries, *told: Any) -> Any:
        if not isinstance(self._failures, _OneCount):
            self._failures = _OneCount()
        return real(self, *told)

    real = patch.replace(Deliveries, "_judge", judge)
