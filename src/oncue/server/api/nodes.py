"""Nodes, and which of them leads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncue.model import Lease
from oncue.records.nodes import LeaderRecord, node_record
from oncue.server.api.documents import looking
from oncue.server.api.models.control import Nodes
from oncue.server.api.problems import Answer
from oncue.server.api.routing import Routes
from oncue.server.health import leader_record
from oncue.store.contract import EXCLUSIVE, LEADER

if TYPE_CHECKING:
    from oncue.app import Oncue

TAG = "nodes"


async def leases_of(app: Oncue) -> list[Lease]:
    """What one node at a time may hold."""
    store = (await app.internals.connected()).store
    return [lease for name in (LEADER, EXCLUSIVE) if (lease := await store.leases.get(name)) is not None]


def add(routes: Routes, app: Oncue) -> None:
    @routes.get("/api/admin/nodes", **looking(TAG, "List the nodes", Nodes))
    async def list_nodes() -> Answer:
        """The worker processes that are alive, or whose lease is over and that are not declared lost yet."""
        leases, nodes, now = await leases_of(app), await app.nodes.list(), await app.now()
        return Answer({"nodes": [node_record(node, now, leases) for node in nodes]})

    @routes.get("/api/admin/leader", **looking(TAG, "Who leads", LeaderRecord))
    async def show_leader() -> Answer:
        """The node that fires the schedules; or since when there is none."""
        connected = await app.internals.connected()
        return Answer(leader_record(await connected.store.leases.get(LEADER), connected.now()))
