"""A fleet of nodes that compact what they hold, for the commands of cluster jobs."""

from __future__ import annotations

import asyncio

from oncue import Node, NodeResult, Oncue

app = Oncue()


@app.cluster_task(quorum_timeout="1s")
async def compact(node: Node, level: int = 1, slow: bool = False) -> str:
    if slow:
        await asyncio.Event().wait()
    return f"level {level} [bold]on[/] {node.name}"


@compact.leader_action
def publish(results: list[NodeResult], quorum: bool) -> list[str]:
    return [result.node for result in results if result.completed]


@app.cluster_task(leader_only=True)
async def rotate(node: Node, broken: bool = False) -> str:
    if broken:
        raise ValueError("no key [red]to rotate[/]")
    return node.name


@app.task
def plain() -> None: ...
