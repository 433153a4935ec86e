"""What comes in: a body of bounded size that is JSON whatever it calls itself, and texts that a database can keep."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterable
from typing import Any, NoReturn

from starlette.requests import ClientDisconnect, Request

from oncue.server.api.problems import MALFORMED, NOT_FOUND, TOO_LARGE, Problem, invalid

LARGEST_BODY = 1024 * 1024
SMALL_BODY = 64 * 1024
MOST_FIELDS = 50
"""Of a body, or of one of the jobs or subjects in it: no route knows that many."""
THROWN_AWAY = 8 * LARGEST_BODY
DEEPEST = 64
ARRIVAL_SECONDS = 30.0
JSON = b"application/json"


async def read(request: Request) -> tuple[Request, Any]:
    """The same request with its body read and checked, and what that says; None if there is no body.

    `curl -d` without a header calls every body a form: what is not JSON is refused by what it is, not by its name.
    """
    body = await _bytes(request)
    # In a thread if it is large: a megabyte of hostile JSON takes a tenth of a second.
    parse = asyncio.to_thread(_parsed, body) if len(body) > SMALL_BODY else _at_once(body)
    value = await parse
    request.scope["headers"] = [
        *((name, text) for name, text in request.scope["headers"] if name != b"content-type"),
        (b"content-type", JSON),
    ]
    given: Any = Request(request.scope, request.receive)
    given._body = body if body.strip() else b""
    given._json = value
    return given, value


async def _at_once(body: bytes) -> Any:
    return _parsed(body)


async def _bytes(request: Request) -> bytes:
    """The body. If it is too large, a part is read and dropped: a client that still sends reads no answer."""
    announced = request.headers.get("content-length", "")
    size = int(announced) if announced.isdecimal() and len(announced) < 20 else 0
    _refuse_large(size, LARGEST_BODY if "expect" in request.headers else THROWN_AWAY)
    body, arrived = bytearray(), 0
    try:
        async with asyncio.timeout(ARRIVAL_SECONDS):
            async for chunk in request.stream():
                arrived += len(chunk)
                _refuse_large(arrived, THROWN_AWAY)
                if arrived <= LARGEST_BODY:
                    body += chunk
    except ClientDisconnect:
        raise Problem(MALFORMED, "The request ended in the middle.") from None
    except TimeoutError:
        raise Problem(MALFORMED, f"The body did not arrive within {ARRIVAL_SECONDS:g} s.") from None
    _refuse_large(max(size, arrived), LARGEST_BODY)
    return bytes(body)


def _refuse_large(size: int, most: int) -> None:
    if size > most:
        raise Problem(TOO_LARGE, f"expected a body of at most {LARGEST_BODY:,} bytes", headers={"Connection": "close"})


def _parsed(body: bytes) -> Any:
    """What a body says; None if there is none."""
    if not body.strip():
        return None
    try:
        value = json.loads(body.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise Problem(MALFORMED, f"expected JSON in UTF-8; byte {error.start + 1} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise Problem(MALFORMED, f"expected JSON; {error}") from None
    except (ValueError, RecursionError) as error:  # a number with thousands of digits, or too many brackets
        raise Problem(MALFORMED, f"expected JSON that can be read; {str(error)[:100]}") from None
    _refuse_many_fields(value)
    check_value(value)
    return value


def _refuse_many_fields(value: Any) -> None:
    """Every unknown field of a body, or of one of the rows in it, would be told of: there may be a hundred thousand."""
    named = [("body", value)]
    for name in ("jobs", "subjects") if isinstance(value, dict) else ():
        rows = value.get(name)
        if isinstance(rows, list):
            named += [(f"{name}.{number}", row) for number, row in enumerate(rows)]
    for place, found in named:
        if isinstance(found, dict) and len(found) > MOST_FIELDS:
            raise invalid(place, f"expected at most {MOST_FIELDS} fields, not {len(found):,}")


def _refuse_constant(name: str) -> NoReturn:
    raise Problem(MALFORMED, f"expected JSON; it has no {name}")


def check_value(value: Any, place: str = "") -> None:
    """Refuse what no database keeps. Without recursion: what comes in may be deep."""
    left: list[tuple[str, int, Any]] = [(place, 1, value)]
    while left:
        place, depth, found = left.pop()
        if depth > DEEPEST:
            raise Problem(MALFORMED, f"expected JSON that is nested at most {DEEPEST} deep")
        if isinstance(found, dict):
            for name, inner in found.items():
                check_text(name, place or "body")
                left.append((f"{place}.{name}" if place else name, depth + 1, inner))
        elif isinstance(found, list):
            left += [(f"{place}.{number}" if place else str(number), depth + 1, v) for number, v in enumerate(found)]
        elif isinstance(found, str):
            check_text(found, place or "body")
        elif isinstance(found, float) and not math.isfinite(found):
            raise invalid(place or "body", "expected a number that fits into 64 bits")


def check_text(text: str, field: str) -> None:
    """Refuse a text that cannot be stored: with NUL in it, or half a surrogate pair."""
    if "\x00" in text:
        raise invalid(_shown(field), "expected a text without NUL characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise invalid(_shown(field), "expected Unicode text, not half of a surrogate pair") from None


def _shown(field: str) -> str:
    return field.replace("\x00", "�").encode("utf-8", "replace").decode()


def check_address(request: Request, known: Iterable[str] | None) -> None:
    """Refuse a path or query that cannot be meant, and unknown parameters; None: the route takes none."""
    if "\x00" in request.scope["path"]:
        raise Problem(NOT_FOUND, "There is nothing under a path with a NUL character.")
    if known is None:
        return
    for name, value in request.query_params.multi_items():
        check_text(name, "query")
        check_text(value, name)
        if name not in known:
            expected = ", ".join(sorted(known)) or "none"
            raise invalid(name or "query", f"there is no such parameter; expected are: {expected}")
