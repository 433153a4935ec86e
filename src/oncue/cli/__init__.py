"""The shell command `oncue`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main", "run"]


def run(arguments: Sequence[str]) -> int:
    """Run one command; its exit code."""
    from oncue.cli.root import run

    return run(arguments)


def main() -> None:
    sys.exit(run(sys.argv[1:]))
