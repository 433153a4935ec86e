"""Who creates a cluster job: the leader, or, for a process that is no node, the leader to whom its wish is handed.

A wish is the cluster job itself, without parts: the leader's coordinator writes them. Where the leader asks, both are
written at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncue import identity
from oncue.application.portal import at_once
from oncue.errors import Conflict, IdTaken, InvalidJob, NotLeader, StoreUnavailable
from oncue.model import NewParts, Node, Receipt
from oncue.policy import options
from oncue.policy.urls import url_leads_here
from oncue.store.callers import is_asynchronous
from oncue.store.contract import LEADER, Store

if TYPE_CHECKING:
    from oncue.application.enqueueing import Reservation, Row
    from oncue.application.internals import Internals
    from oncue.engine.node import WorkerNode
    from oncue.tasks.cluster import ClusterCall


class Clustering:
    def __init__(self, app: Internals) -> None:
        self._app = app

    async def create(self, call: ClusterCall[Any], row: Row, reserved: Reservation | None = None) -> Receipt:
        """Create a cluster job, or hand the wish for one to the leader. In a caller's transaction it is a wish.

        A request that has `reserved` an id may repeat this in doubt: the job is written once. The caller has then asked
        `refuse_bypass` about the task.
        """
        nodes = self._app.working
        is_wish = call.on is not None or call.delay or call.at is not None
        if is_wish or not nodes or not self._app.connector.works:
            return await self._wished(call, row, reserved)
        leader = next((node for node in nodes if node.leadership.epoch is not None), None)
        if leader is None:
            return await self._handed_over(call, row, reserved)
        if reserved is not None and reserved.in_doubt:
            return await self._wished(call, row, reserved)
        return await self._created(call, row, leader, reserved)

    async def _wished(self, call: ClusterCall[Any], row: Row, reserved: Reservation | None) -> Receipt:
        """Write the cluster job without parts: the leader's coordinator writes them."""
        if reserved is None:
            (receipt,) = await self._app.enqueueing.write(call, [row])
        else:
            (receipt,) = await self._app.enqueueing.write_all(
                [(call, row)], ids=[reserved.id], since=reserved.since, in_doubt=reserved.in_doubt
            )
        return _new(receipt, call.task.name)

    async def _handed_over(self, call: ClusterCall[Any], row: Row, reserved: Reservation | None) -> Receipt:
        """What a node does that does not lead: it refuses, unless the call is to be handed to the leader."""
        if not call.hands_over:
            raise await self.refusal()
        return await self._wished(call, row, reserved)

    async def check_named(self, call: ClusterCall[Any]) -> None:
        """Refuse names that no active node has now. The leader looks again when it writes the parts."""
        if call.nodes is None:
            return
        assert call.carried is not None, "a call for nodes that are named carries their names"
        told = options.read(call.carried[0]).cluster
        assert told is not None
        connection = await self._app.connected()
        active = {node.name for node in await connection.store.nodes.alive() if _takes_part(node, told.parts)}
        if not active.issuperset(call.nodes):
            raise InvalidJob("nodes", await _why_nobody(connection.store, call.task.name, told.parts))

    def create_here(self, call: ClusterCall[Any], row: Row) -> Receipt:
        """Write a wish on a caller's own connection, in its own thread."""
        if is_asynchronous(call.on):
            raise InvalidJob("on", "the connection is asynchronous: use `await` and `aenqueue` with it")
        return at_once(self.create(call, row))

    async def _created(
        self, call: ClusterCall[Any], row: Row, leader: WorkerNode, reserved: Reservation | None
    ) -> Receipt:
        connection, epoch = await self._app.connected(), leader.leadership.epoch
        batch = await self._app.enqueueing.planned(call, row, reserved)
        told = options.read(batch.options).cluster
        assert told is not None
        receipt = Receipt(batch.ids[0], batch.created_at, True)
        try:
            made = (
                None
                if epoch is None
                else await connection.store.cluster.create(
                    batch, told.parts, batch.created_at, node=leader.node.id, epoch=epoch
                )
            )
        except (StoreUnavailable, IdTaken) as error:
            if isinstance(error, IdTaken) and reserved is None:
                raise
            # It may have been written: the answer was lost, or the same request came twice. Written again under the
            # same id it is there once, and gets its parts.
            (receipt,) = await connection.store.jobs.enqueue([batch], in_doubt=True)
            return _new(receipt, call.task.name)
        if made is None or not made.leads:
            return await self._handed_over(call, row, reserved)
        if not made.parts:
            raise InvalidJob("nodes", await _why_nobody(connection.store, call.task.name, told.parts))
        if not made.created:
            (receipt,) = await connection.store.jobs.enqueue([batch])
            return _new(receipt, call.task.name)
        self._app.enqueueing.tell([batch], [receipt])
        leader.coordinator.tell_spread(receipt.id, call.task.name, made.parts)
        return receipt

    async def refusal(self) -> NotLeader:
        """What a node says that does not lead: who does."""
        connection = await self._app.connected()
        lease = await connection.store.leases.get(LEADER)
        if lease is None or lease.expires_at <= connection.now():
            return NotLeader(None, None)
        holder = next((node for node in await connection.store.nodes.alive() if node.id == lease.holder), None)
        return NotLeader(lease.holder_name, None if holder is None else address_from_here(holder))


def address_from_here(node: Node) -> str | None:
    """The address of a node's API. A loopback address of another host leads to this host, and is none."""
    if node.address is not None and node.host != identity.host() and url_leads_here(node.address):
        return None
    return node.address


def _takes_part(node: Node, parts: NewParts) -> bool:
    return parts.task in node.tasks and parts.queue in node.queues


def _new(receipt: Receipt, task: str) -> Receipt:
    if not receipt.created:
        raise Conflict(
            f"job {receipt.id} of the cluster task {task!r} has the same key and is not finished", receipt.id
        )
    return receipt


async def _why_nobody(store: Store, task: str, parts: NewParts) -> str:
    alive = await store.nodes.alive()
    able = sorted(node.name for node in alive if _takes_part(node, parts))
    known = f"these do: {', '.join(able)}" if able else "none does"
    if parts.nodes is None:
        return f"no active node knows the task {task} and serves the queue {parts.queue}"
    missing = [name for name in parts.nodes if name not in able] or parts.nodes
    expected = f"names of active nodes that know the task {task} and serve the queue {parts.queue}"
    return f"{', '.join(missing)}: expected {expected}; {known}"
