"""What comes in with a request: its query and its form, of bounded size."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qsl

from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect, Request

from oncue.server.api import problems
from oncue.server.api.intake import check_text
from oncue.server.api.problems import TOO_LARGE, Problem, invalid
from oncue.server.api.routing import READ_SECONDS

LARGEST_FORM = 512 * 1024
MOST_FIELDS = 2000
LONGEST_QUERY = 8 * 1024


def check_query(request: Request) -> None:
    if len(request.scope.get("query_string", b"")) > LONGEST_QUERY:
        raise invalid("query", f"expected at most {LONGEST_QUERY:,} bytes")
    check_text(request.scope["path"], "path")
    check_texts(request.query_params)


def check_texts(query: QueryParams) -> None:
    for name, value in query.multi_items():
        check_text(name, "query")
        check_text(value, name)


async def form(request: Request) -> list[tuple[str, str]]:
    """The fields of a form, of bounded size."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("application/x-www-form-urlencoded", ""):
        raise Problem(problems.MALFORMED, f"expected a form (application/x-www-form-urlencoded), not {kind!r:.100}")
    body = bytearray()
    try:
        async with asyncio.timeout(READ_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > LARGEST_FORM:
                    raise Problem(
                        TOO_LARGE, f"expected a form of at most {LARGEST_FORM:,} bytes", headers={"Connection": "close"}
                    )
    except ClientDisconnect:
        raise Problem(problems.MALFORMED, "The request ended in the middle.") from None
    except TimeoutError:
        raise Problem(
            problems.MALFORMED, f"The form did not arrive within {READ_SECONDS:g} s.", headers={"Connection": "close"}
        ) from None
    try:
        fields = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, encoding="utf-8", errors="strict", max_num_fields=MOST_FIELDS
        )
    except ValueError:
        raise Problem(problems.MALFORMED, f"expected a form in UTF-8 with at most {MOST_FIELDS:,} fields") from None
    for name, value in fields:
        check_text(name, "form")
        check_text(value, name)
    return [(name, value.replace("\r\n", "\n")) for name, value in fields]
