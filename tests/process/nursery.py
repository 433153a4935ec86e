"""Starts Python processes cheaply: one process imports oncue once, and every new one is a fork of it.

Starting a worker from nothing costs most of a second of CPU, nearly all of it for imports; a fork costs a few
milliseconds. The nursery has one thread, no event loop, no connection and no application, so that a fork inherits
modules and nothing else: it takes its environment, folder and output, imports the application, and from there on is
what `python -m …` would have been. It gets its own identity because nothing that makes one exists before the fork.

A nursery ends when whoever started it does, and its processes end with it, also those that stand still.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
OURS = (ROOT / "src", ROOT)
"""Where a process finds this oncue and these tests, whatever else is installed."""
PRELOADED = (
    "asyncpg", "uvloop", "oncue.app", "oncue.cli.worker", "oncue.cli.root", "oncue.server.address", "oncue.sim.history",
    "oncue.store.postgres.store", "oncue.store.sqlite.store", "concurrent.futures.thread", "oncue.cli.serve",
    "oncue.server.api",
    "uvicorn.protocols.http.h11_impl",
)  # fmt: skip
_DIE_WITH_PARENT = 1  # prctl's PR_SET_PDEATHSIG


# --- for whoever wants a process --------------------------------------------------------------------------------------


class Forked:
    """A process of the nursery, with as much of Popen as is needed. It is held by a descriptor, not by its number."""

    def __init__(self, pid: int, note: Path) -> None:
        self.pid = pid
        self._note = note
        self._descriptor: int | None
        try:
            self._descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            self._descriptor = None  # it is gone already
        self._code: int | None = None

    def poll(self) -> int | None:
        """Its exit code, once it has ended: negative if a signal ended it."""
        if self._code is None and self._note.exists():
            self._code = int(self._note.read_text())
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        end = float("inf") if timeout is None else time.monotonic() + timeout
        if self._descriptor is not None and self.poll() is None:
            select.select([self._descriptor], [], [], timeout)
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            time.sleep(0.002)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None and self._descriptor is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def is_stopped(self) -> bool:
        """Whether it stands still."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        except OSError:
            return False


class Nursery:
    def __init__(self, *more: str, path: Sequence[Path] = OURS) -> None:
        """With more modules than the usual ones, and other folders to find modules in."""
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.process.nursery", *more], cwd=ROOT, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
        )  # fmt: skip

    def start(self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path) -> Forked:
        """Start what `python -m arguments` would, in a folder, with this environment; its output goes to `log`."""
        note = log.with_suffix(".exit")
        order = {
            "arguments": list(arguments), "folder": str(folder), "environment": dict(environment), "log": str(log),
            "note": str(note),
        }  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        assert answer, "the nursery has ended"
        return Forked(int(answer), note)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


_nurseries: dict[int, Nursery] = {}


def nursery() -> Nursery:
    """This process's own, started when it is first needed."""
    if os.getpid() not in _nurseries:
        _nurseries[os.getpid()] = made = Nursery()
        atexit.register(made.close)
    return _nurseries[os.getpid()]


# --- the nursery itself -----------------------------------------------------------------------------------------------


def serve() -> dict[str, Any] | None:
    """Fork for every order that comes. Returns None when there will be no more, and in a child its order."""
    awake, waking = os.pipe()
    os.set_blocking(waking, False)
    os.set_blocking(awake, False)
    signal.set_wakeup_fd(waking)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    notes: dict[int, str] = {}
    while True:
        ready, _, _ = select.select([0, awake], [], [])
        if awake in ready:
            os.read(awake, 4096)
            _bury(notes)
        if 0 not in ready:
            continue
        line = _line()
        if not line:
            return None
        order: dict[str, Any] = json.loads(line)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(awake)
            os.close(waking)
            return order
        notes[pid] = order["note"]
        os.write(1, f"{pid}\n".encode())


def _line() -> bytes:
    """One line of standard input, and not a byte more: the rest is for the next look."""
    line = b""
    while not line.endswith(b"\n"):
        got = os.read(0, 1)
        if not got:
            return b""
        line += got
    return line


def _bury(notes: dict[int, str]) -> None:
    """Write down how each process ended that has."""
    while notes:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        note = Path(notes.pop(pid))
        unfinished = note.with_suffix(".ending")
        unfinished.write_text(str(os.waitstatus_to_exitcode(status)))
        unfinished.rename(note)


def become(order: dict[str, Any]) -> None:
    """Be the process that was ordered, until it ends."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    for number, (path, flags) in {0: (os.devnull, os.O_RDONLY), 1: (order["log"], os.O_WRONLY | os.O_CREAT)}.items():
        opened = os.open(path, flags | (os.O_APPEND if number else 0), 0o644)
        os.dup2(opened, number)
        os.close(opened)
    os.dup2(1, 2)
    # Tests that run in the background inherit a Ctrl-C that is ignored; what they start must hear it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    sys.path[0] = order["folder"]
    module, *arguments = order["arguments"]
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def main() -> None:
    for module in (*PRELOADED, *sys.argv[1:]):
        with contextlib.suppress(ImportError):
            __import__(module)
    gc.collect()
    gc.freeze()
    assert threading.active_count() == 1, "a fork would lack the other threads, and perhaps have their locks"
    order = serve()
    if order is not None:
        become(order)


if __name__ == "__main__":
    main()
