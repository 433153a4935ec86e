"""A process of the tests' program: its signals, and the files that it leaves behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from oncue.settings import BARE_NAMES
from oncue.sim.history import Event, read
from tests.process.nursery import OURS, nursery

T = TypeVar("T")

PATIENCE = 60.0
LOOK_SECONDS = 0.02


class Mark(NamedTuple):
    """A line that a handler has written: `what` is start, end, failed or cut."""

    what: str
    job: int
    attempt: int
    pid: int
    worker: str


class Refused(AssertionError):
    """Something that had to happen did not."""


def until(condition: Callable[[], T], wanted: str, about: Callable[[], str] = str, seconds: float = PATIENCE) -> T:
    """Wait for a condition; what it answered."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise Refused(f"it did not happen within {seconds:g} s: {wanted}\n{about()}")
        time.sleep(LOOK_SECONDS)
    return found


class Process:
    """A process of the program, and the files that it writes."""

    def __init__(
        self, folder: Path, name: str, url: str, arguments: Sequence[str], environment: dict[str, str]
    ) -> None:
        self.name = name
        self.node_name = name
        """Under which name it goes in the cluster, if it is a worker."""
        self.folder = folder
        self._log = folder / f"{name}.log"
        self._log.touch()
        path = os.pathsep.join(map(str, OURS))
        ours = {"PYTHONPATH": path, "DATABASE_URL": url, "PROGRAM_FOLDER": str(folder), "PROGRAM_NAME": name}
        self.process = nursery().start(arguments, folder, {**clean_environment(), **ours, **environment}, self._log)

    @property
    def said(self) -> str:
        return self._log.read_text("utf-8", "replace")

    @property
    def marks(self) -> list[Mark]:
        path = self.folder / f"{self.name}.marks"
        return marks_in(path) if path.exists() else []

    @property
    def history(self) -> list[Event]:
        path = self.folder / f"{self.name}.history"
        return read(path) if path.exists() else []

    @property
    def in_the_middle(self) -> set[tuple[int, int]]:
        """The (job, attempt) of handlers that have begun here and not ended."""
        marks = self.marks
        begun = {(mark.job, mark.attempt) for mark in marks if mark.what == "start"}
        return begun - {(mark.job, mark.attempt) for mark in marks if mark.what != "start"}

    def is_working(self) -> bool:
        assert self.process.poll() is None, f"{self.name} has ended:\n{self.said}"
        return "is working on" in self.said

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ends(self, seconds: float = PATIENCE) -> int:
        return self.process.wait(seconds)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def clean_environment() -> dict[str, str]:
    ours = set(BARE_NAMES.values())
    return {name: value for name, value in os.environ.items() if not name.startswith("ONCUE_") and name not in ours}


def marks_in(path: Path) -> list[Mark]:
    marks = []
    for line in path.read_text("ascii").splitlines():
        what, job, attempt, pid = line.split()
        marks.append(Mark(what, int(job), int(attempt), int(pid), path.stem))
    return marks
