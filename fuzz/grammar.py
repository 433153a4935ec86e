"""Our own grammar: good requests, each spoilt in one way or in several.

What schemathesis makes is well-formed HTTP with well-formed JSON; here addresses, bytes, headers and methods are wrong
too.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from fuzz import calls, odd
from fuzz.calls import JOBS, PLANS, TOKENS, Call, bearer
from fuzz.wire import Request, Wire
from fuzz.world import World, refreshed

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW", "get", "PROPFIND")
REFRESH = 200


async def run(wire: Wire, world: World, seed: int, numbers: range) -> None:
    """Send the requests with these numbers. Each is made from the seed and its number, so that it can be repeated."""
    for number in numbers:
        if number % REFRESH == 0:
            await refreshed(world)
        wire.label = f"seed {seed} number {number}"
        await wire.send(spoilt(world, Random(f"{seed}:grammar:{number}")))


def spoilt(world: World, dice: Random) -> Request:
    if dice.random() < 0.2:
        return _timed(world, dice).request(bearer(world.token))
    call = dice.choice((calls.change, calls.change, calls.look, _timed))(world, dice)
    for spoil in dice.sample(IN_WORDS, dice.choice((0, 1, 1, 2))):
        call = spoil(call, dice)
    request = call.request(bearer(world.token))
    for alter in dice.sample(ON_THE_LINE, dice.choice((0, 0, 1, 1, 2))):
        request = alter(request, dice)
    return request


def _timed(world: World, dice: Random) -> Call:
    """Something about time: rules, spans, instants and durations of all kinds, in requests that are good otherwise."""
    rule = {"cron_expression": odd.cron(dice), "tz": dice.choice(odd.ZONES), "dst": dice.choice(odd.POLICIES)}
    start, end, lasts = odd.instant(dice), odd.instant(dice), odd.duration(dice)
    job, plan = calls.enqueue(world, dice), ("id", calls.schedule(world, dice))
    is_dry = dice.random() < 0.8  # others make as many jobs as there are slots
    return dice.choice(
        (
            Call("POST", PLANS, body={**calls.plan(world, dice), **rule}),
            Call("POST", PLANS, body={**calls.plan(world, dice), **rule, "grace": lasts}),
            Call("PUT", f"{PLANS}/{{id}}", (plan,), body=rule),
            Call("GET", f"{PLANS}/{{id}}/preview", (plan,), (("from", start), ("count", "40"))),
            Call("GET", f"{PLANS}/{{id}}/audit", (plan,), (("from", start), ("to", end))),
            Call("GET", f"{PLANS}/{{id}}/slots", (plan,), (("from", start), ("to", end))),
            Call("POST", f"{PLANS}/{{id}}/backfill", (plan,), body={"from": start, "to": end, "dry_run": is_dry}),
            Call("POST", f"{PLANS}/{{id}}/trigger", (plan,), body={"at": start}),
            Call("POST", JOBS, body={**job, "at": start}),
            Call("POST", JOBS, body={**job, "delay": lasts, "deadline": odd.duration(dice)}),
            Call("POST", TOKENS, body={**calls.credential(world, dice), "expires": lasts}),
        )
    )


# --- what is said ---------------------------------------------------------------------------------------------------

ODD_IDS = (
    "0", "-1", "+1", "1.0", "1e3", " 1", "1 ", "01", "9" * 19, str(2**63 - 1), str(2**63), str(2**64), "9" * 5000, "٣",
    "²", "1_0", "0x1", "NaN", "None", "null", "true", "{id}", "*", "%", "1,2", "1;2", "-9223372036854775808",
    "00000000-0000-0000-0000-000000000000", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "12345678123456781234567812345678",
    "{12345678123456781234567812345678}", "urn:uuid:12345678-1234-5678-1234-567812345678", "bulk", "stats", "..", ".",
    "\x00", "\ud800", "\U0001f4a9", "a" * 3000, "\n", "\r\nX-Injected: 1", "'--", "spare 1", "only read", "gone",
)  # fmt: skip
TYPED: dict[str, Callable[[Random], Any]] = {
    "cron_expression": odd.cron,
    "tz": lambda dice: dice.choice((*odd.ZONES, *odd.ODD_ZONES)),
    **dict.fromkeys(("grace", "delay", "deadline", "expires"), odd.duration),
    **dict.fromkeys(("at", "from", "to", "when"), odd.instant),
    **dict.fromkeys(
        ("priority", "boost", "max_retries", "max_instances", "global", "per_node", "limit", "a"), odd.number
    ),
}


def _id(call: Call, dice: Random) -> Call:
    value = dice.choice(ODD_IDS) if dice.random() < 0.8 else odd.text(dice)
    return replace(call, names=tuple((name, value) for name, _ in call.names))


def _query(call: Call, dice: Random) -> Call:
    names = ("limit", "offset", "before", "after", "status", "queue", "task", "key", "from", "to", "count", "problems")
    added = [(dice.choice(names), str(_value(dice, dice.choice(names)))) for _ in range(dice.choice((1, 1, 2, 30)))]
    if dice.random() < 0.3:
        added.append((odd.text(dice), odd.text(dice)))
    return replace(call, query=(*call.query, *added))


def _fields(call: Call, dice: Random) -> Call:
    """Other values in some of the fields, fields that nobody knows, and fields that are missing."""
    if not isinstance(call.body, dict):
        return replace(call, body=odd.whatever(dice))
    body = dict(call.body)
    inside = body["args"] if isinstance(body.get("args"), dict) and dice.random() < 0.2 else body
    wanted = dice.choice([*inside, *TYPED, odd.text(dice)] if inside else [*TYPED])
    changed = {**inside, wanted: _value(dice, wanted)}
    if dice.random() < 0.2:
        changed.pop(dice.choice(list(changed)))
    return replace(call, body=changed if inside is body else {**body, "args": changed})


def _value(dice: Random, name: str) -> Any:
    return TYPED[name](dice) if name in TYPED and dice.random() < 0.7 else odd.whatever(dice)


def _wrapped(call: Call, dice: Random) -> Call:
    """The whole body is something else."""
    size = dice.choice((0, 1, 1000, 1001))
    return replace(
        call,
        body=dice.choice((None, [], [call.body], "text", 7, {"jobs": [call.body] * size}, {"job_ids": [size] * size})),
    )


IN_WORDS: list[Callable[[Call, Random], Call]] = [_id, _query, _fields, _fields, _fields, _wrapped]


# --- what is on the line --------------------------------------------------------------------------------------------


def _path(request: Request, dice: Random) -> Request:
    path, mark, query = request.target.partition("?")
    parts = path.split("/")
    place = dice.randrange(1, len(parts) + 1)
    inserted = dice.choice(
        ("", ".", "..", "%2e%2e", "%2E", "%00", "%", "%zz", "%c0%ae", "%ff", "%ED%A0%80", "%F0%9F%92%A9", "%2f", "%5c",
         "a" * 5000, ";a=b", "%3f", "%23", "%0d%0aX:1", "api", "*")
    )  # fmt: skip
    altered = dice.choice(
        (
            "/".join([*parts[:place], inserted, *parts[place:]]), path + "/", "/" + path, path.upper(), path + inserted,
            "".join(f"%{ord(letter):02x}" if dice.random() < 0.3 else letter for letter in path if letter != "%"),
            "/".join(parts[:place]) or "/", "*", path.replace("/", "//"), f"http://127.0.0.1:8080{path}",
        )
    )  # fmt: skip
    return replace(request, target=altered + mark + query)


def _raw_query(request: Request, dice: Random) -> Request:
    extra = dice.choice(
        ("", "&", "=", "&&&=", "limit", "limit=", "=1", "limit=1&limit=2", "limit=%00", "%00=%00", "%ff=%fe", "limit=%",
         "status=queued&Status=x", "a[b]=c", "limit=1;offset=2", "x=" + "y" * 20_000, "?", "limit=1#x", "+=+", "%2B=1",
         "&".join(f"limit={number}" for number in range(500)), "from=2026-03-29T02:30:00+01:00", "before=%D9%A3")
    )  # fmt: skip
    glue = "&" if "?" in request.target else "?"
    return replace(request, target=f"{request.target}{glue}{extra}")


def _method(request: Request, dice: Random) -> Request:
    return replace(request, method=dice.choice(METHODS))


def _headers(request: Request, dice: Random) -> Request:
    names: dict[bytes, tuple[bytes, ...]] = {
        b"idempotency-key": (
            b"",
            b" ",
            b"k",
            b"k" * 255,
            b"k" * 256,
            b"\xff",
            b"a b",
            b"\x00",
            b"\xf0\x9f\x92\xa9",
            b"1",
        ),
        b"content-type": (
            b"",
            b"text/plain",
            b"application/json; charset=utf-16",
            b";;",
            b"\xff",
            b"multipart/form-data",
        ),
        b"content-length": (b"0", b"-1", b"x", b"9" * 30, b"1048577", b"\xb2", b"3"),
        b"content-encoding": (b"gzip", b"br", b"x"),
        b"transfer-encoding": (b"chunked", b"gzip, chunked"),
        b"host": (b"", b"[", b"evil.example", b"\xff", b"a" * 3000),
        b"origin": (b"null", b"https://evil.example", b"\xff"),
        b"accept": (b"text/html", b"*/*;q=0", b"\xff", b"application/xml"),
        b"authorization": (b"Bearer", b"Basic x", b"\xff"),
        b"x-forwarded-for": (b"10.0.0.7",),
        b"x-http-method-override": (b"DELETE",),
        b"cookie": (b"a=b; a=\xff", b"a" * 9000),
        b"range": (b"bytes=0-1",),
        b"if-none-match": (b"*",),
        b"expect": (b"100-continue",),
    }
    added = [(name, dice.choice(names[name])) for name in dice.sample(list(names), dice.choice((1, 1, 2, 5)))]
    return replace(request, headers=(*request.headers, *added))


def _repeated_key(request: Request, dice: Random) -> Request:
    """A key of a few: many requests share one."""
    key = (b"idempotency-key", f"shared-{dice.randint(0, 40)}".encode())
    return replace(request, headers=(*request.headers, key))


def _bytes(request: Request, dice: Random) -> Request:
    return replace(request, body=(dice.choice(WRITTEN)(b"".join(request.body) or b"{}", dice),))


def _chunks(request: Request, dice: Random) -> Request:
    body = b"".join(request.body)[:2000]
    size = dice.choice((1, 3, 100))
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return replace(request, body=(b"", *pieces, b""))


def _deep(body: bytes, dice: Random) -> bytes:
    depth = dice.choice((60, 63, 64, 65, 500, 100_000))
    return b'{"task": "add", "args": {"a": ' + b"[" * depth + b"]" * depth + b"}}"


def _flipped(body: bytes, dice: Random) -> bytes:
    place = dice.randrange(len(body))
    return body[:place] + bytes([dice.randrange(256)]) + body[place + dice.choice((0, 1)) :]


def _twice(body: bytes, dice: Random) -> bytes:
    """Every key twice, with another value the second time."""
    inner = body.strip()[1:-1]
    return b"{" + inner + b', "priority": 5, "priority": "x", ' + inner + b"}" if inner else b'{"a":1,"a":2}'


EMPTY = (b"", b" ", b"\n", b"null", b"true", b"[]", b'""', b"-0", b"1e999", b"{}", b"\x00", b"\xef\xbb\xbf")
NOT_JSON = (b"a=b&c=d", b"<x/>", b"--\r\n", b"// {}\n{}", b"{'a': 1}", b"{a: 1}", b"[1,]", b"{} {}", b"{'a': 01}")
ODD_NUMBERS = (b"NaN", b"Infinity", b"-Infinity", b"9" * 4000, b"9" * 5000, b"1e400", b"-1e-999", b"1.0", b"1e5", b"01")
ODD_TEXTS = (b"\\ud800", b"\\u0000", b"\\udc00\\ud800", b"\\x00", b"\xed\xa0\x80", b"\xff", b"\n", b"\\ud83d\\udca9")
CODECS = ("utf-16", "utf-16-le", "utf-32", "utf-7", "cp500")
LARGEST = 1024 * 1024


def _padded(body: bytes, dice: Random) -> bytes:
    """As large as may be, a byte larger, and much larger."""
    return b" " * max(dice.choice((LARGEST, LARGEST + 1, 2 * LARGEST)) - len(body), 0) + body


def _long(body: bytes, dice: Random) -> bytes:
    text = "x" * dice.choice((60_000, 70_000, 900_000))
    return json.dumps({"task": "letter", "args": {"to": text}}).encode()


WRITTEN: list[Callable[[bytes, Random], bytes]] = [
    lambda body, dice: body[: dice.randrange(len(body))],
    lambda body, dice: body + dice.choice((b"x", b"}", b"{}", b"\x00", b"\n\n", b",", b"\xff", b" " * 1000)),
    lambda body, dice: b"\xef\xbb\xbf" + body,
    lambda body, dice: body.decode("utf-8", "replace").encode(dice.choice(CODECS), "replace"),
    lambda body, dice: gzip.compress(body, mtime=0),
    lambda body, dice: dice.choice(EMPTY),
    lambda body, dice: dice.choice(NOT_JSON),
    lambda body, dice: b'{"task": ' + dice.choice(ODD_NUMBERS) + b"}",
    lambda body, dice: b'{"task": "add", "args": {"a": ' + dice.choice(ODD_NUMBERS) + b"}}",
    lambda body, dice: b'{"' + dice.choice(ODD_TEXTS) + b'": 1}',
    lambda body, dice: b'{"task": "boom", "args": {"text": "' + dice.choice(ODD_TEXTS) + b'"}}',
    _padded,
    _long,
    _deep,
    _flipped,
    _flipped,
    _twice,
]
ON_THE_LINE: list[Callable[[Request, Random], Request]] = [
    _path, _raw_query, _method, _headers, _headers, _repeated_key, _bytes, _bytes, _chunks,
]  # fmt: skip


def altered(request: Request, dice: Random) -> Request:
    """The same request, for the same thing, written differently."""
    return dice.choice((_bytes, _chunks, _raw_query))(request, dice)
