"""The applications of the process tests on schedules. Each run leaves marks, apart from all that oncue writes.

`crowd` declares its schedules in code. `app` declares tasks only: a test schedules those that it needs.

The host's clock may be another one than the tests': `TEST_CLOCK` is a file with the seconds that it is off, or the
word "steps": then it is a day ahead in one half of each second and a day behind in the other. Such a process asks for
the time more often than others do.
"""

from __future__ import annotations

import asyncio
import os
import time
from datetime import datetime, tzinfo
from pathlib import Path
from types import SimpleNamespace

import oncue.clock
from oncue import Oncue, cron, current_job
from oncue.engine.timekeeper import Timekeeper
from tests.process.program import LOOK_SECONDS, is_open, record

DAY = 86400.0
ASK_SECONDS = 0.5

_real_time = time.time


def mark(what: str) -> None:
    """Add a line to this process's file, with the true time; a process that is killed has written it or has not."""
    job = current_job()
    assert job.slot is not None
    path = Path(os.environ["PROGRAM_FOLDER"], f"{os.environ['PROGRAM_NAME']}.runs")
    line = f"{what} {job.task} {job.slot.isoformat()} {job.attempt} {_real_time()}\n"
    with path.open("ab", buffering=0) as file:
        file.write(line.encode())


async def _run(seconds: float) -> None:
    mark("start")
    await asyncio.sleep(seconds)
    mark("end")


# --- declared in code -------------------------------------------------------------------------------------------------

crowd = Oncue(name="crowd")


@crowd.task(schedule=cron("* * * * * *"), missed="each")
async def each_second() -> None:
    await _run(0.05)


@crowd.task(schedule=cron("*/2 * * * * *"), delivery="at_most_once")
async def once_in_two() -> None:
    await _run(0.3)


@crowd.task(schedule=cron("@every 3s"))
def every_three() -> None:
    mark("start")
    time.sleep(0.1)
    mark("end")


@crowd.task(schedule=cron("* * * * * *"), max_instances=2, missed="each", delivery="at_most_once")
async def two_at_once() -> None:
    await _run(1.6)


@crowd.task(schedule=cron("* * * * * *"))
async def longer_than_a_second() -> None:
    await _run(1.2)


# --- scheduled by the tests -------------------------------------------------------------------------------------------

app = Oncue(name="apart")


@app.task
async def tick() -> None:
    await _run(0.0)


@app.task(delivery="at_most_once")
async def once() -> None:
    await _run(0.0)


@app.task(delivery="at_most_once")
async def brief() -> None:
    """Runs until its gate is opened."""
    mark("start")
    while not is_open("brief"):  # noqa: ASYNC110
        await asyncio.sleep(LOOK_SECONDS)
    mark("end")


@app.task(delivery="at_most_once", max_runtime="1s")
async def stuck() -> None:
    """The first run keeps its whole process busy, until its gate is opened."""
    mark("start")
    if is_first():
        while not is_open("stuck"):
            time.sleep(LOOK_SECONDS)  # noqa: ASYNC251
    mark("end")


def is_first() -> bool:
    """Whether this run is the first one of its task."""
    try:
        Path(os.environ["PROGRAM_FOLDER"], f"{current_job().task}.first").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


# --- another clock ----------------------------------------------------------------------------------------------------


def skew(told: str) -> float:
    """How far the host's clock is off, in seconds."""
    if told == "steps":
        return DAY if time.monotonic() % 1 < 0.5 else -DAY
    return float(Path(told).read_text())


def set_host_clock(told: str) -> None:
    """Whoever asks this process's host for the time is told another one; what oncue was told is noted down."""

    def now(tz: tzinfo | None = None) -> datetime:
        off = skew(told)
        with Path(os.environ["PROGRAM_FOLDER"], f"{os.environ['PROGRAM_NAME']}.asked").open("a") as file:
            file.write(f"{_real_time()} {off}\n")
        return datetime.fromtimestamp(_real_time() + off, tz)

    Timekeeper.__init__.__kwdefaults__["interval"] = ASK_SECONDS
    time.time = lambda: _real_time() + skew(told)
    time.time_ns = lambda: round(time.time() * 1e9)
    # The only module that asks; tests/test_architecture.py sees to that.
    oncue.clock.datetime = SimpleNamespace(now=now, fromtimestamp=datetime.fromtimestamp)  # type: ignore[assignment,attr-defined]


if folder := os.environ.get("PROGRAM_FOLDER"):
    if clock := os.environ.get("TEST_CLOCK"):
        set_host_clock(clock)
    name = os.environ["PROGRAM_NAME"]
    history = Path(folder, f"{name}.history").open("w")  # noqa: SIM115
    for application in (crowd, app):
        record(application, history, name)
