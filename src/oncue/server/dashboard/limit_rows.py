"""Limits and rates as pages show them, each with the form that changes it."""

from __future__ import annotations

from typing import NamedTuple

from oncue.model import Group, Queue


class LimitRow(NamedTuple):
    """One limit of a queue, or of a group."""

    field: str
    """As the verb calls it."""
    option: str
    """As the command line calls it."""
    text: str
    value: int | str | None
    example: str

    @property
    def is_rate(self) -> bool:
        return self.field.startswith("rate")


OPTIONS = {
    "globally": ("global", "at once, on all nodes together", "50"),
    "per_node": ("node", "at once, on each node", "8"),
    "per_group": ("per-group", "at once, of each group", "4"),
    "rate": ("rate", "start, on all nodes together", "100/s"),
    "rate_per_group": ("rate-per-group", "start, of each group", "10/s"),
}


def _row(field: str, value: int | str | None, text: str = "") -> LimitRow:
    option, usual, example = OPTIONS[field]
    return LimitRow(field, option, text or usual, value, example)


def of_queue(queue: Queue) -> list[LimitRow]:
    return [
        _row("globally", queue.global_limit),
        _row("per_node", queue.node_limit),
        _row("per_group", queue.group_limit),
        _row("rate", queue.rate),
        _row("rate_per_group", queue.group_rate),
    ]


def of_group(group: Group) -> list[LimitRow]:
    """What holds for a group, whether it is set for it alone or for each group of its queue."""
    return [
        _row("per_group", group.limit, "at once, of this group"),
        _row("rate_per_group", group.rate, "start, of this group"),
    ]


def said(queue: Queue) -> str:
    """All limits of a queue in a few words."""
    parts = (
        (queue.global_limit, "in all"), (queue.node_limit, "per node"), (queue.group_limit, "per group"),
        (queue.rate, ""), (queue.group_rate, "per group"),
    )  # fmt: skip
    return ", ".join(f"{value} {what}".strip() for value, what in parts if value is not None)
