"""The names of nodes: what a worker may be called, what it is called when another one has its name, and addresses."""

from __future__ import annotations

from oncue.errors import InvalidJob
from oncue.model import LEADER_ADDRESS, NODE_ADDRESS

LONGEST_NODE_NAME = 128
LONGEST_ADDRESS = len(NODE_ADDRESS) + LONGEST_NODE_NAME
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


def checked_address(address: str) -> str:
    """Where alone a job may run: a node, by the name that is leased to it, or the leader."""
    if address == LEADER_ADDRESS:
        return address
    try:
        if not isinstance(address, str) or not address.startswith(NODE_ADDRESS):
            raise ValueError
        checked_name_of_a_node(address.removeprefix(NODE_ADDRESS))
    except ValueError:
        expected = f"{NODE_ADDRESS}NAME, with the name of a node, or {LEADER_ADDRESS}"
        raise InvalidJob("address", f"expected {expected}, not {address!r:.200}") from None
    return address
