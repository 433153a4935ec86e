"""`oncue prune`: deletes what finished long ago."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from oncue.cli import output, values
from oncue.cli.actor import actor
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, ask, find
from oncue.cli.output import JsonOption
from oncue.policy.durations import describe, seconds


def prune_jobs(
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="DURATION", help="Finished longer ago than this, such as 7d.")
    ] = "7d",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Delete finished jobs and their attempts, in small batches."""
    age, found = values.duration(older_than, "--older-than"), find(app, database_url=database_url, schema=schema)
    if not yes:
        _confirm(age)

    async def work() -> int:
        with output.progress(known=False) as bar:
            line = bar.add_task("deleting", total=None)
            return await found.jobs.prune(age, lambda total: bar.update(line, completed=total), by=actor())

    total = ask(found, work)
    if as_json:
        output.show_json({"pruned": total})
    else:
        output.show(f"{output.plural(total, 'finished job')} deleted." if total else f"No job finished over {age} ago.")


def _confirm(age: str) -> None:
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            "there is no terminal to ask at: say --yes to delete without a question", param_hint="--yes"
        )
    typer.confirm(f"Delete every job that finished over {describe(seconds(age))} ago?", abort=True)


def register(cli: typer.Typer) -> None:
    cli.command("prune")(prune_jobs)
