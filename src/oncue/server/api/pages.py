"""Listings page by page: by limit and offset, or from where the last page ended, which stays fast far down too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

from fastapi import Query
from starlette.requests import Request

from oncue.server.api.models.base import LARGEST_ID
from oncue.server.api.problems import Answer, rendered
from oncue.verbs.jobs import LARGEST_OFFSET

T = TypeVar("T")

LONGEST_PAGE = 1000
LARGEST_PAGE = 8 * 1024 * 1024
RECORDS_A_TURN = 50

Limit: TypeAlias = Annotated[int, Query(ge=1, le=LONGEST_PAGE, description="At most so many.")]
Offset: TypeAlias = Annotated[
    int, Query(ge=0, le=LARGEST_OFFSET, description="Leave out so many; `next` is faster than a large one.")
]
Before: TypeAlias = Annotated[int | None, Query(ge=1, le=LARGEST_ID, description="Only those with a smaller id.")]


async def answer(
    request: Request,
    name: str,
    found: Sequence[T],
    limit: int,
    record: Callable[[T], Any],
    **position: Callable[[T], Any],
) -> Answer:
    """A page of at most `limit` rows and LARGEST_PAGE bytes; it has a next one if there are more rows than it shows.

    `position` says where that begins, by the last row shown. A thousand records take a while to write: in between, the
    event loop serves others.
    """
    texts: list[bytes] = []
    size = 0
    for row in found[:limit]:
        text = rendered(record(row))
        size += len(text)
        if texts and size > LARGEST_PAGE:
            break
        texts.append(text)
        if len(texts) % RECORDS_A_TURN == 0:
            await asyncio.sleep(0)
    goes_on = bool(position) and len(texts) < len(found)
    reached = {key: at(found[len(texts) - 1]) for key, at in position.items()} if goes_on else {}
    return _page(request, name, texts, reached)


async def in_parts(
    request: Request,
    name: str,
    read: Callable[[T | None, int], Awaitable[Sequence[T]]],
    limit: int,
    record: Callable[[T], Any],
    **position: Callable[[T], Any],
) -> Answer:
    """The same of rows that may be large: `read` gets the last row and how many to read after it. Of what the page
    does not show, few are read: a thousand rows of 255 KB would fill the memory."""
    texts: list[bytes] = []
    size, last, is_full, more = 0, None, False, True
    while more and not is_full:
        asked = min(RECORDS_A_TURN, limit + 1 - len(texts))
        part = await read(last, asked)
        more = len(part) == asked
        for row in part:
            text = rendered(record(row))
            size += len(text)
            is_full = len(texts) == limit or (bool(texts) and size > LARGEST_PAGE)
            if is_full:
                break
            texts.append(text)
            last = row
    reached = {key: at(last) for key, at in position.items()} if is_full and last is not None else {}
    return _page(request, name, texts, reached)


def _page(request: Request, name: str, texts: Sequence[bytes], position: dict[str, Any]) -> Answer:
    link = following(request, **position) if position else None
    headers = {} if link is None else {"Link": f'<{link}>; rel="next"'}
    body = b'{"%b":[%b],"next":%b}' % (name.encode(), b",".join(texts), rendered(link))
    return Answer(body, headers=headers)


def following(request: Request, **position: Any) -> str:
    """The same address, further on."""
    kept = [(name, value) for name, value in request.query_params.multi_items() if name not in (*position, "offset")]
    return f"{quote(request.scope['path'])}?{urlencode([*kept, *position.items()])}"
