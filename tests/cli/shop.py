"""The application that the shell's tests work with. It is imported anew by every test, and by worker processes."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

from oncue import Oncue, current_job

app = Oncue()


def leave(marks: str, name: str) -> None:
    Path(marks, name).touch()


@app.task
async def add(a: int, b: int = 1) -> int:
    return a + b


@app.task(key=lambda subreddit_id: f"community:{subreddit_id}")
async def crawl(subreddit_id: int) -> None: ...


@app.task
def greet(name: str, polite: bool = False) -> str:
    logging.getLogger("shop").info("greeting %s", name)
    current_job().rows(3)
    return f"Dear {name}" if polite else f"Hi {name}"


@app.task(max_retries=0)
async def boom(text: str = "bang") -> None:
    raise ValueError(text)


@app.task
async def nap(marks: str) -> None:
    """Sleeps until it is woken. Leaves a file behind when it starts, and another when it ends."""
    leave(marks, "started")
    while not Path(marks, "woken").exists():  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.01)
    leave(marks, "ended")


@app.task
def stuck(marks: str) -> None:
    """A thread that never ends and never looks around."""
    leave(marks, "started")
    while True:
        time.sleep(60)
