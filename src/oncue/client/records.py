"""What only the client tells; the other records are those of `oncue.records`, with the names of the Python API.

What the Python API has in exactly this form is used as it is: Receipt, Queue, Stats, AuditEntry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfilled:
    """What a backfill did: the jobs that it made, and how many slots were decided before."""

    jobs: tuple[int, ...]
    present: int
    skipped: int = 0
    """Slots that share the key of the first job, which stands for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether a process may be given work: ready, standing_by, draining, lease_lost or database_unavailable."""

    status: str
    facts: Mapping[str, Any]
    """Everything that it tells: the database, the leader, the backlog, the worker in it."""

    @property
    def is_ready(self) -> bool:
        return self.status in ("ready", "standing_by")
