"""Nodes, and the leases that one node at a time may hold."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from oncue.model import (
    GoneNode,
    HeldJob,
    Lease,
    Node,
)


class Nodes(Protocol):
    async def register(self, node: Node) -> None:
        """Begin a lease, or begin it anew after it was lost. It is numbered as beats are. A name is taken apart."""

    async def beat(self, node: UUID, now: datetime, expires_at: datetime, number: int = 0) -> bool:
        """Renew a lease that was not declared lost. One that comes after a higher number changes nothing."""
        ...

    async def expire(self, now: datetime, only: UUID | None = None) -> list[Node]:
        """Declare the nodes lost whose lease is over, or only this one; from here on they cannot renew it."""
        ...

    async def next_lease_end(self) -> datetime | None:
        """When the first lease ends of those nodes that were not declared lost, or when it ended."""
        ...

    async def leave(self, node: UUID, now: datetime, number: int = 0) -> None:
        """End a node's lease at once, in good order. Beats and registrations with lower numbers change nothing
        afterwards."""

    async def alive(self) -> list[Node]: ...

    async def gone(self, since: datetime, limit: int) -> list[GoneNode]:
        """Nodes that have left or were declared lost since then, the latest first, unless they are forgotten."""
        ...

    async def work(self, nodes: Sequence[UUID], limit: int) -> dict[UUID, list[HeldJob]]:
        """What these nodes hold: up to so many jobs of each, in no order."""
        ...

    async def namesakes(self, node: Node) -> list[Node]:
        """Other nodes of the same name that may still hold jobs: those that are alive, or of which something runs."""
        ...

    async def take_name(self, node: UUID, name: str) -> Node | None:
        """Lease a name to a node that has none yet, for as long as the node's own lease is not declared lost.

        Refused while another node has the name that was not declared lost. The answer is the node that has a name now:
        the one that asks, under the name that it got first, or the one that has the name. None: the one that asks was
        declared lost.
        """
        ...

    async def names(self, ids: Sequence[UUID]) -> dict[UUID, str]:
        """What these nodes are called, the dead ones too; without those that are forgotten."""
        ...

    async def declare_lost(self, node: UUID, now: datetime) -> bool:
        """Declare one node lost that has been proved dead; from here on it cannot renew its lease."""
        ...


class Leases(Protocol):
    async def acquire(
        self, name: str, holder: UUID, holder_name: str, now: datetime, expires_at: datetime, *, respect: str | None
    ) -> Lease | None:
        """Take a lease that is over, under the next epoch. The lease as it is afterwards, held by this node or another.

        While another node holds the lease `respect`, nothing is taken.
        """
        ...

    async def renew(
        self, name: str, holder: UUID, epoch: int, now: datetime, expires_at: datetime, *, respect: str | None
    ) -> bool:
        """Renew a lease that is still held by this node under this epoch, and not over."""
        ...

    async def release(self, name: str, holder: UUID, epoch: int, now: datetime) -> None:
        """End a lease at once, so that the next node need not wait for it."""

    async def get(self, name: str) -> Lease | None: ...
