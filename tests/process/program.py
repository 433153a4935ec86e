"""The application of the process tests. Its tasks leave marks in a file, apart from all that oncue writes.

A process that is told a folder (`PROGRAM_FOLDER`) and its own name (`PROGRAM_NAME`) also records its history there.
`TEST_LEASE` says how long its leases are, if not as long as usual here.
`TEST_STANDSTILL` lets it stand still where it is told to.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from datetime import timedelta
from pathlib import Path
from typing import TextIO

from oncue import Cancel, Ladder, Oncue, current_job
from oncue.clock import DatabaseClock
from oncue.sim.history import History, TelemetryRecorder
from tests.process import standstill

LEASE = 2.0
LOOK_SECONDS = 0.02

app = Oncue()


def mark(what: str) -> None:
    """Add a line to this process's file; a process that is killed has written it or has not."""
    job = current_job()
    path = Path(os.environ["PROGRAM_FOLDER"], f"{os.environ['PROGRAM_NAME']}.marks")
    with path.open("ab", buffering=0) as file:
        file.write(f"{what} {job.id} {job.attempt} {os.getpid()}\n".encode())


def is_open(gate: str) -> bool:
    return Path(os.environ["PROGRAM_FOLDER"], f"{gate}.gate").exists()


@app.task
async def step(seconds: float = 0.02) -> None:
    mark("start")
    await asyncio.sleep(seconds)
    mark("end")


@app.task
def plain_step(seconds: float = 0.02) -> None:
    mark("start")
    time.sleep(seconds)
    mark("end")


@app.task(retry=Ladder("100ms", "200ms", "300ms"))
async def flaky(seconds: float = 0.02) -> None:
    """Fails at its first attempt."""
    mark("start")
    await asyncio.sleep(seconds)
    if current_job().attempt == 1:
        mark("failed")
        raise RuntimeError("the first attempt fails")
    mark("end")


@app.task(delivery="at_most_once")
async def once(seconds: float = 0.02) -> None:
    mark("start")
    await asyncio.sleep(seconds)
    mark("end")


@app.task
async def hold(gate: str) -> None:
    """Runs until its gate is opened."""
    mark("start")
    try:
        while not is_open(gate):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_SECONDS)
    except asyncio.CancelledError:
        mark("cut")
        raise
    mark("end")


@app.task
def plain_hold(gate: str) -> None:
    mark("start")
    while not is_open(gate):
        if current_job().cancel_requested:
            mark("cut")
            raise Cancel("it was asked to stop")
        time.sleep(LOOK_SECONDS)
    mark("end")


@app.task(priority=50)
async def fatal() -> None:
    """Takes its process with it."""
    mark("start")
    os.kill(os.getpid(), signal.SIGKILL)


def record(application: Oncue, file: TextIO, name: str) -> History:
    """Write the history of this process into a file."""
    history = History(DatabaseClock(), file)
    TelemetryRecorder(
        application.internals.telemetry, history, name, timedelta(seconds=float(os.environ.get("TEST_LEASE", LEASE)))
    )
    return history


if folder := os.environ.get("PROGRAM_FOLDER"):
    name = os.environ["PROGRAM_NAME"]
    record(app, Path(folder, f"{name}.history").open("w"), name)  # noqa: SIM115
    if "TEST_STANDSTILL" in os.environ:
        standstill.install(Path(folder), name)
