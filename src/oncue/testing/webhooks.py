"""Deliveries in a test: nothing is sent. Each endpoint gives the answers that the test says, and 200 otherwise."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, get_args

from oncue.engine.context import current
from oncue.errors import UnusableSecret, WebhookVerificationError
from oncue.model import Claim
from oncue.observe.visible import visible
from oncue.policy.urls import origin
from oncue.testing.stage import Stage
from oncue.webhooks.redirects import next_hop
from oncue.webhooks.secrets import resolved_secrets
from oncue.webhooks.signing import ID_HEADER, verify
from oncue.webhooks.transport import KEPT_HEADERS, Kind, NotSent, Request, Response

if TYPE_CHECKING:
    from oncue.application.webhooks import DeclaredWebhook

LONGEST_EXCERPT = 1024
ADDRESS = "192.0.2.1"
"""Where every answer comes from: an address for documentation."""
KINDS: tuple[Kind, ...] = get_args(Kind)


class EndpointAnswer(NamedTuple):
    """What an endpoint answers: a status, or why there is no answer."""

    status: int | Kind = 200
    headers: Mapping[str, str] = {}
    body: str = ""


Said: TypeAlias = int | str | tuple[Any, ...]


class Sent(NamedTuple):
    """A request that would have been sent."""

    webhook: str | None
    """None: it went to a bare URL."""
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None
    at: datetime
    verified: bool
    """Whether a receiver with the secrets of the webhook accepts its signature."""
    answer: EndpointAnswer

    @property
    def id(self) -> str:
        """The same for all attempts of a delivery."""
        return self.headers[ID_HEADER]

    @property
    def json(self) -> Any:
        return None if self.body is None else json.loads(self.body)


class KitWebhooks:
    """The transport of a test, and what the test sees of it: `kit.webhooks`."""

    def __init__(self, stage: Stage) -> None:
        self.sent: list[Sent] = []
        """Every request, oldest first; one that a redirect led to is a request of its own."""
        self._stage = stage
        self._answers: dict[str, deque[EndpointAnswer]] = {}

    def answer(self, endpoint: str | DeclaredWebhook, *answers: Said) -> None:
        """Say what comes next from an endpoint: a webhook, its name, or the URL of bare deliveries.

        An answer is a status, a tuple of status, headers and body, "timeout", "network" or "refused". Each is given
        once, in this order; then the endpoint answers 200 again.
        """
        name = endpoint if isinstance(endpoint, str) else endpoint.name
        place = origin(name) if "://" in name else name
        self._answers.setdefault(place, deque()).extend(_checked(said) for said in answers)

    # --- the transport ------------------------------------------------------------------------------------------

    async def send(self, request: Request) -> Response:
        claim, asked, followed = current.get().claim, request, 0
        while True:
            answer = await self._answered(asked, claim)
            status = self._status(asked, answer)
            headers = {name.lower(): value for name, value in answer.headers.items()}
            hop = next_hop(asked, status, headers.get("location")) if followed < request.redirects else None
            if hop is None:
                break
            asked, followed = hop, followed + 1
        kept = {name: value for name, value in headers.items() if name in KEPT_HEADERS}
        excerpt = visible(answer.body)
        return Response(status, kept, excerpt[:LONGEST_EXCERPT], len(excerpt) > LONGEST_EXCERPT, 0.0, ADDRESS, followed)

    async def close(self) -> None: ...

    async def _answered(self, request: Request, claim: Claim) -> EndpointAnswer:
        answers = self._answers.get(claim.group or "")
        answer = answers.popleft() if answers else EndpointAnswer()
        arguments = json.loads(claim.args)
        webhook = arguments.get("webhook")
        secrets = await self._secrets_of(webhook) if webhook is not None else tuple(arguments.get("secrets", ()))
        now = self._stage.clock.now()
        verified = bool(secrets) and _is_genuine(request, secrets, now)
        self.sent.append(
            Sent(webhook, request.method, request.url, request.headers, request.body, now, verified, answer)
        )
        return answer

    async def _secrets_of(self, webhook: str) -> tuple[str, ...]:
        return next((found.secrets for found in await self._stage.store.webhooks.get([webhook])), ())

    def _status(self, request: Request, answer: EndpointAnswer) -> int:
        """Raises NotSent if there is no answer. To wait for one in vain takes the whole time-out."""
        if isinstance(answer.status, int):
            return answer.status
        there = origin(request.url)
        if answer.status == "timeout":
            self._stage.clock.advance(request.timeout)
            raise NotSent("timeout", f"{there}: no response within {request.timeout:g} s")
        why = {"network": "the connection failed", "refused": "webhooks may not call it"}
        raise NotSent(answer.status, f"{there}: {why.get(answer.status, 'the request cannot be sent')}")


def _checked(said: Said) -> EndpointAnswer:
    answer = EndpointAnswer(*said) if isinstance(said, tuple) else EndpointAnswer(said)  # type: ignore[arg-type]
    if not isinstance(answer.headers, Mapping):
        raise ValueError(
            f"answer: expected (status, headers, body) with headers such as {{'Retry-After': '9'}}, not {said!r:.100}"
        )
    is_status = isinstance(answer.status, int) and 100 <= answer.status <= 599
    if not is_status and answer.status not in KINDS:
        raise ValueError(f"answer: expected a status from 100 to 599 or one of {', '.join(KINDS)}, not {said!r:.100}")
    return answer


def _is_genuine(request: Request, secrets: tuple[str, ...], now: datetime) -> bool:
    try:
        verify(request.body or b"", request.headers, resolved_secrets(secrets, os.environ), now=now)
    except (WebhookVerificationError, UnusableSecret):
        return False
    return True
