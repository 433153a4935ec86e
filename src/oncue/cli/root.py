"""The command line as a whole: every command, and what becomes of errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from oncue import __version__
from oncue.cli import (
    alerts,
    audit,
    audit_log,
    changing,
    demo,
    doctor,
    enqueue,
    explain,
    failures,
    jobs,
    migrate,
    nodes,
    preview,
    prune,
    queues,
    schedules,
    serve,
    tokens,
    trigger,
    worker,
)

HELP = """Every job on cue, once: durable jobs on SQLite or PostgreSQL.

The database is DATABASE_URL, or ./oncue.db. The application is found by --app module:app or ONCUE_APP.
"""
EPILOG = "Exit codes: 0 fine, 1 failed at run time, 2 bad usage or configuration, 3 not found, 4 a check did not hold."

cli = typer.Typer(
    name="oncue",
    help=HELP,
    epilog=EPILOG,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (
    worker, serve, enqueue, jobs, changing, schedules, trigger, preview, audit, explain, queues, nodes, tokens,
    audit_log, prune, migrate, doctor, alerts, demo,
)  # fmt: skip
for commands in COMMANDS:
    commands.register(cli)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"oncue {__version__}")
        raise typer.Exit


@cli.callback(invoke_without_command=True)
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
    given, command = list(arguments), typer.main.get_command(cli)
    debug = failures.debugging(given)
    try:
        code = command.main(args=_without_debug(given), prog_name="oncue", standalone_mode=False)
        sys.stdout.flush()
    except typer.Abort:
        return failures.FAILED
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain about it once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return failures.FAILED
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        return failures.tell(error, debug=debug)
    return code if isinstance(code, int) else 0


def _without_debug(arguments: list[str]) -> list[str]:
    """`--debug` may stand anywhere on the line."""
    return [argument for argument in arguments if argument != "--debug"]
