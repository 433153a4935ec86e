"""Signing up, changing and leaving: a user's row and the user's window belong together.

The row is written first, marked as pending; then the window; then the mark is taken away. A process that is killed in
between leaves a pending user, and the next start writes the window (`finish_sign_ups`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice

from news_agent import users
from news_agent.jobs import app, daily_digest, read, write
from news_agent.users import User, Wanted
from oncue import SubjectNotFound

BATCH = 1000


async def sign_up(many: Sequence[Wanted], *, by: str = "system") -> list[User]:
    """Write users with their windows; those that are there get these terms. At most 1,000 at once.

    A change of the time or the zone counts today if the user's window has not opened yet, else from tomorrow on.
    """
    now = await app.now()
    last = {one.name: one for one in many}  # of two rows for one user the last one counts
    written = await write(users.put, list(last.values()), now)
    await _open_windows(written, by)
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


async def finish_sign_ups() -> int:
    """Write the windows of users whose sign-up broke off; how many."""
    done = 0
    async for some in _pending():
        await _open_windows(some, "news_agent")
        done += len(some)
    return done


async def leave(name: str, *, by: str = "system") -> None:
    """Remove a user with window, messages and digests. Broken off, it is simply repeated. Raises UserNotFound."""
    with suppress(SubjectNotFound):
        await app.windows.remove(daily_digest, name, by=by)
    if not await write(users.remove, name):
        raise users.UserNotFound(f"there is no user {name!r}")


async def _open_windows(many: Sequence[User], by: str) -> None:
    rows = [{"subject": user.name, "at": user.at, "tz": user.tz} for user in many]
    await app.windows.add_many(daily_digest, rows, by=by)
    await write(users.settled, many)


async def _pending() -> AsyncIterator[list[User]]:
    after = 0
    while some := await read(users.pending, after, BATCH):
        yield some
        after = some[-1].id
