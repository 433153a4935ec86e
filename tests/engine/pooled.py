"""An application with a lifespan and process tasks, for test_processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from oncue import Oncue

app = Oncue("sqlite:///pooled.db")

LEFT: list[asyncio.Task[bool]] = []


class Pool:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.uses = 0
        self.keeper = asyncio.create_task(asyncio.Event().wait())


@app.lifespan
async def pool() -> AsyncIterator[Pool]:
    opened = Pool()
    yield opened
    opened.keeper.cancel()
    if "CLOSED_HERE" in os.environ:
        Path(os.environ["CLOSED_HERE"]).write_text(str(opened.uses))  # noqa: ASYNC240


@app.task(process=True)
async def use() -> tuple[int, bool, bool]:
    """How often the pool was used, whether it is of this loop, and whether its own task still runs."""
    LEFT.append(asyncio.create_task(asyncio.Event().wait()))  # it must not run on, nor stop the pool's own task
    await asyncio.sleep(0)
    pool().uses += 1
    return pool().uses, pool().loop is asyncio.get_running_loop(), not pool().keeper.done()


@app.task(process=True)
def use_plainly() -> int:
    pool().uses += 1
    return pool().uses
