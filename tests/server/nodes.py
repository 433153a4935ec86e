"""Several nodes of one application in one process, each with an API of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from oncue import Job, Node, NodeResult, Oncue
from tests.app.watching import Watcher
from tests.server.conftest import Api, a_shop
from tests.server.test_health import heard


def declare_cluster_tasks(app: Oncue) -> asyncio.Event:
    """Parts end at once, but for level 9: those wait for this event."""
    go_on = asyncio.Event()

    @app.cluster_task(quorum_timeout="60s")
    async def compact(node: Node, level: int = 1) -> str:
        if level == 9:
            await go_on.wait()
        return f"{node.name} at {level}"

    @compact.leader_action
    def publish(results: list[NodeResult], quorum: bool) -> list[str]:
        return [one.result for one in results if one.completed]

    @app.cluster_task(leader_only=True)
    async def rotate(node: Node) -> str:
        return node.name

    return go_on


class ClusterNode:
    """A node that is also a server, as `oncue run` is."""

    def __init__(self, url: str, folder: Path, name: str, **settings: Any) -> None:
        self.app = a_shop(url, folder)
        self.go_on = declare_cluster_tasks(self.app)
        self.app.override({"node_name": name, **settings})
        self.api = Api(self.app)
        self.watcher = Watcher(self.app)
        self.name = name

    async def ended(self, job_id: int) -> Job:
        """A job, once it has ended on this node."""
        (job,) = await self.watcher.ended([job_id])
        return job


@asynccontextmanager
async def a_cluster(
    url: str, folder: Path, *names: str, addresses: dict[str, str | None] | None = None, **settings: Any
) -> AsyncIterator[list[ClusterNode]]:
    """Nodes of these names; the first one leads. `addresses` are where their servers listen."""
    nodes = [ClusterNode(url, folder, name, **settings) for name in names]
    elected = heard(nodes[0].app, "leader.elected")
    try:
        async with AsyncExitStack() as stack:
            for number, node in enumerate(nodes):
                address = (addresses or {}).get(node.name, f"http://{node.name}:8080")
                await stack.enter_async_context(node.app.worker(address=address))
                if number == 0:
                    await asyncio.wait_for(elected.wait(), 60)
            try:
                yield nodes
            finally:
                for node in nodes:
                    node.go_on.set()
    finally:
        for node in nodes:
            await node.api.client.aclose()
            await node.app.aclose()
