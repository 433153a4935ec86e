"""The web application: the page, and behind it oncue's API in the crawler's words (`translation.py`)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles
from fastapi.templating import Jinja2Templates
from sqlalchemy import select

from community_crawler import jobs, settings
from community_crawler.database import reading
from community_crawler.tables import communities
from community_crawler.web import views
from community_crawler.web.translation import Communities, Translation

HERE = Path(__file__).parent
MOST_PAGES = 10_000

Search = Annotated[str, Query(max_length=100)]
PageNumber = Annotated[int, Query(ge=1, le=MOST_PAGES)]

router = APIRouter()
templates = Jinja2Templates(directory=HERE / "templates")


def create(*, on_loopback: bool) -> FastAPI:
    """The application. If it listens on a loopback address alone, its API is open until somebody makes a token."""
    app = FastAPI(title="Communities", lifespan=_life, openapi_url=None)
    app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")
    app.include_router(router)
    known = Communities(_exists, _named, jobs.add_community)
    app.mount("/", Translation(jobs.app.asgi(on_loopback=on_loopback), known, jobs.hurry))
    return app


@asynccontextmanager
async def _life(app: FastAPI) -> AsyncIterator[None]:
    await run_in_threadpool(jobs.engine)
    yield
    await jobs.app.aclose()
    jobs.forget()


async def _exists(number: int) -> bool:
    return await run_in_threadpool(_is_there, number)


def _is_there(number: int) -> bool:
    with reading(jobs.engine()) as connection:
        return connection.execute(select(communities.c.id).where(communities.c.id == number)).scalar() is not None


async def _named(name: str) -> int | None:
    return await run_in_threadpool(jobs.community_named, name)


def _clock(moment: datetime | None) -> str:
    return "–" if moment is None else moment.strftime("%d %b, %H:%M:%S")


templates.env.filters["clock"] = _clock


@router.get("/", response_class=HTMLResponse)
def page(request: Request, search: Search = "", page: PageNumber = 1) -> HTMLResponse:
    """How far the crawl is, the biggest communities as a graph, a table of all, and what went wrong."""
    text = search.strip()
    with reading(jobs.engine()) as connection:
        found = {
            "progress": views.counts(connection),
            "graph": views.graph(connection),
            "table": views.table(connection, text, page),
            "failures": views.failures(connection),
        }
    values = {**found, "search": text, "site": settings.load().site, "biggest": views.BIGGEST}
    return templates.TemplateResponse(request, "page.html", values)


@router.get("/progress")
def progress() -> dict[str, int]:
    with reading(jobs.engine()) as connection:
        return views.counts(connection)


@router.get("/graph")
def graph() -> dict[str, object]:
    with reading(jobs.engine()) as connection:
        return dict(views.graph(connection))
