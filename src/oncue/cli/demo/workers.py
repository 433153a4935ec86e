"""The processes of the demo: workers, and a web process, started by the commands that users type."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from oncue.cli.demo.tasks import PARENT
from oncue.settings import BARE_NAMES

LEASE = "2s"
SEATS = 16
STOP_SECONDS = 8.0


@dataclass(slots=True)
class Worker:
    name: str
    process: subprocess.Popen[bytes]
    log: Path
    killed: bool = False

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def last_words(self) -> str:
        lines = self.log.read_text("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "(it said nothing)"


def environment(database_url: str) -> dict[str, str]:
    """Nothing of the user's own settings reaches the demo."""
    bare = set(BARE_NAMES.values())
    mine = {name: value for name, value in os.environ.items() if not name.startswith("ONCUE_") and name not in bare}
    return mine | {
        "DATABASE_URL": database_url,
        "ONCUE_APP": "oncue.cli.demo.tasks:app",
        "ONCUE_LEASE": LEASE,
        "ONCUE_CONCURRENCY": str(SEATS),
        "ONCUE_BUFFER": str(SEATS),
        "ONCUE_LOG_LEVEL": "warning",
        PARENT: str(os.getpid()),
    }


class Workers:
    def __init__(self, folder: Path, database_url: str, size: int = 3) -> None:
        self.all = [self._started(f"worker-{n}", folder, database_url) for n in range(1, size + 1)]

    def _started(self, name: str, folder: Path, database_url: str) -> Worker:
        log = folder / f"{name}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "oncue", "worker", "--name", name],
                cwd=folder, env=environment(database_url), stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                start_new_session=True,  # Ctrl-C is for the demo, which stops its workers itself
            )  # fmt: skip
        return Worker(name, process, log)

    def kill(self, worker: Worker) -> None:
        """No farewell: the process is gone in the middle of whatever it does."""
        worker.killed = True
        worker.process.send_signal(signal.SIGKILL)
        worker.process.wait()

    def failed(self) -> Worker | None:
        """A worker that ended without being told to."""
        return next((worker for worker in self.all if not worker.running and not worker.killed), None)

    def stop(self) -> list[int]:
        """Let the workers drain; their exit codes, without that of the killed one."""
        asked = [worker for worker in self.all if worker.running]
        for worker in asked:
            worker.process.terminate()
        until = time.monotonic() + STOP_SECONDS
        for worker in asked:
            try:
                worker.process.wait(max(until - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
        return [worker.process.returncode for worker in asked]
