"""One attempt of a delivery: find its webhook, make the request, sign it, send it, and say what came of it.

What is read at each attempt (URL, headers, secrets, time-out, redirects, TLS files) is read here; what was fixed when
the delivery was made (body, method, content type, ladder) stands in its job.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from oncue.engine.context import JobContext, RunningJob, current
from oncue.engine.delivery_lines import log_postponed
from oncue.errors import Fail, InvalidWebhook, Postpone, Retry, Skip, StoreError, UnusableSecret
from oncue.model import Claim, Webhook
from oncue.policy import breaker, http
from oncue.policy.deliveries import Form, form_of
from oncue.policy.templates import DeliveryFacts, rendered
from oncue.policy.urls import origin
from oncue.telemetry import Telemetry
from oncue.webhooks.echoes import failure_without_echo, response_without_echo
from oncue.webhooks.lookups import EndpointNow, Lookups, OpenStore
from oncue.webhooks.secrets import resolved_headers, resolved_secrets
from oncue.webhooks.shares import share_out
from oncue.webhooks.signing import sign
from oncue.webhooks.slow_endpoints import SlowEndpoints
from oncue.webhooks.transport import NotSent, Request, Response, Transport

DELETED, DISABLED, UNKNOWN = "webhook_deleted", "webhook_disabled", "webhook_unknown"
EXCERPT_IN_ERROR = 200
MOST_FAILING = 10_000
"""Of so many endpoints failures are counted. Of more, those that have failed least lately are forgotten: there may be
an endpoint for every URL that somebody once typed."""
DATABASE_PAUSE = 2.0
"""Seconds until a delivery is tried again whose attempt could not ask the database."""
NO_ROOM_PAUSE, NO_ROOM_LINES = 10.0, timedelta(minutes=1)
"""For how many seconds a delivery is put off that finds no room on its host, and how often the log says so."""
TRIP_SECONDS = 2.0
"""How long an attempt whose outcome is known waits until its breaker is written: it must not be cut off for that."""

_log = logging.getLogger("oncue.webhooks")


class Target(NamedTuple):
    """Where an attempt goes, and how: of a webhook as it is now, or of a bare URL as it was asked for."""

    url: str
    headers: Mapping[str, str]
    secrets: tuple[str, ...]
    timeout: float
    redirects: int
    ca: str | None
    certificate: str | None


class Deliveries:
    """The deliveries of one process."""

    def __init__(
        self,
        connected: Callable[[], Awaitable[OpenStore]],
        make_transport: Callable[[], Transport],
        environ: Mapping[str, str],
        telemetry: Telemetry,
        threshold: Callable[[], int],
        share: Callable[[], int],
        slow: SlowEndpoints | None = None,
    ) -> None:
        """`threshold`: so many failures in a row open the circuit breaker of an endpoint; 0 turns it off. `share`: how
        many deliveries to one endpoint run at once, unless an operator says otherwise."""
        self._slow = SlowEndpoints() if slow is None else slow
        self._connected = connected
        self._make_transport = make_transport
        self._environ = environ
        self._telemetry = telemetry
        self._threshold = threshold
        self._share = share
        self._transport: Transport | None = None
        self._lookups = Lookups(connected)
        self._no_room_told_at: datetime | None = None
        self._failures: dict[str, int] = {}
        """Of each endpoint, in a row, in this process."""

    async def attempt(self, webhook: str | None, payload: Any, bare: Target | None) -> None:
        """Deliver the job that runs here, to its webhook or to a bare URL. Returns once it is delivered; raises what
        else is to become of the job."""
        running = current.get()
        endpoint = _endpoint_of(running.claim, webhook, bare)
        if endpoint is not None and endpoint in self._slow.names:
            await self._slow.admit(running, endpoint)
        try:
            await self._attempt(running, endpoint, webhook, payload, bare)
        finally:
            self._slow.ended(running)

    async def _attempt(
        self, running: RunningJob, endpoint: str | None, webhook: str | None, payload: Any, bare: Target | None
    ) -> None:
        claim, job = running.claim, JobContext(running)
        try:
            found = await self._looked_up(webhook, claim.queue, endpoint)
        except StoreError as error:  # nothing was sent, and the endpoint has no part in it: it costs no retry
            log_postponed(claim, f"the database could not be asked: {error}")
            raise Postpone(DATABASE_PAUSE, f"the database could not be asked: {error}") from None
        _wait_for_breaker(endpoint, found, found.connected.now())
        target = _target_now(webhook, found.webhook, claim) if webhook is not None else bare
        assert target is not None
        request = self._request(target, webhook, payload, claim, found.connected.now())
        if endpoint is not None:
            self._slow.sends(running, endpoint)
        try:
            response = response_without_echo(await self._opened().send(request), request)
        except NotSent as error:
            if error.is_ours:
                self._tell_no_room(found.connected.now(), error)
                raise Postpone(NO_ROOM_PAUSE, f"this host has no room for another connection: {error}") from None
            job.details(failed=error.kind)
            self._tell(claim, webhook, error.kind, 0.0)
            await self._judge(claim.queue, endpoint, found, breaker.evidence_of_not_sent(error.kind))
            raise _no_answer(failure_without_echo(error, request)) from None
        self._slow.answered(running)
        job.details(**_told(response))
        self._tell(claim, webhook, http.outcome(response.status), response.seconds)
        await self._judge(claim.queue, endpoint, found, breaker.evidence_of_status(response.status))
        _raise_unless_delivered(response, found.connected)

    def _tell_no_room(self, now: datetime, error: NotSent) -> None:
        """About once a minute: there may be thousands of deliveries."""
        if self._no_room_told_at is None or abs(now - self._no_room_told_at) >= NO_ROOM_LINES:
            self._no_room_told_at = now
            _log.warning(
                "deliveries are postponed, since this host has no room for another connection (%s): raise the limit of "
                "open files (LimitNOFILE in the unit, ulimit -n)", error,
            )  # fmt: skip

    async def _looked_up(self, webhook: str | None, queue: str, endpoint: str | None) -> EndpointNow:
        """What stands about its endpoint as this attempt begins. Raises StoreError."""
        if self._transport is None:
            await share_out(await self._connected(), self._share(), queue)
        return await self._lookups.find(webhook, endpoint or "")

    async def close(self) -> None:
        self._slow.close()
        if self._transport is not None:
            await self._transport.close()
            self._transport = None

    def _opened(self) -> Transport:
        if self._transport is None:
            self._transport = self._make_transport()
        return self._transport

    def _request(self, target: Target, webhook: str | None, payload: Any, claim: Claim, now: datetime) -> Request:
        """The request of this attempt. Raises Fail or Retry if it cannot be made."""
        facts = DeliveryFacts(str(claim.uid), webhook, claim.scheduled_for, claim.created_at, payload)
        try:
            return request_of(target, form_of(claim.options), facts, self._environ, now)
        except UnusableSecret as error:
            raise Retry(str(error)) from None  # another worker may have the variable
        except ValueError as error:
            raise Fail(f"the request cannot be made: {error}") from None

    def _tell(self, claim: Claim, webhook: str | None, outcome: str, seconds: float) -> None:
        if self._telemetry.wants("delivery"):
            self._telemetry.emit("delivery", {"seconds": seconds}, claim=claim, webhook=webhook, outcome=outcome)

    async def _judge(
        self, queue: str, group: str | None, found: EndpointNow, evidence: breaker.Evidence | None
    ) -> None:
        """Open or close the circuit breaker of an endpoint, if this attempt gives a reason to."""
        if group is None:
            return
        connected = found.connected
        if evidence == "up" and not found.trips and group not in self._failures:
            return  # as nearly all are
        threshold = self._threshold()
        if not threshold and not found.trips:
            return
        known = breaker.Circuit(found.trips, self._failures.get(group, 0))
        circuit, transition = breaker.after(known, evidence, connected.now(), threshold)
        self._failures.pop(group, None)
        if circuit.failures:
            self._failures[group] = circuit.failures  # as the latest
            if len(self._failures) > MOST_FAILING:
                del self._failures[next(iter(self._failures))]
        if transition is None:
            return
        try:
            async with asyncio.timeout(TRIP_SECONDS):
                took = await connected.store.groups.trip(
                    queue, group, *transition, connected.now(), known_until=found.paused_until
                )
        except (StoreError, TimeoutError) as error:  # what came of the delivery counts, and the next one judges again
            _log.warning("the circuit breaker of %s could not be written: %s", group, error or "no answer in time")
            return
        if took:
            _log_transition(group, transition)
            self._telemetry.emit("breaker", {"trips": transition.trips}, group=group)


def _endpoint_of(claim: Claim, webhook: str | None, bare: Target | None) -> str | None:
    """Whose circuit breaker counts. A delivery has no group if it was enqueued as a task, or by a leader of an earlier
    version: its endpoint is then found by its arguments, since one breaker for all of these would let one endpoint's
    failures delay the others."""
    if claim.group is not None or webhook is not None:
        return claim.group or webhook
    try:
        return None if bare is None else origin(bare.url)
    except InvalidWebhook:  # the request will not be made either
        return None


def _wait_for_breaker(endpoint: str | None, found: EndpointNow, now: datetime) -> None:
    """The breaker may have opened, or an operator have paused the endpoint, after this delivery was claimed."""
    if found.trips and found.paused_until is not None and found.paused_until > now:
        wait = min((found.paused_until - now).total_seconds(), breaker.LONGEST_COOL_DOWN)
        raise Postpone(wait, f"the circuit breaker of {endpoint} is open")


def request_of(target: Target, form: Form, facts: DeliveryFacts, environ: Mapping[str, str], now: datetime) -> Request:
    """The request of an attempt that is made now, signed. Raises UnusableSecret; ValueError if it cannot be made."""
    body = rendered(form.method, form.content_type, form.body, facts)
    headers = resolved_headers(target.headers, environ, target.url)
    secrets = resolved_secrets(target.secrets, environ, target.url)
    if body is not None:
        headers["Content-Type"] = form.content_type
    headers |= sign(secrets, facts.id, now, body or b"")
    return Request(
        form.method, target.url, headers, body, target.timeout, target.redirects, target.ca, target.certificate
    )


def target_of(webhook: Webhook) -> Target:
    """Where deliveries of a webhook go as it is now."""
    return Target(
        webhook.url, webhook.headers, webhook.secrets, webhook.timeout, webhook.redirects, webhook.ca,
        webhook.certificate,
    )  # fmt: skip


def _target_now(name: str, webhook: Webhook | None, claim: Claim) -> Target:
    """Where a delivery of a webhook goes now. Raises Retry, Fail or Skip if it goes nowhere."""
    if webhook is None:  # the worker that declares it may not have started yet
        raise Retry(f"{UNKNOWN}: there is no webhook {name!r}")
    if webhook.deleted or (webhook.deleted_at is not None and claim.created_at <= webhook.deleted_at):
        raise Fail(f"{DELETED}: the webhook {name!r} was deleted")
    if not webhook.enabled:
        raise Skip(DISABLED)
    return target_of(webhook)


def _told(response: Response) -> dict[str, Any]:
    """What is kept of a response with its attempt."""
    told: dict[str, Any] = {"status": response.status, "ms": round(response.seconds * 1000)}
    if response.address is not None:
        told["address"] = response.address
    if response.redirects:
        told["redirects"] = response.redirects
    if response.excerpt:
        told["excerpt"] = response.excerpt
    if response.truncated:
        told["truncated"] = True
    return told


def _no_answer(error: NotSent) -> Exception:
    """A refused address and an unusable URL stay so; what failed on the way may pass."""
    return Fail(error.message) if error.kind in ("refused", "invalid") else Retry(error.message)


def _raise_unless_delivered(response: Response, connected: OpenStore) -> None:
    outcome = http.outcome(response.status)
    if outcome == "delivered":
        return
    error = f"HTTP {response.status}"
    if response.excerpt:
        error += f": {response.excerpt[:EXCERPT_IN_ERROR]}"
    if outcome == "failed":
        raise Fail(error)
    raise Retry(error, after=http.retry_after(response.headers, connected.now()), at_least=True)


def _log_transition(group: str, transition: breaker.Transition) -> None:
    if transition.paused_until is None:
        _log.info("the circuit breaker of %s is closed: it answers again", group)
    else:
        _log.warning(
            "the circuit breaker of %s is open until %s (trip %d): deliveries to it wait",
            group, transition.paused_until.isoformat(timespec="seconds"), transition.trips,
        )  # fmt: skip
