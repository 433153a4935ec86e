"""`oncue queues`: what waits where; pausing, resuming and limiting."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from oncue.app import Oncue
from oncue.cli import failures, output, values
from oncue.cli.actor import actor
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, ask, find
from oncue.cli.output import JsonOption, escape
from oncue.model import Limits, Queue
from oncue.records.queues import queue_record
from oncue.task import UNSET

Name = Annotated[str, typer.Argument(metavar="NAME", help="The queue.", show_default=False)]

COLUMNS = ("queue", "queued", "running", "later", "succeeded", "failed", "cancelled", "skipped")
MOST_SCHEDULES = 1000

group = typer.Typer()


@group.callback(invoke_without_command=True)
def list_queues(
    context: typer.Context,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """List the queues; `pause`, `resume` or `limit` one."""
    if context.invoked_subcommand is not None:
        return
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> tuple[list[Queue], datetime]:
        return await found.queues.list(), await found.now()

    queues, now = ask(found, work)
    if as_json:
        output.show_json([queue_record(queue) for queue in queues])
    elif queues:
        _show(queues, now)
    else:
        output.show("There are no queues yet: a queue begins with its first job.")


def _show(queues: list[Queue], now: datetime) -> None:
    table = output.table(*COLUMNS, "limit", "state", right=COLUMNS[1:])
    for queue in queues:
        paused = queue.paused_at
        state = "[green]open[/]" if paused is None else f"[yellow]paused {output.when(paused, now)}[/]"
        counts = (getattr(queue, name) for name in COLUMNS[1:])
        limits = Limits(queue.global_limit, queue.node_limit)
        table.add_row(escape(queue.name), *(f"{count:,}" for count in counts), _described(limits), state)
    output.show(table)
    counted = [queue.counted_at for queue in queues if queue.counted_at is not None]
    if counted:
        output.show(f"[dim]There is so much that what waits was counted {output.when(min(counted), now)}.[/]")


def _described(limits: Limits) -> str:
    """What a limit says: how many may run at once, in all and on each node."""
    parts = []
    if limits.globally is not None:
        parts.append(f"{limits.globally:,} in all")
    if limits.per_node is not None:
        parts.append(f"{limits.per_node:,} per node")
    return ", ".join(parts)


@group.command("pause")
def pause_queue(
    name: Name,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """No more jobs of this queue start, on any node. Those that run go on."""
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> bool:
        used = await _is_used(found, name)
        await found.queues.pause(name, by=actor())
        return used

    used = ask(found, work)
    if as_json:
        output.show_json({"name": name, "paused": True})
    else:
        output.show(f"queue {escape(name)} is paused: nothing of it starts until `oncue queues resume {escape(name)}`")
    _warn_unused(name, used)


@group.command("resume")
def resume_queue(
    name: Name,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Let jobs of this queue start again."""
    found = find(app, database_url=database_url, schema=schema)
    ask(found, lambda: found.queues.resume(name, by=actor()))
    if as_json:
        output.show_json({"name": name, "paused": False})
    else:
        output.show(f"queue {escape(name)} is open")


@group.command("limit")
def limit_queue(
    name: Name,
    globally: Annotated[
        str | None, typer.Option("--global", metavar="N|none", help="So many at once on all nodes together.")
    ] = None,
    per_node: Annotated[str | None, typer.Option("--node", metavar="N|none", help="So many at once on each.")] = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Limit how many jobs of a queue run at once: `oncue queues limit mail --global 50 --node 10`.

    What is not given stays as it is; `none` lifts a limit. Without options the limits are shown.
    """
    in_all, on_each = values.limit(globally, "--global"), values.limit(per_node, "--node")
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> tuple[Limits, bool]:
        limits = await found.queues.limit(name, globally=in_all, per_node=on_each, by=actor())
        return limits, await _is_used(found, name)

    limits, used = ask(found, work)
    if as_json:
        output.show_json({"name": name, "global_limit": limits.globally, "node_limit": limits.per_node})
    else:
        output.show(f"queue {escape(name)}: {_described(limits) or 'no limit'}")
    if (in_all, on_each) != (UNSET, UNSET):
        _warn_unused(name, used)


async def _is_used(app: Oncue, name: str) -> bool:
    """Whether the queue is in use: it had jobs, a node serves it, or a task or schedule names it."""
    queues = [queue for queue in await app.queues.list() if queue.name == name]
    if any(getattr(queue, count) for queue in queues for count in COLUMNS[1:]):
        return True
    if any(name in node.queues for node in await app.nodes.list()) or any(t.queue == name for t in app.tasks.values()):
        return True
    return any(schedule.queue == name for schedule in await app.schedules.list(limit=MOST_SCHEDULES))


def _warn_unused(name: str, used: bool) -> None:
    if not used:
        failures.say(f"queue {name!r} is not used so far: no job, node, task or schedule names it")


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="queues")
