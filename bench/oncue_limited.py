"""A node of a queue with a global limit, as a measured child: it works until it is told to stop.

Each handler writes when it began and when it ended into a file of its node's, straight through, so that what a killed
node did is known as well.
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys
import time

from bench import child, timing
from oncue import Oncue
from oncue.settings import Settings

QUEUE = "limited"
HANDLER_SECONDS = 0.01
LEASE_SECONDS = 2.0
EVENT = struct.Struct("<qb")


def make_app(url: str, trace: int | None = None) -> Oncue:
    app = Oncue(settings=Settings(database_url=url, queues=(QUEUE,), lease=LEASE_SECONDS))

    def note(step: int) -> None:
        if trace is not None:
            os.write(trace, EVENT.pack(time.monotonic_ns(), step))

    @app.task(queue=QUEUE)
    async def short() -> None:
        note(1)
        await asyncio.sleep(HANDLER_SECONDS)
        note(-1)

    return app


async def work(url: str, path: str) -> None:
    app = make_app(url, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
    stop = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, stop.set)
    async with app.worker():
        child.announce()
        await stop.wait()
    child.answer(done=True)


if __name__ == "__main__":
    child.dispatch({"work": lambda url, path: timing.run(work(url, path))})
