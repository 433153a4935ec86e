"""Signing up, changing and leaving: a user's row and the user's window are written in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice

from sqlalchemy import Connection

from news_agent import users
from news_agent.jobs import app, daily_digest, write
from news_agent.users import User, Wanted
from oncue import SubjectNotFound

BATCH = 1000


async def sign_up(many: Sequence[Wanted], *, by: str = "system") -> list[User]:
    """Write users with their windows; those that are there get these terms. At most 1,000 at once.

    A change of the time or the zone counts today if the user's window has not opened yet, else from tomorrow on.
    """
    last = {one.name: one for one in many}  # of two rows for one user the last one counts
    return await write(_sign_up, list(last.values()), await app.now(), by)


def _sign_up(connection: Connection, many: Sequence[Wanted], now: datetime, by: str) -> list[User]:
    written = users.put(connection, many, now)
    rows = [{"subject": user.name, "at": user.at, "tz": user.tz} for user in written]
    app.wait(app.windows.add_many(daily_digest, rows, by=by, on=connection))
    return written


async def sign_up_many(
    rows: Iterable[Wanted], *, by: str = "system", progress: Callable[[int], None] = lambda done: None
) -> int:
    """Sign up any number of users; how many. Broken off, it is simply started again."""
    left, done = iter(rows), 0
    while batch := [*islice(left, BATCH)]:
        await sign_up(batch, by=by)
        done += len(batch)
        progress(done)
    return done


async def leave(name: str, *, by: str = "system") -> None:
    """Remove a user with window, messages and digests. Raises UserNotFound."""
    await write(_leave, name, by)


def _leave(connection: Connection, name: str, by: str) -> None:
    if not users.remove(connection, name):
        raise users.UserNotFound(f"there is no user {name!r}")
    with suppress(SubjectNotFound):
        app.wait(app.windows.remove(daily_digest, name, by=by, on=connection))
