"""The application of the demo, as its workers import it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from datetime import datetime

from oncue import Exponential, Oncue, cron, current_job

PARENT = "ONCUE_DEMO_PARENT"

app = Oncue(name="demo")


@app.task
async def send_email(number: int) -> None:
    """An ordinary coroutine: it waits for another service most of the time."""
    await asyncio.sleep(0.01 + number % 5 / 100)


@app.task
def resize_image(number: int) -> int:
    """An ordinary function: it runs in a thread."""
    time.sleep(0.005 + number % 4 / 200)
    return number


@app.task(priority=50, retry=Exponential("300ms", cap="1s"))
async def charge_card(number: int) -> str:
    """Fails once or twice, and is tried again a moment later."""
    attempt = current_job().attempt
    if attempt <= 1 + number % 2:
        raise ConnectionError("the card processor does not answer")
    return f"charged at attempt {attempt}"


@app.task
async def build_report(number: int) -> None:
    """Takes a while: most likely to be cut short when its worker is killed."""
    await asyncio.sleep(0.5 + number % 6 / 10)


@app.task(schedule=cron("* * * * * *"), delivery="at_most_once", missed="each", max_instances=10)
async def take_pulse(slot: datetime) -> None:
    """Scheduled for every second, by the leader."""


KINDS = {
    "send_email": "async",
    "resize_image": "plain function",
    "charge_card": "fails first",
    "build_report": "slow",
}


def _follow(parent: int) -> None:
    """End with the demo, even if it was killed: its workers must not stay behind."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)


if PARENT in os.environ:
    threading.Thread(target=_follow, args=(int(os.environ[PARENT]),), name="demo-parent", daemon=True).start()
