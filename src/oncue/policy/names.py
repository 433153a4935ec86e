"""The names of nodes: what a worker may be called, and what it is called when another one has its name."""

from __future__ import annotations

LONGEST_NODE_NAME = 128
MARK = "~"
"""Stands between the name of a node and its number, so that no given name may have it."""


def numbered(name: str, number: int) -> str:
    """The name of the n-th living node of one name: `worker`, `worker~2`, `worker~3` …"""
    return name if number == 1 else f"{name[: LONGEST_NODE_NAME - 8]}{MARK}{number}"


def checked_node_name(name: str) -> str:
    """A name that a worker may be given."""
    if MARK in name:
        raise ValueError(f"expected a name without {MARK}: oncue marks the second worker of a name with it")
    return checked_name_of_a_node(name)


def checked_name_of_a_node(name: str) -> str:
    """A name that a node may have, also one with a number."""
    if (
        not isinstance(name, str)
        or not 0 < len(name) <= LONGEST_NODE_NAME
        or not name.isprintable()
        or name != name.strip()
    ):
        raise ValueError(f"expected a printable name of 1 to {LONGEST_NODE_NAME} characters, not {name!r}")
    return name
