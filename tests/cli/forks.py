"""An application whose handlers fork, each in its own way. `marks` is a folder: a child leaves its pid there."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

from oncue import Oncue

app = Oncue()


def linger(marks: str) -> None:
    Path(marks, "pid.new").write_text(str(os.getpid()))
    Path(marks, "pid.new").rename(Path(marks, "pid"))
    time.sleep(600)
    os._exit(0)


@app.task
def plain(marks: str) -> None:
    if os.fork() == 0:
        linger(marks)


@app.task
async def coroutine(marks: str) -> None:
    if os.fork() == 0:
        linger(marks)


@app.task
def multiprocess(marks: str) -> None:
    multiprocessing.get_context("fork").Process(target=linger, args=(marks,)).start()


@app.task
def program(marks: str) -> None:
    """Not a fork that stays one, but it inherits what may be inherited."""
    call = f"from tests.cli.forks import linger; linger({marks!r})"
    subprocess.Popen([sys.executable, "-c", call], close_fds=False)


@app.task(max_retries=0)
def plain_comes_back() -> int | None:
    child = os.fork()
    return None if child == 0 else os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@app.task(max_retries=0)
def plain_exits() -> int | None:
    child = os.fork()
    if child == 0:
        sys.exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@app.task(max_retries=0)
async def coroutine_comes_back() -> int | None:
    child = os.fork()
    return None if child == 0 else await ended(child)


@app.task(max_retries=0)
async def coroutine_waits() -> int | None:
    child = os.fork()
    if child == 0:
        await asyncio.sleep(600)
    return await ended(child)


async def ended(child: int) -> int:
    _, status = await asyncio.to_thread(os.waitpid, child, 0)
    return os.waitstatus_to_exitcode(status)
