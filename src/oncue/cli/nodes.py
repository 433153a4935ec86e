"""`oncue nodes`: who works here."""

from __future__ import annotations

from datetime import datetime

import typer

from oncue.application.builtin import PREFIX
from oncue.cli import output
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, ask, find
from oncue.cli.output import JsonOption, escape
from oncue.model import Lease, Node
from oncue.records.nodes import node_record
from oncue.store.contract import EXCLUSIVE, LEADER


def list_nodes(
    as_json: JsonOption = False, app: AppOption = None, database_url: DatabaseOption = None, schema: SchemaOption = None
) -> None:
    """List the nodes that hold a lease, or held one until a moment ago."""
    found = find(app, database_url=database_url, schema=schema)

    async def work() -> tuple[list[Node], list[Lease], datetime]:
        connection = await found.internals.connected()
        leases = [await connection.store.leases.get(name) for name in (LEADER, EXCLUSIVE)]
        return await found.nodes.list(), [lease for lease in leases if lease is not None], connection.now()

    nodes, leases, now = ask(found, work)
    if as_json:
        output.show_json([node_record(node, now, leases) for node in nodes])
    elif nodes:
        _show(nodes, leases, now)
    else:
        output.show("No node is alive. Start one with `oncue worker`.")


def _show(nodes: list[Node], leases: list[Lease], now: datetime) -> None:
    columns = (
        "node",
        "state",
        "role",
        "epoch",
        "queues",
        "tasks",
        "seats",
        "started",
        "last beat",
        "host",
        "pid",
        "address",
    )
    table = output.table(*columns, "version", right=("epoch", "tasks", "seats", "pid"))
    for node in nodes:
        state = "[green]alive[/]" if node.expires_at > now else f"[red]silent, lease over {_over(node, now)}[/]"
        table.add_row(
            _called(node), state, _role(node, leases, now), _epoch(node, leases, now),
            escape(", ".join(node.queues)),
            str(sum(not task.startswith(PREFIX) for task in node.tasks)),
            str(node.concurrency),
            output.when(node.started_at, now), output.when(node.beat_at, now), escape(node.host), str(node.pid),
            escape(node.address or ""), escape(node.version),
        )  # fmt: skip
    output.show(table)


def _called(node: Node) -> str:
    """A node without a name is shown by the one that it asks for."""
    return escape(node.name) if node.named else f"[dim]asks for[/] {escape(node.name)}"


def _role(node: Node, leases: list[Lease], now: datetime) -> str:
    """Who leads, who is exclusive, and who stands by for that one."""
    held = [lease for lease in leases if lease.expires_at > now]
    roles = [lease.name for lease in held if lease.holder == node.id]
    stands_by = any(lease.name == EXCLUSIVE and lease.holder != node.id for lease in held)
    return ", ".join(roles) or ("[dim]stands by[/]" if stands_by else "")


def _epoch(node: Node, leases: list[Lease], now: datetime) -> str:
    """The epoch under which a node leads."""
    led = (str(lease.epoch) for lease in leases if lease.name == LEADER and lease.expires_at > now)
    return next(led, "") if _leads(node, leases) else ""


def _leads(node: Node, leases: list[Lease]) -> bool:
    return any(lease.name == LEADER and lease.holder == node.id for lease in leases)


def _over(node: Node, now: datetime) -> str:
    return output.when(node.expires_at, now)


def register(cli: typer.Typer) -> None:
    cli.command("nodes")(list_nodes)
