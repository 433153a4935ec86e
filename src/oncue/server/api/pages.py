"""Listings page by page: by limit and offset, or from where the last page ended, which stays fast far down too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

from fastapi import Query
from starlette.requests import Request

from oncue.operations import LARGEST_OFFSET
from oncue.server.api.models.base import LARGEST_ID
from oncue.server.api.problems import Answer

T = TypeVar("T")

LONGEST_PAGE = 1000

Limit: TypeAlias = Annotated[int, Query(ge=1, le=LONGEST_PAGE, description="At most so many.")]
Offset: TypeAlias = Annotated[
    int, Query(ge=0, le=LARGEST_OFFSET, description="Leave out so many; `next` is faster than a large one.")
]
Before: TypeAlias = Annotated[int | None, Query(ge=1, le=LARGEST_ID, description="Only those with a smaller id.")]


def cut(found: Sequence[T], limit: int) -> tuple[list[T], T | None]:
    """A page, and its last row if more come after it: one more than the page was asked for."""
    page = list(found[:limit])
    return page, page[-1] if len(found) > limit else None


def answer(request: Request, name: str, records: Iterable[Any], **position: Any) -> Answer:
    """A page of records. `position` is where the next one begins; None if there is none."""
    goes_on = all(value is not None for value in position.values())
    link = _next(request, position) if goes_on else None
    headers = {} if link is None else {"Link": f'<{link}>; rel="next"'}
    return Answer({name: list(records), "next": link}, headers=headers)


def _next(request: Request, position: dict[str, Any]) -> str:
    """The same address, further on."""
    kept = [(name, value) for name, value in request.query_params.multi_items() if name not in (*position, "offset")]
    return f"{quote(request.scope['path'])}?{urlencode([*kept, *position.items()])}"
