"""What schemathesis makes of the API's own description: every operation with examples, with values at and beyond every
bound, with random ones, and in sequences that follow the links.

It runs in a thread of its own. Its requests come over to the application's event loop, so that they are counted and
judged like all others; its own checks come on top.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import schemathesis
from schemathesis.checks import CheckContext
from schemathesis.engine import events, from_schema

from fuzz import calls, odd
from fuzz.calls import TOKENS
from fuzz.site import Site
from fuzz.wire import Reply, Request
from fuzz.world import World

NONCONFORMING = "described_otherwise"
Send = Callable[[Request], Reply]

# What is well-formed may still be refused: see `refused_for_a_reason`, which stands in for it.
LEFT_OUT = {"positive_data_acceptance": {"enabled": False}}
# What a schedule has been is shown after it is deleted too.
REMEMBERED = {
    "include-operation-id": ["list_revisions", "list_slots", "audit_schedule"],
    "checks": {"use_after_free": {"enabled": False}},
}
# Names may have slashes: `…/subjects/ann/run` is the address of a subject `ann/run`, too.
ANOTHER_S_ADDRESS = {
    "include-operation-id": ["run_subject"],
    "checks": {"allow_header_conformance": {"enabled": False}},
}
# What a description cannot say: which tasks, schedules and zones there are, what is an instant, a cron expression or a
# printable name, how long a duration in words is, and which fields exclude each other.
BEYOND_WORDS = {
    "task", "target", "args", "queue", "key", "name", "cron_expression", "tz", "at", "delay", "deadline", "expires",
    "grace", "from", "to", "after", "description", "Idempotency-Key", "group", "address", "until", "for", "url",
    "headers", "content_type", "body", "timeout", "secrets", "retry", "ca", "certificate", "payload", "webhook",
    "max_retries", "subject", "weekdays", "days_off", "day", "nodes", "since", "global", "per_node", "rate",
}  # fmt: skip


SENDING = {
    "url": "https://shop.example/hooks", "headers": {"X-Shop": "7"}, "content_type": "application/json",
    "body": '{"a": {{payload}}}', "timeout": 10, "secrets": ["env:ONCUE_SECRET_ORDERS"], "retry": [1, 2],
    "ca": "own.pem", "certificate": None,
}  # fmt: skip
"""What a description cannot say of a webhook, said well."""


@schemathesis.check
def refused_for_a_reason(ctx: CheckContext, response: schemathesis.Response, case: schemathesis.Case[Any]) -> None:
    """A request that is as described may be refused, but only for what a description cannot say."""
    meta = case.meta
    if meta is None or not meta.generation.mode.is_positive or response.status_code not in (400, 413, 422):
        return
    problem = json.loads(response.content)
    errors = problem.get("errors", ())
    if not errors or not all(_cannot_be_said(error["field"], error["message"]) for error in errors):
        raise AssertionError(f"refused, and as described: {problem['detail']}")


def _cannot_be_said(field: str, message: str) -> bool:
    return bool({*field.split(".")} & BEYOND_WORDS) or message == "expected a text without NUL characters"


async def run(site: Site, seed: int, most: int) -> None:
    """Send about so many requests. What is enumerated comes first, and once; then random ones, from seed after seed."""
    loop, wire = asyncio.get_running_loop(), site.wire
    wanted = wire.tally.requests[wire.part] + most

    def send(request: Request) -> Reply:
        return asyncio.run_coroutine_threadsafe(wire.send(request), loop).result()

    def enough() -> bool:
        return wire.tally.requests[wire.part] >= wanted

    turn = 0
    while not enough():
        wire.label = f"seed {seed + turn}"
        await asyncio.to_thread(_examine, site, send, seed + turn, turn == 0, enough)
        turn += 1


def _examine(site: Site, send: Send, seed: int, enumerate_: bool, enough: Callable[[], bool]) -> None:
    configuration = _configuration(site, seed, enumerate_)
    known = {"Authorization": f"Bearer {site.world.token}"}
    schema = schemathesis.openapi.from_asgi("/openapi.json", _bridge(site, send), config=configuration, headers=known)
    schema.hook("map_case")(_named(site.world))
    stream = from_schema(schema).execute()
    for event in stream:
        if isinstance(event, events.ScenarioFinished):
            for what in _failures(event):
                site.wire.tally.fault(NONCONFORMING, f"{site.wire.part} seed {seed}: {what}")
            if enough():
                stream.stop()
        elif isinstance(event, events.NonFatalError):
            site.wire.tally.fault(
                NONCONFORMING, f"{site.wire.part} seed {seed}: {event.label}: {event.info.message:.500}"
            )


def _configuration(site: Site, seed: int, enumerate_: bool) -> schemathesis.Config:
    return schemathesis.Config.from_dict(
        {
            "seed": seed,
            "headers": {"Authorization": f"Bearer {site.world.token}"},
            "checks": LEFT_OUT,
            "operations": [REMEMBERED, ANOTHER_S_ADDRESS],
            "generation": {"max-examples": 15, "no-shrink": True, "database": "none"},
            "phases": {"examples": {"enabled": enumerate_}, "coverage": {"enabled": enumerate_}},
        }
    )


def _named(world: World) -> Callable[[Any, Any], Any]:
    """Puts names that there are into requests that are as described: with random ones hardly one would come far."""

    def map_case(context: Any, case: Any) -> Any:
        meta = case.meta
        if meta is None or not meta.generation.mode.is_positive:
            return case
        dice = Random(f"{case.path_parameters} {case.body}")
        if dice.random() < 0.2:
            return case
        is_linked = meta.phase.name == "stateful"  # what was made a step before is named already
        for name in () if is_linked else case.path_parameters or ():
            found = calls.existing(world, dice, case.path, name)
            # Schemathesis sends a slash as it is, and `ü/run` would be another address. The grammar encodes it.
            case.path_parameters[name] = found.replace("/", "-") if isinstance(found, str) else found
        if isinstance(case.body, dict):
            case.body = _with_names(case.body, dice)
        return case

    return map_case


def _with_names(body: dict[str, Any], dice: Random) -> dict[str, Any]:
    named = dict(body)
    if isinstance(named.get("jobs"), list):
        named["jobs"] = [_with_names(job, dice) if isinstance(job, dict) else job for job in named["jobs"]]
    if isinstance(named.get("subjects"), list):
        named["subjects"] = [_with_names(row, dice) if isinstance(row, dict) else row for row in named["subjects"]]
    if "task" in named:
        named |= {"task": "letter", "args": {"to": "somebody", "more": body.get("args")}}
    if "target" in named:
        named["target"] = None
    if "webhook" in named:
        named |= {"webhook": "orders", "task": None, "target": None, "args": {}, "queue": None, "max_retries": None}
    if "cron_expression" in named:
        named["cron_expression"] = dice.choice(calls.EXPRESSIONS)
    if "tz" in named:
        named["tz"] = dice.choice(odd.ZONES)
    for field, value in SENDING.items():
        if field in named:
            named[field] = value
    if "at" in named and "delay" in named:
        named["at"] = None
    return named


def _failures(event: events.ScenarioFinished) -> Iterator[str]:
    for checks in event.recorder.checks.values():
        for check in checks:
            if check.failure_info is not None:
                failure = check.failure_info.failure
                said = " ".join(f"{failure.title}: {failure.message}".split())
                yield f"{event.label}: {check.name}: {said:.500} | {check.failure_info.code_sample:.500}"


def _bridge(site: Site, send: Send) -> Any:
    """The application as schemathesis sees it: in a loop of its own, from which requests are handed over."""

    async def answer(scope: Any, receive: Any, reply_with: Any) -> None:
        assert scope["type"] == "http"  # an application may refuse to be told about its life
        request = await _taken(site, scope, receive)
        reply = await asyncio.to_thread(send, request)
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers.items()]
        await reply_with({"type": "http.response.start", "status": reply.status, "headers": headers})
        await reply_with({"type": "http.response.body", "body": reply.body})

    return answer


async def _taken(site: Site, scope: Any, receive: Any) -> Request:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    target = scope["raw_path"].decode("ascii")
    if scope["method"] == "DELETE" and scope["path"] in (f"{TOKENS}/{site.world.token_id}", f"{TOKENS}/fuzz"):
        target = f"{TOKENS}/nobody"  # it is told the id of its own token by a listing, and must not revoke it
    query = scope["query_string"].decode("ascii")
    return Request(scope["method"], f"{target}?{query}" if query else target, tuple(scope["headers"]), (body,))
