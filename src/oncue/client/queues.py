"""The verbs on queues."""

from __future__ import annotations

from types import EllipsisType

from oncue.client import reading, requests
from oncue.client.requests import Request, segment
from oncue.model import Queue

PREFIX = "/api/admin/queues"

_queue = reading.record(Queue)


def queues() -> Request[list[Queue]]:
    """Every queue that has had a job, or that something was set for."""
    return Request("GET", PREFIX, requests.rows(_queue, "queues"))


def queue(name: str) -> Request[Queue]:
    """One queue. An ApiError with the status 404 if it has had no job yet, and nothing was set for it."""
    return Request("GET", f"{PREFIX}/{segment(name)}", _queue)


def pause(queue: str) -> Request[Queue]:
    """No more jobs of this queue start, on any node. Those that run go on."""
    return Request("POST", f"{PREFIX}/{segment(queue)}/pause", _queue)


def resume(queue: str) -> Request[Queue]:
    """Jobs of this queue start again."""
    return Request("POST", f"{PREFIX}/{segment(queue)}/resume", _queue)


def limit(
    queue: str, *, globally: int | EllipsisType | None = ..., per_node: int | EllipsisType | None = ...
) -> Request[Queue]:
    """Say how many jobs of a queue may run at once, on all nodes together and on each.

    What is not given stays; None lifts a limit.
    """
    wanted = {"global": globally, "per_node": per_node}
    body = requests.body({name: value for name, value in wanted.items() if value is not ...})
    return Request("PUT", f"{PREFIX}/{segment(queue)}/limits", _queue, body=body)
