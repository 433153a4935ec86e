"""Who is alive, who leads, who stands by, and who could run a job of this queue and task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from shlex import quote
from uuid import UUID

from oncue.model import LEADER_ADDRESS, NODE_ADDRESS, Lease, Node
from oncue.policy.explain.findings import Finding, counted, when
from oncue.policy.names import MARK


@dataclass(frozen=True, slots=True)
class Cluster:
    """The nodes that are not declared lost, and the two leases that there are, at one instant."""

    now: datetime
    nodes: Sequence[Node]
    leader: Lease | None
    exclusive: Lease | None
    names: Mapping[UUID, str] = field(default_factory=dict)
    """What other nodes are called, dead ones too, as far as they matter."""

    @property
    def alive(self) -> list[Node]:
        return [node for node in self.nodes if node.expires_at > self.now]

    @property
    def exclusive_worker(self) -> Lease | None:
        return _standing(self.exclusive, self.now)

    @property
    def leading(self) -> Lease | None:
        return _standing(self.leader, self.now)

    @property
    def workers(self) -> list[Node]:
        """The live nodes that need not stand by."""
        lease = self.exclusive_worker
        return [node for node in self.alive if lease is None or node.id == lease.holder]

    def at(self, address: str | None) -> list[Node]:
        """The live nodes that have this address and need not stand by; all of them without one."""
        if address is None:
            return self.workers
        if address == LEADER_ADDRESS:
            return [node for node in self.workers if self.leading is not None and node.id == self.leading.holder]
        name = address.removeprefix(NODE_ADDRESS)
        return [node for node in self.workers if (node.name if node.named else str(node.id)) == name]

    def takers(self, queue: str, task: str, address: str | None = None) -> list[Node]:
        """The nodes that may claim such a job."""
        return [node for node in self.at(address) if queue in node.queues and task in node.tasks]

    def name_of(self, node: UUID | None) -> str:
        """A node's name and host. A node that was pruned has only its id left."""
        if node is None:
            return "an unknown node"
        return next((known.name for known in self.nodes if known.id == node), self.names.get(node, str(node)))


def _standing(lease: Lease | None, now: datetime) -> Lease | None:
    return lease if lease is not None and lease.expires_at > now else None


def stand_by(cluster: Cluster) -> list[Finding]:
    """That one worker is exclusive, if that keeps others from working."""
    lease, waiting = cluster.exclusive_worker, len(cluster.alive) - len(cluster.workers)
    if lease is None or not waiting:
        return []
    stands = "other worker stands" if waiting == 1 else "other workers stand"
    since = when(lease.acquired_at, cluster.now)
    text = f"{lease.holder_name} is the exclusive worker, since {since}: {waiting} {stands} by."
    return [Finding("standing_by", text)]


def no_leader(cluster: Cluster, consequence: str, code: str = "no_leader") -> list[Finding]:
    """Whether no node leads, what follows from it, and which node could lead."""
    if cluster.leading is not None:
        return []
    since = "No node has ever led"
    if cluster.leader is not None:
        since = f"No node has led since {when(cluster.leader.expires_at, cluster.now)}"
    if not cluster.workers:
        suggestion = "start a worker: `oncue worker`"
    else:
        names = ", ".join(node.name for node in cluster.workers[:3])
        suggestion = f"if this lasts for longer than a lease, look into the log of {names}"
    return [Finding(code, f"{since}: {consequence}.", suggestion)]


def obstacles(
    queue: str, task: str, paused_at: datetime | None, cluster: Cluster, address: str | None = None
) -> list[Finding]:
    """What keeps every job of this queue, task and address from being claimed, whatever its state."""
    paused, nodes = paused_queue(queue, paused_at, cluster.now), _no_node(queue, task, cluster, address)
    return [*paused, *nodes, *stand_by(cluster)]


