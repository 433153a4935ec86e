"""POST requests that may be sent twice: with an idempotency key, the second one gets the first one's answer.

A request is kept before it is answered, together with the numbers of the jobs that it will make. If it is cut off in
between, it is unknown whether it took effect. Where doing it again changes nothing more (a job written
again under its number is written once) it is done again; elsewhere the client is told that it is unknown.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from oncue.errors import RowLocked, StoreBusy, StoreError, StoreFull
from oncue.model import KeptRequest
from oncue.server.api import problems
from oncue.server.api.identity import identity_of
from oncue.server.api.problems import ANSWERING, KEY_REUSED, UNKNOWN_EFFECT, FieldError, Problem, invalid
from oncue.verbs.base import compare_and_set

if TYPE_CHECKING:
    from oncue.app import Oncue
    from oncue.store.contract import Store

Answering: TypeAlias = Callable[[Request], Awaitable[Response]]

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
LONGEST_KEY = 255
KEPT_FOR = timedelta(hours=24)
BEING_ANSWERED = timedelta(seconds=60)
PRUNED_AT_ONCE = 1000
SCOPE_KEY = "oncue.kept"
NOTHING_BEGAN = (400, 413, 421, 422)
"""Answers to requests that were refused before anything happened. They are not kept: what was wrong may be mended, and
the leader is asked under the same key."""

_log = logging.getLogger("oncue.http")


@dataclasses.dataclass(frozen=True, slots=True)
class Keeping:
    """What becomes of a request that was cut off and is sent again."""

    repeats: bool = False
    """Whether it is done again: that changes nothing more. If not, it is unknown whether it took effect."""
    in_parts: bool = False
    """Whether it makes several changes, one after the other: then it may fail when some of them are made."""
    tells_secret: bool = False
    """Whether its answer must not be kept."""
    jobs: Callable[[Any], int] = lambda body: 0
    """How many jobs a request with this body makes; it is kept together with their numbers."""


ONCE, REPEATABLE, IN_PARTS = Keeping(), Keeping(repeats=True), Keeping(in_parts=True)
SECRET = Keeping(tells_secret=True)


@dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    request: KeptRequest
    is_new: bool
    """Whether it was never begun before. If it was, and was cut off, it may have taken effect."""


class IdempotentRequests:
    """The requests of an application that carry a key."""

    def __init__(self, app: Oncue) -> None:
        self._app = app

    async def answered(self, request: Request, key: str, body: Any, keeping: Keeping, answer: Answering) -> Response:
        """Answer a request, or repeat what was answered before."""
        _check_key(key)
        connected, actor = await self._app.internals.connected(), identity_of(request.scope).name
        ids = tuple(await connected.ids(keeping.jobs(body)))
        fresh = KeptRequest(_fingerprint(request, body), connected.now(), ids)
        kept = await _begun(connected.store, actor, key, fresh)
        if not kept.is_new:
            if kept.request.fingerprint != fresh.fingerprint:
                raise _reused(key)
            if kept.request.status is not None:
                return _replayed(kept.request)
            if not keeping.repeats:
                raise _unfinished(kept.request, fresh.started_at)
        request.scope[SCOPE_KEY] = kept
        return await self._answered(request, connected.store, actor, key, keeping, answer, kept.is_new)

    async def _answered(
        self,
        request: Request,
        store: Store,
        actor: str,
        key: str,
        keeping: Keeping,
        answer: Answering,
        is_new: bool,
    ) -> Response:
        nothing_happened = False
        try:
            response = await answer(request)
        except Exception as error:
            nothing_happened = isinstance(error, RowLocked | StoreBusy | StoreFull) and not keeping.in_parts
            response = problems.answer(problems.of(error, request), request.scope)
        nothing_happened = nothing_happened or response.status_code in NOTHING_BEGAN
        try:
            if response.status_code < 500 and not nothing_happened:
                await store.requests.end(actor, key, *_answer_to_keep(request, response, keeping))
            elif nothing_happened and is_new:
                await store.requests.forget(actor, key)
        except StoreError as error:
            _log.warning("what was answered to the request %s of %s could not be kept: %s", key, actor, error)
        return response


async def was_begun(app: Oncue, actor: str, key: str) -> bool:
    """Whether a request with this key was begun before; from now on it was. No answer is kept for it."""
    _check_key(key)
    connected = await app.internals.connected()
    kept = await _begun(connected.store, actor, key, KeptRequest("", connected.now(), ()))
    return not kept.is_new


def kept_of(scope: Any) -> Kept | None:
    """What is kept of the request that is being answered."""
    found = scope.get(SCOPE_KEY)
    return found if isinstance(found, Kept) else None


async def _begun(store: Store, actor: str, key: str, fresh: KeptRequest) -> Kept:
    async def begin() -> Kept | None:
        found = await store.requests.begin(actor, key, fresh)
        if found is None:
            return Kept(fresh, True)
        oldest = fresh.started_at - KEPT_FOR
        if found.started_at >= oldest:
            return Kept(found, False)
        await store.requests.prune(oldest, PRUNED_AT_ONCE)  # no leader has done it in time
        return None

    return await compare_and_set(f"request {key}", begin)


def _check_key(key: str) -> None:
    if not 1 <= len(key) <= LONGEST_KEY or not all("!" <= character <= "~" for character in key):
        raise invalid(HEADER, f"expected 1 to {LONGEST_KEY} visible ASCII characters")


def _fingerprint(request: Request, body: Any) -> str:
    """Two requests with the same one are the same request, however their JSON is written."""
    address = [request.method, request.scope["path"], request.scope["query_string"].decode("latin-1")]
    said = json.dumps([*address, body], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


def _reused(key: str) -> Problem:
    why = "it was used for another request; take a new key for a new request"
    return Problem(KEY_REUSED, f"{HEADER} {key!r}: {why}", [FieldError(HEADER, why)])


def _unfinished(kept: KeptRequest, now: datetime) -> Problem:
    waiting = kept.started_at + BEING_ANSWERED - now
    if waiting > timedelta(0):
        return Problem(
            ANSWERING,
            "The first request with this key has not been answered yet, or was cut off: ask again later.",
            headers={"Retry-After": str(min(max(round(waiting.total_seconds()), 1), 5))},
        )
    return Problem(
        UNKNOWN_EFFECT,
        f"The first request with this key began at {kept.started_at.isoformat()} and was cut off. It is unknown "
        "whether it took effect: look at /api/admin/audit-log, which tells of every change, then use a new key.",
    )


# --- answers that are kept ------------------------------------------------------------------------------------------

KEPT_HEADERS = ("location", "content-type")


def _answer_to_keep(request: Request, response: Response, keeping: Keeping) -> tuple[int, str]:
    if keeping.tells_secret and response.status_code < 300:
        return problems.CONFLICT.status, json.dumps(_told_once(request, response))
    headers = {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}
    return response.status_code, json.dumps({"headers": headers, "body": bytes(response.body).decode()})


def _told_once(request: Request, response: Response) -> dict[str, Any]:
    """What is told instead of a secret: it is nowhere to be found."""
    place = response.headers.get("location", "")
    told = Problem(
        problems.CONFLICT,
        f"This request was answered before, and made {place}. A secret is told only once: revoke it, and make another.",
    )
    body = json.dumps(told.document(problems.instance_of(request.scope)))
    return {"headers": {"content-type": problems.MEDIA_TYPE, "location": place}, "body": body}


def _replayed(kept: KeptRequest) -> Response:
    assert kept.status is not None
    answer = json.loads(kept.answer or "{}")
    return Response(answer.get("body", ""), kept.status, {**answer.get("headers", {}), REPLAYED: "true"})
