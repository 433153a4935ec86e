"""Process tasks of the tests: a child imports them from here. They tell what they do through a named pipe.

A pipe that a process holds open does not end before it does: when all of it was read, everyone has died.
"""

from __future__ import annotations

import asyncio
import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from datetime import datetime
from textwrap import dedent
from typing import Any, TextIO

from oncue import Oncue, Retry, Skip, Snooze, current_job

DEAF = 'trap "" TERM; echo grandchild $$ >&$0; sleep 60'

app = Oncue()


def only_once(retries: int, error: Exception) -> float | None:
    return None if "hopeless" in str(error) else 7.0


@app.task(process=True)
def place() -> list[int]:
    return [os.getpid(), os.getpgrp(), os.getsid(0), os.getppid()]


@app.task(process=True)
async def place_too() -> list[int]:
    await asyncio.sleep(0)
    return [os.getpid(), os.getpgrp(), os.getsid(0), os.getppid()]


@app.task(process=True)
def context(slot: datetime, number: int) -> dict[str, Any]:
    job = current_job()
    job.rows(12)
    job.progress(0.25, "a quarter")
    return {
        "id": job.id, "uid": str(job.uid), "attempt": job.attempt, "slot": str(job.slot), "same": slot == job.slot,
        "cancel": job.cancel_requested, "number": number, "database": app.settings.database_url,
    }  # fmt: skip


@app.task(process=True)
def descriptors() -> list[str]:
    """What is open here: (number, what it leads to)."""
    found = []
    for number in sorted(map(int, os.listdir("/proc/self/fd"))):
        try:
            found.append(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
        except OSError:
            continue  # the listing itself
    return found


def greet_and_wait(pipe: Any) -> None:
    pipe.send("hello")
    time.sleep(60)


@app.task(process=True)
def helped() -> int | None:
    """Forks a helper, and stops it."""
    ours, theirs = multiprocessing.Pipe()
    helper = multiprocessing.get_context("fork").Process(target=greet_and_wait, args=(theirs,))
    helper.start()
    ours.recv()
    helper.terminate()
    helper.join(20)
    return helper.exitcode


@app.task(process=True, retry=only_once)
def broken(how: str) -> object:
    match how:
        case "exit":
            sys.exit(4)
        case "segfault":
            ctypes.string_at(0)
        case "leave":
            os._exit(3)
        case "skip":
            raise Skip("nothing to do")
        case "snooze":
            raise Snooze("5s")
        case "retry":
            raise Retry("later", after="9s")
        case "strange":
            return object()
    raise ValueError(how)


@app.task(process=True)
async def broken_too(how: str) -> None:
    if how == "cancel":
        raise asyncio.CancelledError
    raise ValueError(how)


@app.task(process=True)
def hold(pipe: str, deaf: bool = False, grandchild: bool = False) -> str:
    """Runs until it is stopped."""
    with open(pipe, "w", buffering=1) as tell:
        try:
            begin(tell, deaf, grandchild)
            time.sleep(60)
        finally:
            tell.write("tidied up\n")
    return "never"


@app.task(process=True)
async def hold_too(pipe: str, busy: bool = False, grandchild: bool = False) -> str:
    """Waits, or computes without ever coming to an `await`."""
    with open(pipe, "w", buffering=1) as tell:  # noqa: ASYNC230
        try:
            begin(tell, deaf=False, grandchild=grandchild)
            while busy:
                pass
            await asyncio.sleep(60)
        finally:
            tell.write("tidied up\n")
    return "never"


@app.task(process=True)
def stubborn(pipe: str) -> str:
    """Finishes all the same."""
    with open(pipe, "w", buffering=1) as tell:
        try:
            begin(tell, deaf=False, grandchild=False)
            time.sleep(60)
        except SystemExit:
            return "finished"
    return "never"


def begin(tell: TextIO, deaf: bool, grandchild: bool) -> None:
    if deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if grandchild:
        subprocess.Popen(["sh", "-c", DEAF, str(tell.fileno())], pass_fds=[tell.fileno()])
    current_job().progress(0.5)
    tell.write(f"begun {os.getpid()}\n")


@app.task(process=True)
def wait(pipe: str, gate: str) -> None:
    """Runs until its gate is opened."""
    with open(pipe, "w") as tell:
        tell.write(f"job {current_job().id}\n")
    with open(gate) as opened:
        opened.read()


@app.task(process=True)
def forget(pipe: str) -> int:
    """Leaves something running behind, which holds the pipe."""
    with open(pipe, "w", buffering=1) as tell:
        begin(tell, deaf=False, grandchild=True)
    return os.getpid()


dedented = app.task(name="dedented", process=True)(dedent)
"""A function of somebody else's."""
