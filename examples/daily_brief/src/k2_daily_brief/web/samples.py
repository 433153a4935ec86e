"""The sample feeds over HTTP, with everything that feeds in the world do: ETags, dates, slowness, sheer size."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from html import escape

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, StreamingResponse

from k2_daily_brief.samples import feeds
from k2_daily_brief.samples.news import OUTLETS, stories

SLOW_SECONDS = 2.0
CHUNKS = 5
ARTICLE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="/static/brief.css">
<main><h1>{title}</h1><p>{text}</p><p class="facts">{outlet}, invented</p></main>
"""

router = APIRouter(prefix="/samples")


def _now() -> datetime:
    return datetime.now(UTC)


@router.get("/{name}.xml")
async def sample(request: Request, name: str) -> Response:
    now = _now()
    try:
        content = feeds.document(name, str(request.base_url).rstrip("/"), now)
    except KeyError:
        raise HTTPException(404, f"there is no sample feed {name}") from None
    headers = {"ETag": feeds.etag(content), "Last-Modified": feeds.last_modified(now)}
    if _is_known(request, headers["ETag"], headers["Last-Modified"]):
        return Response(status_code=304, headers=headers)
    pause = SLOW_SECONDS / CHUNKS if name == "slow" else 0.0
    return StreamingResponse(_in_pieces(content, pause), media_type="application/xml", headers=headers)


def _is_known(request: Request, etag: str, modified: str) -> bool:
    """Whether the client has this already. An ETag counts more than a date."""
    if (known := request.headers.get("if-none-match")) is not None:
        return etag in [tag.strip().removeprefix("W/") for tag in known.split(",")]
    try:
        since = parsedate_to_datetime(request.headers.get("if-modified-since", ""))
    except ValueError:
        return False
    return parsedate_to_datetime(modified) <= since


async def _in_pieces(content: bytes, pause: float) -> AsyncIterator[bytes]:
    size = len(content) // CHUNKS + 1
    for start in range(0, len(content), size):
        await asyncio.sleep(pause)
        yield content[start : start + size]


@router.get("/articles/{day}/{event}/{outlet}", response_class=HTMLResponse)
async def article(day: date, event: str, outlet: str) -> HTMLResponse:
    """The page that a sample article's link leads to."""
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    for story in stories(noon):
        if (story.event, story.outlet) == (event, outlet):
            return HTMLResponse(
                ARTICLE.format(title=escape(story.title), text=escape(story.summary), outlet=OUTLETS[outlet])
            )
    raise HTTPException(404, "no outlet has told of this")
