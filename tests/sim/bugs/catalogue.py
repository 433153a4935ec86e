"""All the bugs of the kit, and the table of them that the documentation shows."""

from __future__ import annotations

from tests.sim.bugs import (
    addresses,
    cluster,
    deliveries,
    endings,
    expiry,
    fencing,
    groups,
    kit,
    leases,
    lifecycles,
    records,
    replies,
    slots,
    upkeep,
    webhooks,
    windows,
    wishes,
)
from tests.sim.bugs.kit import Bug

PARTS = (
    fencing,
    leases,
    replies,
    lifecycles,
    deliveries,
    wishes,
    upkeep,
    slots,
    expiry,
    records,
    endings,
    groups,
    addresses,
    webhooks,
    windows,
    cluster,
)
"""Importing them has filled the list."""

BUGS: tuple[Bug, ...] = tuple(kit.BUGS)


def table() -> list[str]:
    head = ["| the bug | where it was seen | what catches it |", "| --- | --- | --- |"]
    return [*head, *(f"| {bug.name} | {bug.seen_in} | {_promises(bug)} |" for bug in BUGS)]


def _promises(bug: Bug) -> str:
    return "; ".join(f"*{promise}*" for promise in bug.caught_by)
