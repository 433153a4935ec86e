"""The application: a digest for each user in the window before the user's time, and a fresh chat if that fails.

A crash between a delivery and its record leads to a second attempt, which finds the digest delivered and succeeds: the
table of digests has one row for a user and a day. No attempt is left out to avoid that (I5).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import date
from functools import cache
from threading import RLock
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine

from news_agent import chats, database, digests, model, settings, users
from news_agent.model import Model, ModelError, Prompt
from oncue import Cancel, Oncue, current_job, daily

P = ParamSpec("P")
T = TypeVar("T")

NAME = "news_agent"
TOO_LATE = "the cutoff was reached before the digest was ready: it is not delivered"

app = Oncue(name=NAME)
_settings = settings.load()
_opening = RLock()  # the first jobs of a worker begin at the same time


@app.lifespan
async def the_model() -> AsyncIterator[Model]:
    async with model.opened(_settings) as opened:
        yield opened


@app.task
async def reset_chat(user: str, day: date) -> None:
    """The cutoff was reached without a digest: the user's next message begins a new chat."""
    decided_at = (await app.jobs.get(current_job().id)).created_at
    current_job().rows(await write(chats.reset, user, day, decided_at))


@app.task(
    schedule=daily(window=_settings.window_minutes * 60, retry=_settings.retry_delay_minutes * 60),
    max_concurrency=_settings.max_concurrency,
    timeout=_settings.job_timeout_ms / 1000,
    on_cutoff=reset_chat,
)
async def daily_digest(user: str, day: date) -> dict[str, Any]:
    """Ask the model for a user's digest, and deliver it before the user's time."""
    try:
        prompt, is_delivered = await read(_prepared, user, day)
        if is_delivered:
            return {"delivered": False, "reason": "an earlier attempt has delivered it"}
        text = await the_model().answer(prompt)
        return {"delivered": await _delivered(user, day, text)}
    except ModelError as error:
        current_job().details(error_class=error.error_class)  # the page shows it; telemetry reads the attribute
        raise
    except digests.TooLate:
        raise Cancel(TOO_LATE) from None
    except users.UserNotFound:
        raise Cancel("the user was removed") from None


def _prepared(connection: Connection, name: str, day: date) -> tuple[Prompt, bool]:
    """What the model is asked, and whether the user has the digest of this day already."""
    user = users.by_name(connection, name)
    context = chats.said(chats.context(connection, user.id))
    return Prompt("digest", name, day, user.topics, context), digests.of(connection, user.id, day) is not None


async def _delivered(user: str, day: date, text: str) -> bool:
    """Deliver, unless the day is over by now: oncue would not count it, and the chat begins anew."""
    now, subject = await app.now(), await app.windows.subject(daily_digest, user)
    if subject.day != day or now >= subject.cutoff_at:
        raise digests.TooLate
    return await write(digests.deliver, user, day, text, the_model().name, now)


# --- the database that oncue's tables are in too --------------------------------------------------------------------


def engine() -> Engine:
    """Opened when it is first needed, with this program's tables made if they are missing."""
    with _opening:
        return _opened()


@cache
def _opened() -> Engine:
    opened = database.connect(app.settings.database_url)
    database.create_tables(opened)
    return opened


def forget() -> None:
    """Close the database. It is opened anew when it is needed, under the settings that hold then."""
    with _opening:
        if _opened.cache_info().currsize:
            _opened().dispose()
        _opened.cache_clear()


async def read(what: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
    """One consistent look at this program's tables, in a thread: the event loop has other users to serve."""

    def look() -> T:
        with database.reading(engine()) as connection:
            return what(connection, *args, **kwargs)

    return await asyncio.to_thread(look)


async def write(what: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
    """One transaction on this program's tables, in a thread."""

    def change() -> T:
        with database.writing(engine()) as connection:
            return what(connection, *args, **kwargs)

    return await asyncio.to_thread(change)
