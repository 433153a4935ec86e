"""`oncue queues`: what waits where, pausing and resuming."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer
from rich.markup import escape

from oncue.cli import output
from oncue.cli.finding import AppOption, DatabaseOption, ask, find
from oncue.cli.output import JsonOption
from oncue.model import Queue
from oncue.server.records import queue_record

Name = Annotated[str, typer.Argument(metavar="NAME", help="The queue.", show_default=False)]

COLUMNS = ("queue", "queued", "running", "later", "succeeded", "failed", "cancelled", "skipped")

group = typer.Typer()


@group.callback(invoke_without_command=True)
def list_queues(
    context: typer.Context, as_json: JsonOption = False, app: AppOption = None, database_url: DatabaseOption = None
) -> None:
    """List the queues; `pause` and `resume` one."""
    if context.invoked_subcommand is not None:
        return
    found = find(app, database_url=database_url)

    async def work() -> tuple[list[Queue], datetime]:
        return await found.queues(), (await found.connected()).now()

    queues, now = ask(found, work)
    if as_json:
        output.show_json([queue_record(queue) for queue in queues])
    elif queues:
        _show(queues, now)
    else:
        output.show("There are no queues yet: a queue begins with its first job.")


def _show(queues: list[Queue], now: datetime) -> None:
    table = output.table(*COLUMNS, "state", right=COLUMNS[1:])
    for queue in queues:
        paused = queue.paused_at
        state = "[green]open[/]" if paused is None else f"[yellow]paused {output.when(paused, now)}[/]"
        counts = (getattr(queue, name) for name in COLUMNS[1:])
        table.add_row(escape(queue.name), *(f"{count:,}" for count in counts), state)
    output.show(table)


@group.command("pause")
def pause_queue(
    name: Name, as_json: JsonOption = False, app: AppOption = None, database_url: DatabaseOption = None
) -> None:
    """No more jobs of this queue start, on any node. Those that run go on."""
    found = find(app, database_url=database_url)
    ask(found, lambda: found.pause(name))
    if as_json:
        output.show_json({"name": name, "paused": True})
    else:
        output.show(f"queue {escape(name)} is paused: nothing of it starts until `oncue queues resume {escape(name)}`")


@group.command("resume")
def resume_queue(
    name: Name, as_json: JsonOption = False, app: AppOption = None, database_url: DatabaseOption = None
) -> None:
    """Let jobs of this queue start again."""
    found = find(app, database_url=database_url)
    ask(found, lambda: found.resume(name))
    if as_json:
        output.show_json({"name": name, "paused": False})
    else:
        output.show(f"queue {escape(name)} is open")


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="queues")
