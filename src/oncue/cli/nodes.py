"""`oncue nodes`: who works here."""

from __future__ import annotations

from datetime import datetime

import typer
from rich.markup import escape

from oncue.cli import output
from oncue.cli.finding import AppOption, DatabaseOption, ask, find
from oncue.cli.output import JsonOption
from oncue.model import Node
from oncue.server.records import node_record


def list_nodes(as_json: JsonOption = False, app: AppOption = None, database_url: DatabaseOption = None) -> None:
    """List the nodes that hold a lease, or held one until a moment ago."""
    found = find(app, database_url=database_url)

    async def work() -> tuple[list[Node], datetime]:
        return await found.nodes(), (await found.connected()).now()

    nodes, now = ask(found, work)
    if as_json:
        output.show_json([node_record(node, now) for node in nodes])
    elif nodes:
        _show(nodes, now)
    else:
        output.show("No node is alive. Start one with `oncue worker`.")


def _show(nodes: list[Node], now: datetime) -> None:
    columns = ("node", "state", "queues", "tasks", "seats", "started", "last beat", "host", "pid", "address", "version")
    table = output.table(*columns, right=("tasks", "seats", "pid"))
    for node in nodes:
        state = "[green]alive[/]" if node.expires_at > now else f"[red]silent, lease over {_over(node, now)}[/]"
        table.add_row(
            escape(node.name), state, escape(", ".join(node.queues)), str(len(node.tasks)), str(node.concurrency),
            output.when(node.started_at, now), output.when(node.beat_at, now), escape(node.host), str(node.pid),
            node.address or "", node.version,
        )  # fmt: skip
    output.show(table)


def _over(node: Node, now: datetime) -> str:
    return output.when(node.expires_at, now)


def register(cli: typer.Typer) -> None:
    cli.command("nodes")(list_nodes)
