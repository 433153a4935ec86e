"""An application whose jobs run in processes, and start processes of their own."""

from __future__ import annotations

import logging
import os
import subprocess
import time
from pathlib import Path

from oncue import Oncue, current_job

app = Oncue()
_log = logging.getLogger("heavy")


@app.task(process=True)
def hold() -> None:
    """Runs until it is stopped, beside a process that does not listen to SIGTERM."""
    other = subprocess.Popen(["sh", "-c", 'trap "" TERM; echo ready; exec sleep 600'], stdout=subprocess.PIPE)
    assert other.stdout is not None
    other.stdout.readline()
    _log.info("hello from the child")
    current_job().progress(0.5, "half-way")
    current_job().details(page=7)
    try:
        tell("begun", os.getpid(), other.pid)
        time.sleep(600)
    finally:
        tell("tidied up")


@app.task(process=True)
def ask() -> None:
    """Is followed by another job."""
    current_job().then(note.using(delay="1h"), text="from a child")


@app.task
def note(text: str) -> None: ...


def tell(what: str, *pids: int) -> None:
    with Path(os.environ["PROGRAM_FOLDER"], "told").open("a") as file:
        file.write(f"{what}:{','.join(map(str, pids))}\n")
