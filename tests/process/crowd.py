"""A process that enqueues and reads from eight threads at once. It writes what was acknowledged into its history.

Half of the threads are plain code and share the process's one way to the database; each of the others brings its own
event loop, and with it connections of its own.
"""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.process.program import app, plain_step, step

THREADS = 8


def plainly(count: int) -> None:
    for _ in range(count):
        receipt = plain_step.enqueue(0.0)
        assert app.wait(app.jobs.get(receipt.id)).id == receipt.id
        assert app.wait(app.jobs.list(limit=5))


def in_its_own_loop(count: int) -> None:
    async def work() -> None:
        for _ in range(count):
            receipt = await step.aenqueue(0.0)
            assert (await app.jobs.get(receipt.id)).id == receipt.id
            assert await app.jobs.list(limit=5)
        await app.aclose()

    asyncio.run(work())


def main(count: int) -> None:
    with ThreadPoolExecutor(THREADS) as threads:
        works = [plainly, in_its_own_loop] * (THREADS // 2)
        for done in [threads.submit(work, count) for work in works]:
            done.result()
    app.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
