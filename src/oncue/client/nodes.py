"""The verbs on nodes, and on the process that answers."""

from __future__ import annotations

from typing import Any

from oncue.client import reading, requests
from oncue.client.records import Readiness
from oncue.client.requests import Request
from oncue.records.nodes import LeaderRecord, NodeRecord


def nodes() -> Request[list[NodeRecord]]:
    """The worker processes that are alive, or whose lease is over and that were not declared lost yet."""
    return Request("GET", "/api/admin/nodes", requests.rows(reading.record(NodeRecord), "nodes"))


def leader() -> Request[LeaderRecord]:
    """The node that fires the schedules; or since when there is none."""
    return Request("GET", "/api/admin/leader", reading.record(LeaderRecord))


def health() -> Request[str]:
    """Is the process there? `ok`, without a token; else Unreachable. It is asked once."""
    return Request("GET", "/health", lambda document: str(document["status"]), is_probe=True)


def ready() -> Request[Readiness]:
    """May the process be given work, and why not? It is asked once."""
    return Request("GET", "/health/ready", _readiness, is_probe=True)


def _readiness(document: Any) -> Readiness:
    return Readiness(status=document["status"], facts=document)
