"""The nodes that `up` has started on this machine: each a process of its own, with a log and a note of its number."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

LOOK_SECONDS = 0.05
DRAIN_SECONDS = 40.0
LOG_END = 2000


@dataclass(frozen=True, slots=True)
class Started:
    """A process that was started here. It may have ended by now."""

    name: str
    pid: int
    since: str
    """What tells it from a later process of the same number."""
    address: str | None
    """Of its API."""

    def is_alive(self) -> bool:
        return self.since == since(self.pid)

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self.is_alive():
            os.kill(self.pid, number)


class Fleet:
    def __init__(self, folder: Path) -> None:
        self._folder = folder / "run"

    def start(self, name: str, address: str | None, lease: str) -> Started:
        """Start a node. It is not ready yet."""
        self._folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "cluster_maintenance", "node", "--name", name, "--lease", lease]
        command += [] if address is None else ["--http", address]
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        started = Started(name, process.pid, since(process.pid) or "", address)
        (self._folder / f"{name}.json").write_text(json.dumps(asdict(started)), "utf-8")
        return started

    def all(self) -> list[Started]:
        """Every node that was started and not taken down."""
        notes = sorted(self._folder.glob("*.json"), key=lambda path: (len(path.stem), path.stem))
        return [Started(**json.loads(note.read_text("utf-8"))) for note in notes]

    def alive(self) -> list[Started]:
        return [started for started in self.all() if started.is_alive()]

    def log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def last_words(self, name: str) -> str:
        return self.log(name).read_text("utf-8", "replace")[-LOG_END:]

    def stop(self) -> list[str]:
        """Ask all to stop, wait for them, and forget them; those that had to be killed."""
        for started in self.all():
            started.send(signal.SIGTERM)
        late = list(self._late(time.monotonic() + DRAIN_SECONDS))
        for note in self._folder.glob("*.json"):
            note.unlink()
        return late

    def _late(self, until: float) -> Iterator[str]:
        for started in self.all():
            while started.is_alive() and time.monotonic() < until:
                time.sleep(LOOK_SECONDS)
            if started.is_alive():
                started.send(signal.SIGKILL)
                yield started.name


def since(pid: int) -> str | None:
    """When a process was started, as the system tells it; None if there is none, or all that is left is its end."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else _since_by_ps(pid)
    except ProcessLookupError:
        return None
    return None if fields[0] == "Z" else fields[19]


def _since_by_ps(pid: int) -> str | None:
    """The same where there is no /proc."""
    told = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True)
    state, _, started = told.stdout.strip().partition(" ")
    return None if not started or state.startswith("Z") else started.strip()
