"""An operator whose process stands still in the middle of a change: right after the database has answered its write.

Its last argument is a part of that statement. Whatever the process would have asked next, a commit for one, is never
asked.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from asyncpg import Connection

from tests.process.program import app


def stand_still_after(part: str) -> None:
    execute = Connection._execute

    async def stopping(self: Any, query: str, *rest: Any, **options: Any) -> Any:
        answer = await execute(self, query, *rest, **options)
        if part in query:
            os.kill(os.getpid(), signal.SIGSTOP)
        return answer

    Connection._execute = stopping  # type: ignore[method-assign]


async def main(verb: str, subject: str, part: str) -> None:
    await app.internals.connected()
    stand_still_after(part)
    if verb == "edit":
        await app.schedules.change(subject, description="edited")
    else:
        await app.jobs.prioritize(int(subject), 77)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
