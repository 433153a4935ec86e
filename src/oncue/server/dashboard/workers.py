"""Workers as pages show them: what each serves, how many of its seats are used, and by which jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from oncue.application.builtin import PREFIX
from oncue.model import HeldJob, Lease, Node
from oncue.store.contract import EXCLUSIVE, LEADER

if TYPE_CHECKING:
    from oncue.app import Oncue

MOST_JOBS = 5


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker."""

    node: Node
    is_alive: bool
    role: str
    """`leader`, `exclusive`, `stands by`, or nothing."""
    seats_used: int
    ahead: int
    """How many jobs it has claimed that wait for a seat of it."""
    jobs: list[HeldJob]
    more: int
    """How many jobs it holds besides those that are named."""

    @property
    def tasks(self) -> int:
        return sum(not task.startswith(PREFIX) for task in self.node.tasks)


async def worker_rows(app: Oncue) -> list[WorkerRow]:
    connected = await app.internals.connected()
    leases = [await connected.store.leases.get(name) for name in (LEADER, EXCLUSIVE)]
    now = connected.now()
    standing = [lease for lease in leases if lease is not None and lease.expires_at > now]
    return [
        WorkerRow(
            work.node, work.node.expires_at > now, _role(work.node, standing, now), work.seats_used,
            work.held - work.seats_used, work.jobs, work.held - len(work.jobs),
        )
        for work in await app.nodes.work(most=MOST_JOBS)
    ]  # fmt: skip


def _role(node: Node, standing: list[Lease], now: datetime) -> str:
    held = [lease.name for lease in standing if lease.holder == node.id]
    stands_by = any(lease.name == EXCLUSIVE and lease.holder != node.id for lease in standing)
    return ", ".join(held) or ("stands by" if stands_by else "")
