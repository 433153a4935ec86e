"""What simulated deliveries are sent over, and the endpoints that receive them, each with its own manners.

A request is on its way from the moment that its node lets go of it: it arrives though the node dies. The history has
what the node sent (`post`), what the endpoint got and answered (`request`), and what the node heard (`answer`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import format_datetime
from random import Random
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from oncue.engine.context import current
from oncue.model import Claim
from oncue.sim.history import History, micros
from oncue.sim.loop import forever
from oncue.sim.timeline import Forget
from oncue.sim.wire import When
from oncue.webhooks.transport import NotSent, Request, Response

RECEIVER = "receiver"
LONGEST_TRIP = 0.05
"""Seconds that a request takes to its endpoint at most, and the answer back."""
ADDRESS = "192.0.2.1"

Manner: TypeAlias = Literal[
    "well", "down", "busy", "busy until", "unknown here", "silent", "refusing", "slow", "flapping", "lossy", "moved"
]
MANNERS: tuple[Manner, ...] = (
    "well", "down", "busy", "busy until", "unknown here", "silent", "refusing", "slow", "flapping", "lossy", "moved",
)  # fmt: skip


class EndpointReply(NamedTuple):
    """What an endpoint does with a request that reached it."""

    status: int | None = 200
    """None: it never answers."""
    seconds: float = 0.0
    asks: float | None = None
    """For so many seconds it wants to be left alone."""
    by_date: bool = False
    lost: bool = False
    """The answer does not arrive."""


@dataclass(slots=True)
class Endpoint:
    """`until`: from this instant of true time on it is well; one that is not there, or moved, stays so."""

    manner: Manner
    until: datetime
    asks: float = 1.0
    """How long it wants to be left alone when it is busy, in seconds."""
    seen: Counter[str] = field(default_factory=Counter)
    """How many requests it got, by id."""

    def is_refusing(self, now: datetime) -> bool:
        return self.manner == "refusing" and now < self.until

    def reply(self, webhook_id: str, now: datetime, dice: Random) -> EndpointReply:
        self.seen[webhook_id] += 1
        seconds = round(dice.uniform(0.0, 0.1), 6)
        match self.manner:
            case "unknown here":
                return EndpointReply(404, seconds)
            case "moved":
                return EndpointReply(302, seconds)
            case "slow":
                return EndpointReply(200, round(dice.uniform(0.3, 3.0), 6))
            case "busy" | "busy until" if self.seen[webhook_id] <= 1 and now < self.until:
                return EndpointReply(429, seconds, self.asks, self.manner == "busy until")
            case "lossy" if now < self.until:
                return EndpointReply(200, seconds, lost=dice.random() < 0.5)
            case "down" if now < self.until:
                return EndpointReply(dice.choice((500, 503)), seconds, dice.choice((None, None, self.asks)))
            case "silent" if now < self.until:
                return EndpointReply(None)
            case "flapping" if now < self.until and now.second % 4 < 2:
                return EndpointReply(502, seconds)
            case _:
                return EndpointReply(200, seconds)


Later: TypeAlias = Callable[[timedelta, Callable[[], None]], Forget]


class Network:
    """The way from the nodes to the endpoints, which are known by the hosts of their URLs."""

    def __init__(self, dice: Random, threshold: int = 5, share: int = 10) -> None:
        self.endpoints: dict[str, Endpoint] = {}
        self.threshold = threshold
        """So many failures in a row open the circuit breaker of an endpoint."""
        self.share = share
        self.fatal: dict[str, When] = {}
        """The processes that die with their next request: before it leaves, or when its answer comes."""
        self.dice = dice

    def trip(self) -> timedelta:
        return timedelta(seconds=round(self.dice.uniform(0.0, LONGEST_TRIP), 6))


class ScriptedTransport:
    """The way out of one process. `at` plans an event of the world, `later` one of the process."""

    def __init__(
        self,
        network: Network,
        label: str,
        history: History,
        now: Callable[[], datetime],
        at: Callable[[datetime, Callable[[], None]], object],
        later: Later,
        crashed: Callable[[], None],
    ) -> None:
        """`now` is the true time."""
        self._network = network
        self._label = label
        self._history = history
        self._now = now
        self._at = at
        self._later = later
        self._crashed = crashed

    async def send(self, request: Request) -> Response:
        claim, started = current.get().claim, self._now()
        if self._network.fatal.get(self._label) == "before":
            await self._die()
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._post(claim, request, answer)
        try:
            async with asyncio.timeout(request.timeout):
                response = await answer
        except TimeoutError:
            error = NotSent("timeout", f"no answer within {request.timeout:g} s (simulated)")
        except NotSent as failed:
            error = failed
        else:
            if self._network.fatal.get(self._label) == "after":
                await self._die()
            self._tell(claim, status=response.status)
            return response._replace(seconds=(self._now() - started).total_seconds())
        self._tell(claim, failed=error.kind)
        raise error

    async def close(self) -> None: ...

    async def _die(self) -> None:
        del self._network.fatal[self._label]
        self._crashed()
        await forever()

    def _tell(self, claim: Claim, **fields: Any) -> None:
        self._history.add(self._label, "answer", id=claim.id, claim_no=claim.claim_no, **fields)

    def _post(self, claim: Claim, request: Request, answer: asyncio.Future[Response]) -> None:
        network, now, host = self._network, self._now(), urlsplit(request.url).hostname or ""
        webhook_id = request.headers["webhook-id"]
        self._history.add(
            self._label, "post", id=claim.id, claim_no=claim.claim_no, webhook_id=webhook_id, url=request.url,
            method=request.method, body=None if request.body is None else request.body.decode(),
        )  # fmt: skip
        endpoint = network.endpoints[host]
        if endpoint.is_refusing(now):
            self._later(network.trip(), lambda: _fail(answer, "connection refused"))
            return
        self._at(now + network.trip(), lambda: self._arrive(endpoint, claim, request, answer))

    def _arrive(self, endpoint: Endpoint, claim: Claim, request: Request, answer: asyncio.Future[Response]) -> None:
        network, webhook_id = self._network, request.headers["webhook-id"]
        reply = endpoint.reply(webhook_id, self._now(), network.dice)
        headers, asked = self._asked(reply)
        told = {"id": claim.id, "claim_no": claim.claim_no, "webhook_id": webhook_id, "url": request.url}
        self._history.add(RECEIVER, "request", **told, status=reply.status, **asked)
        if reply.status is None:
            return
        back = timedelta(seconds=reply.seconds) + network.trip()
        if reply.lost:
            self._later(back, lambda: _fail(answer, "connection reset"))
        else:
            response = Response(reply.status, headers, "", False, 0.0, ADDRESS, 0)
            self._later(back, lambda: _succeed(answer, response))

    def _asked(self, reply: EndpointReply) -> tuple[dict[str, str], dict[str, Any]]:
        """The header of an endpoint that wants to be left alone, and what the history has of it."""
        if reply.asks is None:
            return {}, {}
        if not reply.by_date:
            return {"retry-after": f"{reply.asks:.0f}"}, {"seconds": float(f"{reply.asks:.0f}")}
        instant = (self._history.clock.now() + timedelta(seconds=reply.asks)).replace(microsecond=0)
        return {"retry-after": format_datetime(instant, usegmt=True)}, {"until": micros(instant)}


def _succeed(answer: asyncio.Future[Response], response: Response) -> None:
    if not answer.done():
        answer.set_result(response)


def _fail(answer: asyncio.Future[Response], message: str) -> None:
    if not answer.done():
        answer.set_exception(NotSent("network", f"{message} (simulated)"))
