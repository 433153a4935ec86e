"""The shell command `oncue`."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from collections.abc import Sequence

__all__ = ["main", "run"]


def run(arguments: Sequence[str]) -> int:
    """Run one command; its exit code."""
    from oncue.cli.root import run

    return run(arguments)


def main() -> None:
    _hold_standard_descriptors()
    gc.disable()  # what is imported stays; `run` enables it once the command is known
    _leave(run(sys.argv[1:]))


def _leave(code: int) -> None:
    """End the process without taking every module apart first, which takes a fifth of a short command's time.

    What other code has asked for at the end is done: threads that are no daemons are waited for, atexit is honoured.
    """
    if threading.active_count() == 1:
        atexit._run_exitfuncs()
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):  # closed, or a full disk: the interpreter has an exit code for it
            sys.exit(code)
        os._exit(code)
    sys.exit(code)


def _hold_standard_descriptors() -> None:
    """A process that is started with one of them closed would give its number to a socket or a database's file.

    What is written to the standard error would then end up there.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