def paused_queue(queue: str, paused_at: datetime | None, now: datetime) -> list[Finding]:
    if paused_at is None:
        return []
    text = f"Queue {queue} is paused since {when(paused_at, now)}: nothing of it starts, on any node."
    return [Finding("paused_queue", text, f"resume it with `oncue queues resume {queue}`")]


def unserved(queue: str, cluster: Cluster) -> list[Finding]:
    """That no worker takes jobs of this queue, whatever their task."""
    workers, lease = cluster.workers, cluster.exclusive_worker
    if not workers and cluster.alive and lease is not None:
        until = when(lease.expires_at, cluster.now)
        return [Finding("no_node_alive", f"The exclusive worker {lease.holder_name} is gone; its lease ends {until}.")]
    if not workers:
        return [Finding("no_node_alive", "No worker is alive.", f"start one: `oncue worker --queues {queue}`")]
    if not any(queue in node.queues for node in workers):
        served = ", ".join(sorted({name for node in workers for name in node.queues}))
        text = f"No live node serves queue {queue}: {_live(workers)} only {served}."
        return [Finding("no_node_serves_queue", text, f"start a worker for it: `oncue worker --queues {queue}`")]
    return []


def _no_node(queue: str, task: str, cluster: Cluster, address: str | None) -> list[Finding]:
    if address is not None and cluster.workers:
        return _not_there(queue, task, cluster, address)
    if found := unserved(queue, cluster):
        return found
    serving = [node for node in cluster.workers if queue in node.queues]
    if not any(task in node.tasks for node in serving):
        names = ", ".join(node.name for node in serving[:5])
        text = f"No live node that serves queue {queue} knows the task {task} ({names})."
        return [Finding("no_node_knows_task", text, "start a worker of the application that declares it")]
    return []


def _not_there(queue: str, task: str, cluster: Cluster, address: str) -> list[Finding]:
    """Why the only node on which a job may run cannot run it. Others do not matter, whatever they serve and know."""
    workers = cluster.at(address)
    if not workers:
        return _nobody_there(queue, address, cluster)
    (node, *_), only = workers, f"It may run only on {_place(address)}"
    if queue not in node.queues:
        served = ", ".join(node.queues)
        text = f"{only}, and {node.name} serves only {served}, not queue {queue}."
        return [Finding("no_node_serves_queue", text, f"let that worker serve it: `--queues {served},{queue}`")]
    if task not in node.tasks:
        text = f"{only}, and {node.name} does not know the task {task}."
        return [Finding("no_node_knows_task", text, "start that worker with the code that declares it")]
    return []


def _nobody_there(queue: str, address: str, cluster: Cluster) -> list[Finding]:
    """Why no node has the only address at which a job may run."""
    if address == LEADER_ADDRESS:
        return no_leader(cluster, "it waits for a leader, since it may run only there", "waits_for_leader")
    name = address.removeprefix(NODE_ADDRESS)
    named = sorted(node.name for node in cluster.workers if node.named)
    alive = f"alive are {', '.join(named[:5])}{' and others' if len(named) > 5 else ''}" if named else "none has one"
    text = f"It may run only on {_place(address)}, and no live node has that name: {alive}."
    return [Finding("no_node_of_that_name", text, _start(name, queue))]


def _start(name: str, queue: str) -> str:
    """How to get a worker of a name. One with a number cannot be asked for: oncue gives it to a further worker."""
    given, mark, _ = name.rpartition(MARK)
    if not mark:
        return f"start a worker of that name: `oncue worker --name {quote(name)} --queues {quote(queue)}`"
    command = f"`oncue worker --name {quote(given)} --queues {quote(queue)}`"
    return f"start another worker of the name {given}: {command}; it is called {name} if the names before it are taken"


def _place(address: str) -> str:
    return "the leader" if address == LEADER_ADDRESS else f"node {address.removeprefix(NODE_ADDRESS)}"


def _live(workers: Sequence[Node]) -> str:
    return f"{counted(len(workers), 'node')} {'serves' if len(workers) == 1 else 'serve'}"
