"""A handler may fork. Its child is a copy of the worker: if it comes back from the handler, it would go on working.

Forks are counted, since a worker asks after every attempt: to compare a number costs a tenth of asking for its pid.
"""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from typing import NoReturn

_forks = 0


def generation() -> int:
    """How many forks lie between this process and the one that loaded this module."""
    return _forks


def _count() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count)


def end_clone(error: BaseException | None) -> NoReturn:
    """End a process that a handler has forked, as a program ends: with the code of its SystemExit, or a traceback."""
    code: object = 0
    if isinstance(error, SystemExit):
        code = error.code or 0
    elif error is not None:
        traceback.print_exception(error)
        code = 1
    with suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)
