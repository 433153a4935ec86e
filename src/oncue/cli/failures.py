"""From an error to one line on the standard error and an exit code.

0  fine                                  3  not found
1  failed at run time                    4  a check did not hold
2  bad usage or configuration            129, 130, 143  stopped at once by a (second) signal
"""

from __future__ import annotations

import logging
import os
import sys
import traceback

import typer

from oncue.errors import (
    ConfigError,
    InvalidJob,
    InvalidSchedule,
    InvalidSubject,
    InvalidWebhook,
    JobNotFound,
    OncueError,
    ScheduleNotFound,
    SessionNotFound,
    SubjectNotFound,
    TokenNotFound,
    UnknownTask,
    WebhookNotFound,
)
from oncue.observe.visible import INDENT, visible_lines
from oncue.store.addresses import hidden

FAILED, USAGE, NOT_FOUND, CHECK = 1, 2, 3, 4

# typer has click's exceptions under changing names; this one it exports, and the root is two steps up.
_UsageProblem: type[Exception] = typer.BadParameter.__mro__[2]


_ABSENT = (
    JobNotFound, ScheduleNotFound, SessionNotFound, SubjectNotFound, TokenNotFound, UnknownTask, WebhookNotFound,
)  # fmt: skip


def exit_code(error: Exception) -> int:
    if isinstance(error, ConfigError):
        return error.exit_code
    if isinstance(error, _ABSENT):
        return NOT_FOUND
    if isinstance(error, InvalidJob | InvalidSchedule | InvalidSubject | InvalidWebhook | _UsageProblem):
        return USAGE
    return FAILED


def describe(error: Exception) -> str:
    """What the user is told."""
    if isinstance(error, _UsageProblem):
        return _usage(error)
    if isinstance(error, OncueError):
        return str(error)
    return f"{type(error).__name__}: {error} (an error in oncue or in the application: --debug shows the traceback)"


def _usage(error: Exception) -> str:
    message = " ".join(str(error.format_message()).split()) if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    return f"{message} (see `{context.command_path} --help`)" if context is not None else message


def tell(error: Exception, *, debug: bool) -> int:
    """Say what went wrong; the exit code for it."""
    if debug:
        print(visible_lines("".join(traceback.format_exception(error)).rstrip("\n")), file=sys.stderr)
    say(hidden(describe(error)))
    return exit_code(error)


def say(message: str) -> None:
    """A message on the standard error, beside what a program may read from the standard output."""
    sys.stdout.flush()
    print(f"oncue: {visible_lines(message, INDENT)}", file=sys.stderr)


class BareLines(logging.Formatter):
    """A warning as Python prints it where no log is configured: the message and its traceback, without a time."""

    def format(self, record: logging.LogRecord) -> str:
        return visible_lines(super().format(record), INDENT)


def make_warnings_visible() -> None:
    """Most commands configure no log: what is logged there goes to the standard error by Python's last resort."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(BareLines())


def debugging(arguments: list[str]) -> bool:
    return "--debug" in arguments or os.environ.get("ONCUE_DEBUG", "") not in ("", "0")
