"""The pages: all users with what today came to, and one user's day. They are plain HTML, and only show."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from news_agent import days
from news_agent.jobs import app, daily_digest
from news_agent.users import UserNotFound
from news_agent.web.api import UserId, WantedDay
from oncue.policy import windows
from oncue.records.windows import day_records
from oncue.server.api.routing import PUBLIC, Routes

HERE = Path(__file__).parent
PAGE = 50
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""No script runs here, whatever a name, a message or a digest says. Others' news are not kept in a browser's cache."""
WORDS = {
    "none": "no window", "upcoming": "upcoming", "open": "open", "overdue": "overdue", "success": "delivered",
    "cutoff_reached": "cutoff reached", "missed": "missed",
}  # fmt: skip
REASONS = {"added_late": "signed up after the day's cutoff", "outage": "nothing ran at the cutoff"}

_templates = Environment(
    loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)


def add(routes: Routes) -> None:
    @routes.get("/", response_model=None, include_in_schema=False)
    async def all_users(after: str = "") -> Response:
        entries, now = await days.today(after, PAGE + 1), await app.now()
        counts = day_records(await app.windows.day(daily_digest, now.date()))
        totals = {name: sum(one[name] for one in counts) for name in ("open", "success", "cutoff_reached", "missed")}
        has_more = len(entries) > PAGE
        return _page("users.html", entries=entries[:PAGE], has_more=has_more, totals=totals, now=now, after=after)

    @routes.get("/users/{id}", response_model=None, include_in_schema=False)
    async def one_day(id: UserId, day: WantedDay = None) -> Response:
        try:
            found = await days.of_user(id, day)
        except UserNotFound as error:
            return _page("missing.html", 404, what=str(error))
        return _page("day.html", found=found, now=await app.now(), one_day=windows.ONE_DAY)

    @routes.get("/news.css", needs=PUBLIC, response_model=None, include_in_schema=False)
    async def style() -> Response:
        return Response((HERE / "news.css").read_text("utf-8"), media_type="text/css")


def _page(name: str, status: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(_templates.get_template(name).render(**values), status, headers=HEADERS)


def _clock(moment: datetime | None, tz: str, form: str = "%H:%M") -> str:
    return "–" if moment is None else moment.astimezone(ZoneInfo(tz)).strftime(form)


def _gap(moment: datetime, now: datetime) -> str:
    """How far an instant is from now: `in 2 h 05 min`, `12 min ago`."""
    minutes = round(abs((moment - now).total_seconds()) / 60)
    hours, rest = divmod(minutes, 60)
    text = f"{hours} h {rest:02} min" if hours else f"{rest} min"
    return f"in {text}" if moment >= now else f"{text} ago"


_templates.filters |= {
    "clock": _clock,
    "gap": _gap,
    "word": lambda status: WORDS[status],
    "why": lambda reason: REASONS.get(reason, reason),
}
