"""What the doctor looks at, and what it says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from oncue.model import HeldBack, Job, Lease, Node, Queue, Token, Webhook

Status: TypeAlias = Literal["ok", "warn", "fail"]

SHOWN = 5


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    status: Status
    detail: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the database says right now."""

    now: datetime
    nodes: list[Node]
    queues: list[Queue]
    waiting: list[Job]
    running: list[Job]
    stranded: int
    overdue: int
    leader: Lease | None = None
    next_run: datetime | None = None
    tokens: tuple[Token, ...] = ()
    webhooks: tuple[Webhook, ...] = ()
    """Those that are not deleted; of very many the first."""
    held_back: tuple[HeldBack, ...] = ()
    alert_webhook: Webhook | None = None
    """The one that ONCUE_ALERT_WEBHOOK names, if there is one of that name."""

    @property
    def live(self) -> list[Node]:
        return [node for node in self.nodes if node.expires_at > self.now]


def few(names: Sequence[str]) -> str:
    """The first of these names; there may be thousands."""
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
