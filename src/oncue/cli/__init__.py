"""The shell command `oncue`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

__all__ = ["main", "run"]


def run(arguments: Sequence[str]) -> int:
    """Run one command; its exit code."""
    from oncue.cli.root import run

    return run(arguments)


def main() -> None:
    _hold_standard_descriptors()
    sys.exit(run(sys.argv[1:]))


def _hold_standard_descriptors() -> None:
    """A process that is started with one of them closed would give its number to a socket or a database's file.

    What is written to the standard error would then end up there.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
