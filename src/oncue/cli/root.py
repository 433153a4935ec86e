"""The command line as a whole: every command, and what becomes of errors."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Annotated

import typer

from oncue import __version__
from oncue.cli import failures
from oncue.cli.summaries import SUMMARIES

HELP = """Every job on cue, once: durable jobs on SQLite or PostgreSQL.

The database is DATABASE_URL, or ./oncue.db. The application is found by --app module:app or ONCUE_APP.
"""
EPILOG = "Exit codes: 0 fine, 1 failed at run time, 2 bad usage or configuration, 3 not found, 4 a check did not hold."

COMPLETION = "_ONCUE_COMPLETE"
"""Set by a shell that asks which words could come next."""

COMMANDS = {
    "worker": ("worker",),
    "serve": ("run", "serve"),
    "enqueue": ("enqueue",),
    "jobs": ("jobs", "job"),
    "changing": ("retry", "cancel", "set-status", "priority", "boost"),
    "schedules": ("schedules",),
    "webhooks": ("webhooks",),
    "windows": ("windows", "subjects"),
    "trigger": ("trigger", "backfill"),
    "preview": ("preview",),
    "audit": ("audit",),
    "explain": ("explain",),
    "queues": ("queues",),
    "nodes": ("nodes",),
    "cluster": ("cluster",),
    "ping": ("ping",),
    "tokens": ("token",),
    "audit_log": ("audit-log",),
    "prune": ("prune",),
    "migrate": ("migrate",),
    "doctor": ("doctor",),
    "alerts": ("alerts",),
    "simulate": ("simulate",),
    "demo": ("demo",),
}
"""The modules of this package that have commands, in the order of the help, and the commands that each has."""


@cache
def cli(word: str | None = None) -> typer.Typer:
    """All commands; or only what belongs to one of them, since to import all of them takes longer than most run."""
    made = _bare()
    for module, words in COMMANDS.items():
        if word is None or word in words:
            import_module(f"oncue.cli.{module}").register(made)
    return made


@cache
def outline() -> typer.Typer:
    """All commands with nothing but a line on each: enough for the help, and for what needs no command."""
    made = _bare()
    for word, summary in SUMMARIES.items():
        made.command(word, help=summary)(lambda: None)
    return made


def _bare() -> typer.Typer:
    made = typer.Typer(
        name="oncue",
        help=HELP,
        epilog=EPILOG,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback(invoke_without_command=True)(root)
    return made


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"oncue {__version__}")
        raise typer.Exit


def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks (also ONCUE_DEBUG=1).")] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def run(arguments: Sequence[str]) -> int:
    """Run one command; its exit code."""
    given = list(arguments)
    failures.make_warnings_visible()
    debug = failures.debugging(given)
    try:
        parser = _parser(_wanted(given))
        if not gc.isenabled():
            gc.freeze()
            gc.enable()
        code = parser.main(args=_without_debug(given), prog_name="oncue", standalone_mode=False)
        sys.stdout.flush()
    except typer.Abort:
        return failures.FAILED
    except BrokenPipeError:
        # The reader of our output has closed it (`oncue jobs | head`). Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return failures.FAILED
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        return failures.tell(error, debug=debug)
    return code if isinstance(code, int) else 0


def _wanted(arguments: Sequence[str]) -> typer.Typer:
    """The part of the command line that knows these arguments: all of it, where they name no command of ours."""
    word = next((argument for argument in arguments if not argument.startswith("-")), None)
    if word is None and COMPLETION not in os.environ:
        return outline()
    return cli(word if any(word in words for words in COMMANDS.values()) else None)


_parser = cache(typer.main.get_command)


def _without_debug(arguments: list[str]) -> list[str]:
    """`--debug` may stand anywhere on the line."""
    return [argument for argument in arguments if argument != "--debug"]
