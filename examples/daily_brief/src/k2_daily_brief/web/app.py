"""The web application. It reads the database; the only thing it ever writes is tables that are missing."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from fastapi.templating import Jinja2Templates
from sqlalchemy import Engine, select, text
from sqlalchemy.exc import SQLAlchemyError

from k2_daily_brief import briefs, database, runs, settings
from k2_daily_brief.database import reading
from k2_daily_brief.tables import feeds
from k2_daily_brief.web import samples
from oncue import Oncue

HERE = Path(__file__).parent


@asynccontextmanager
async def _life(app: FastAPI) -> AsyncIterator[None]:
    ours = Oncue().settings
    engine = database.connect(ours.database_url)
    await run_in_threadpool(database.create_tables, engine)
    app.state.engine, app.state.schema = engine, ours.schema
    yield
    engine.dispose()


app = FastAPI(title="K2 Daily Brief", lifespan=_life, openapi_url=None)
app.mount("/static", StaticFiles(directory=HERE / "static"), name="static")
app.include_router(samples.router)
templates = Jinja2Templates(directory=HERE / "templates")


def _zone() -> ZoneInfo:
    return ZoneInfo(settings.load().timezone)


def _clock(moment: datetime | None, form: str = "%H:%M") -> str:
    return "–" if moment is None else moment.astimezone(_zone()).strftime(form)


templates.env.filters["clock"] = _clock


def _page(request: Request, name: str, **values: Any) -> HTMLResponse:
    return templates.TemplateResponse(request, name, {"zone": str(_zone()), **values})


@app.get("/", response_class=HTMLResponse)
def todays_brief(request: Request) -> HTMLResponse:
    """The events of the last 24 hours, the feeds, and the last runs of each job."""
    engine: Engine = request.app.state.engine
    now = datetime.now(UTC)
    with reading(engine) as connection:
        events = briefs.current(connection, now)
        known_feeds = connection.execute(select(feeds).order_by(feeds.c.url)).all()
        days = briefs.published_days(connection)
    jobs = runs.last_runs(engine, request.app.state.schema)
    return _page(request, "today.html", now=now, events=events, feeds=known_feeds, jobs=jobs, days=days)


@app.get("/briefs/{day}", response_class=HTMLResponse)
def published_brief(request: Request, day: date) -> HTMLResponse:
    with reading(request.app.state.engine) as connection:
        events = briefs.published(connection, day)
    if events is None:
        raise HTTPException(404, f"there is no brief of {day}")
    return _page(request, "published.html", day=day, events=events)


@app.get("/health")
def health(request: Request) -> Response:
    """Whether this process can answer, and which one it is."""
    try:
        with reading(request.app.state.engine) as connection:
            connection.execute(text("select 1"))
    except SQLAlchemyError as error:
        return JSONResponse({"status": "unavailable", "reason": type(error).__name__}, 503)
    return JSONResponse({"status": "ok", "pid": os.getpid()})
