"""`oncue ping`: whether a worker takes jobs, shown by one that does nothing."""

from __future__ import annotations

from typing import Annotated

import typer

from oncue.cli import output, values
from oncue.cli.actor import actor
from oncue.cli.explain import show_findings
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, ask, find
from oncue.cli.output import JsonOption, escape
from oncue.model import DEFAULT_QUEUE
from oncue.records.jobs import explanation_record


def ping(
    queue: Annotated[str, typer.Option("--queue", "-q", help="The queue that is to be served.")] = DEFAULT_QUEUE,
    address: Annotated[
        str | None, typer.Option("--address", metavar="ADDRESS", help="By whom: node:NAME or role:leader.")
    ] = None,
    timeout: Annotated[str, typer.Option("--timeout", metavar="DURATION", help="How long to wait for it.")] = "10s",
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Let a worker run a job that does nothing, and tell how long that took. Exit code 4 if no worker ran it.

    It goes before everything else that waits in its queue. No code of the application is needed.
    """
    patience = values.duration(timeout, "--timeout")
    found = find(app, database_url=database_url, schema=schema)
    told = ask(found, lambda: found.nodes.ping(queue, address=address, timeout=patience, by=actor()))
    if as_json:
        explanation = None if told.explanation is None else explanation_record(told.explanation)
        output.show_json(
            {
                "job": told.job.id, "status": told.job.state, "node": told.node, "seconds": told.seconds,
                "explanation": explanation,
            }
        )  # fmt: skip
    elif told.job.state == "succeeded":
        milliseconds = f"{(told.seconds or 0.0) * 1000:,.0f} ms"
        output.show(f"{escape(str(told.node))} ran job {told.job.id} of queue {escape(queue)} within {milliseconds}.")
    else:
        output.show(f"No worker ran job {told.job.id} of queue {escape(queue)} within {escape(timeout)}.")
        if told.explanation is not None:
            show_findings(told.explanation)
    if told.job.state != "succeeded":
        raise typer.Exit(4)


def register(cli: typer.Typer) -> None:
    cli.command("ping")(ping)
