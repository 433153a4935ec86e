"""The verbs on queues."""

from __future__ import annotations

from datetime import datetime
from types import EllipsisType

from oncue.client import reading, requests
from oncue.client.requests import Page, Request, given, moment, query, seconds, segment
from oncue.model import Group, Queue
from oncue.policy.durations import Duration

PREFIX = "/api/admin/queues"

_queue = reading.record(Queue)
_group = reading.record(Group)


def queues() -> Request[list[Queue]]:
    """Every queue that has had a job, or that something was set for."""
    return Request("GET", PREFIX, requests.rows(_queue, "queues"))


def queue(name: str) -> Request[Queue]:
    """One queue. An ApiError with the status 404 if it has had no job yet, and nothing was set for it."""
    return Request("GET", f"{PREFIX}/{segment(name)}", _queue)


def groups(queue: str, *, after: str | None = None, limit: int = 1000) -> Request[list[Group]]:
    """The groups of a queue of which something waits or runs, or for which something is set, by name, up to 1,000.
    `after` is the name to go on from."""
    asked = query(after=after, limit=limit)
    return Request("GET", f"{PREFIX}/{segment(queue)}/groups", requests.rows(_group, "groups"), asked)


def all_groups(queue: str, *, page: int = 500) -> Request[Page[Group]]:
    """Every such group of a queue by name, fetched page by page as you go on."""
    asked = query(limit=page)
    return Request("GET", f"{PREFIX}/{segment(queue)}/groups", requests.page(_group, "groups"), asked)


def pause(
    queue: str, *, group: str | None = None, until: datetime | None = None, for_: Duration | None = None
) -> Request[Queue]:
    """No more jobs of this queue start, on any node. Those that run go on.

    With `group`, no more of this group start: until an instant, for so long, or until it is resumed.
    """
    body = requests.body(given({"group": group, "until": moment(until), "for": seconds(for_)}))
    return Request("POST", f"{PREFIX}/{segment(queue)}/pause", _queue, body=body)


def resume(queue: str, *, group: str | None = None) -> Request[Queue]:
    """Jobs of this queue, or of this group of it, start again."""
    return Request("POST", f"{PREFIX}/{segment(queue)}/resume", _queue, body=requests.body(given({"group": group})))


def limit(
    queue: str,
    *,
    group: str | None = None,
    globally: int | EllipsisType | None = ...,
    per_node: int | EllipsisType | None = ...,
    per_group: int | EllipsisType | None = ...,
    rate: str | EllipsisType | None = ...,
    rate_per_group: str | EllipsisType | None = ...,
) -> Request[Queue]:
    """Say how many jobs of a queue may run at once: on all nodes together, on each, and of each group. And how many may
    start in a second, a minute, an hour or a day (`rate="100/s"`): in all, and of each group.

    With `group`, `per_group` and `rate_per_group` hold for this group alone, instead of its queue's. What is not given
    stays; None lifts a limit.
    """
    wanted = {
        "global": globally,
        "per_node": per_node,
        "per_group": per_group,
        "rate": rate,
        "rate_per_group": rate_per_group,
    }
    changes = {name: value for name, value in wanted.items() if value is not ...}
    body = requests.body({**given({"group": group}), **changes})
    return Request("PUT", f"{PREFIX}/{segment(queue)}/limits", _queue, body=body)
