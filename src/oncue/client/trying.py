"""Asking, and asking again while that may help: after a lost answer, and while the server or its database is away.

Every request may be repeated: a POST carries an idempotency key, under which the server does it once and gives the same
answer again; the others come to the same however often they are sent.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from oncue import __version__
from oncue.client import refusals
from oncue.client.requests import Request
from oncue.client.servers import Route, Servers
from oncue.client.transport import NoAnswer, Reply, ServerConnections
from oncue.errors import OncueError, StoreUnavailable, Unreachable
from oncue.policy.retry import Exponential

T = TypeVar("T")
Pause: TypeAlias = Callable[[float], object]
"""Waits so many seconds. What it returns is true if nobody waits for the answer any more."""

BACKOFF = Exponential("100ms", 2.0, "5s", 0.5)
AWAY = (502, 503, 504)
LONG_SECONDS = 125.0
"""The server gives two minutes to requests about many jobs or slots."""
UNKNOWN = "it is unknown whether the request took effect"


class Hidden(str):
    """A text for one reader: debuggers and error reports, which print what variables hold, do not see it."""

    def __repr__(self) -> str:
        return "'…'"


class Asker:
    """Sends the requests of a client."""

    def __init__(
        self,
        servers: Servers,
        token: str | None,
        timeout: float,
        patience: float,
        *,
        new_id: Callable[[], UUID],
        watch: Callable[[], float],
    ) -> None:
        self._servers = servers
        self._authorization = None if token is None else Hidden(f"Bearer {token}")
        self._timeout = timeout
        self._patience = patience
        self._new_id = new_id
        self._watch = watch

    def ask(self, request: Request[T], pause: Pause) -> T:
        """What the server answers. Raises what it refuses with, or StoreUnavailable once patience has ended."""
        call = self._new_id()
        headers, dice, began = self._headers(request, call), Random(call.int), self._watch()
        timeout = max(self._timeout, LONG_SECONDS) if request.is_long else self._timeout
        in_doubt, tries, route = False, 0, Route(self._servers)
        while True:
            outcome = self._outcome(route.server, request, headers, timeout)
            if isinstance(outcome, Reply) and _is_answer(outcome, request):
                return _read(outcome, request)
            if isinstance(outcome, Reply) and _goes_on(route, outcome):
                continue
            delay = delay_after(outcome, request, tries, dice)
            spent = self._watch() - began
            if delay is None or spent + delay >= self._patience or pause(delay):
                if in_doubt and request.moved_to is not None and _is_gone(outcome):
                    return self.ask(request.moved_to, pause)
                return _concluded(outcome, request, in_doubt, route)
            in_doubt, tries = in_doubt or _leaves_doubt(outcome, request), tries + 1

    def _outcome(
        self, server: ServerConnections, request: Request[Any], headers: dict[str, str], seconds: float
    ) -> Reply | NoAnswer:
        try:
            return server.exchange(request.method, request.target, headers, request.body, seconds)
        except NoAnswer as error:
            return error

    def _headers(self, request: Request[Any], call: UUID) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": f"oncue/{__version__}"}
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        if request.method == "POST":
            headers["Idempotency-Key"] = str(call) if request.key is None else request.key
        if self._authorization is not None:
            headers["Authorization"] = self._authorization
        return headers


def delay_after(outcome: Reply | NoAnswer, request: Request[Any], tries: int, dice: Random) -> float | None:
    """How long to wait before asking again; None if that would not help."""
    if request.is_probe:
        return None
    backoff = BACKOFF.delay(tries, dice)
    if isinstance(outcome, NoAnswer):
        if outcome.is_hopeless:
            return None
        return 0.0 if outcome.was_stale and tries == 0 else backoff
    if outcome.status in AWAY or refusals.kind_of(outcome) == refusals.STILL_BEING_ANSWERED:
        return max(backoff, _told_to_wait(outcome))
    return None


def _goes_on(route: Route, reply: Reply) -> bool:
    """Whether the server does not lead, and the request now goes to the one that it names."""
    refused = refusals.leader_of(reply)
    return refused is not None and route.follow(refused)


def _told_to_wait(reply: Reply) -> float:
    text = reply.header("retry-after") or ""
    return float(text) if text.isascii() and text.isdecimal() else 0.0


def _is_answer(reply: Reply, request: Request[Any]) -> bool:
    return 200 <= reply.status < 300 or (request.is_probe and reply.status == 503)


def _is_gone(outcome: Reply | NoAnswer) -> bool:
    return isinstance(outcome, Reply) and refusals.kind_of(outcome) == refusals.NOT_FOUND


def _leaves_doubt(outcome: Reply | NoAnswer, request: Request[Any]) -> bool:
    """Whether a try may have taken effect that has no answer to tell so."""
    return request.changes and (outcome.was_sent if isinstance(outcome, NoAnswer) else _is_away(outcome))


def _is_away(reply: Reply) -> bool:
    """Whether the database was away, so that it is not known what came of a change. A lock is certain to stop it."""
    return reply.status in AWAY and refusals.kind_of(reply) != refusals.ROW_LOCKED


def _read(reply: Reply, request: Request[T]) -> T:
    try:
        return request.read(json.loads(reply.body))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise refusals.unreadable(reply, f"{type(error).__name__}: {error}") from error


def _concluded(outcome: Reply | NoAnswer, request: Request[T], in_doubt: bool, route: Route) -> T:
    """What it comes to that the last try had no answer, or one that asking again does not change."""
    if isinstance(outcome, NoAnswer):
        doubt = f"; {UNKNOWN}" if in_doubt or _leaves_doubt(outcome, request) else ""
        where = f"the leader at {route.server.address}" if route.followed else "the server"
        raise Unreachable(f"no answer from {where}: {outcome}{doubt}") from outcome
    if route.followed is not None and outcome.status == 404:
        raise route.followed  # the leader has no admin API there
    if in_doubt and request.gone_is_done and _is_gone(outcome):
        return request.read(None)
    raise _with_doubt(refusals.error_of(outcome, request), in_doubt)


def _with_doubt(error: OncueError, in_doubt: bool) -> OncueError:
    if in_doubt and isinstance(error, StoreUnavailable) and UNKNOWN not in str(error):
        return StoreUnavailable(f"{error}; {UNKNOWN}")
    return error
