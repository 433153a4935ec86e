"""The node, and the leases that one node at a time holds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Node:
    """One running process: a fresh UUID, alive while its lease is renewed. Names and hosts are labels."""

    id: UUID
    name: str
    host: str
    pid: int
    boot_id: str
    version: str
    queues: tuple[str, ...]
    tasks: tuple[str, ...]
    concurrency: int
    address: str | None
    started_at: datetime
    beat_at: datetime
    expires_at: datetime
    process_start: str = ""
    exclusive: bool = False
    schedules: tuple[str, ...] = ()
    beat_no: int = 0
    """Grows with every beat: one that was given up may reach the database after a later one, and must not count."""
    named: bool = False
    """Whether `name` is leased to this node: then no other living node has it. Else it is what the node asks for."""


class HeldJob(NamedTuple):
    """A job that a node has claimed."""

    id: int
    task: str
    started_at: datetime | None
    """None: it waits for a seat on its node, or began only just now."""


class GoneNode(NamedTuple):
    """A node whose lease has ended."""

    id: UUID
    name: str
    at: datetime
    left: bool
    """Whether it left in good order; else it was declared lost."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Something that one node at a time may hold. `epoch` grows with every new holder and is the fence."""

    name: str
    holder: UUID
    holder_name: str
    epoch: int
    acquired_at: datetime
    renewed_at: datetime
    expires_at: datetime
