"""The application of the process tests on daily windows. Its handlers leave marks, apart from all that oncue writes.

What the job of a user does follows from the user's name: `quick` ones succeed at once, the others when their gate is
opened: `held-3` waits for the gate `held`.
"""

from __future__ import annotations

import asyncio
import os
import time
from datetime import date
from pathlib import Path

from oncue import Oncue, current_job, daily
from tests.process.program import LOOK_SECONDS, is_open, record

app = Oncue(name="windows")


def mark(what: str, user: str) -> None:
    """Add a line to this process's file; a process that is killed has written it or has not."""
    path = Path(os.environ["PROGRAM_FOLDER"], f"{os.environ['PROGRAM_NAME']}.days")
    with path.open("ab", buffering=0) as file:
        file.write(f"{what} {user} {current_job().id}\n".encode())


@app.task
async def reset(user: str) -> None:
    mark("reset", user)


@app.task(schedule=daily(window="60m", retry="1s"), on_cutoff=reset)
async def digest(user: str, day: date) -> None:
    mark("start", user)
    gate = user.partition("-")[0]
    while gate != "quick" and not is_open(gate):  # noqa: ASYNC110
        await asyncio.sleep(LOOK_SECONDS)
    mark("end", user)


@app.task(schedule=daily(window="60m", retry="1s"), on_cutoff=reset)
def plain_digest(user: str) -> None:
    """In a thread, which nothing can stop."""
    mark("start", user)
    while not is_open(user.partition("-")[0]):
        time.sleep(LOOK_SECONDS)
    mark("end", user)


if folder := os.environ.get("PROGRAM_FOLDER"):
    name = os.environ["PROGRAM_NAME"]
    record(app, Path(folder, f"{name}.history").open("w"), name)  # noqa: SIM115
