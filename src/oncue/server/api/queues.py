"""Queues and their groups: what waits where, pausing, resuming and limiting them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from fastapi import Path, Query
from starlette.requests import Request

from oncue.errors import InvalidJob
from oncue.model import Queue
from oncue.policy.checks import LONGEST_NAME, checked_queue
from oncue.records.queues import group_record, queue_record
from oncue.server.api import moments, pages
from oncue.server.api.documents import changing, looking
from oncue.server.api.idempotency import REPEATABLE
from oncue.server.api.identity import Caller
from oncue.server.api.models.control import GroupPage, LimitsChange, QueuePause, QueueRecord, QueueResume, Queues
from oncue.server.api.pages import Limit
from oncue.server.api.problems import NOT_FOUND, Answer, Problem, made
from oncue.server.api.routing import Routes
from oncue.task import UNSET

if TYPE_CHECKING:
    from oncue.app import Oncue

PREFIX = "/api/admin/queues"
TAG = "queues"

Name = Annotated[str, Path(description="The queue's name.", examples=["mail"])]
After = Annotated[
    str | None, Query(max_length=LONGEST_NAME, description="Only groups after this name: where the last page ended.")
]

TYPED = {"globally": "global", "for_": "for"}
"""What some fields of the Python API are called here."""


def add(routes: Routes, app: Oncue) -> None:
    @routes.get(PREFIX, **looking(TAG, "List the queues", Queues))
    async def list_queues() -> Answer:
        """Every queue that has had a job, or that something was set for."""
        found = await app.queues.list()
        return await made(lambda: {"queues": [queue_record(queue) for queue in found]})

    @routes.get(f"{PREFIX}/{{name:path}}/groups", **looking(TAG, "List the groups of a queue", GroupPage, 404))
    async def list_groups(request: Request, name: Name, after: After = None, limit: Limit = 100) -> Answer:
        """The groups of which something waits or runs, or for which something is set, by name. Of what waits in each,
        1,000 are counted at most."""
        found = await app.queues.groups(_checked(name), after=after, limit=limit + 1)
        return await pages.answer(request, "groups", found, limit, group_record, after=lambda group: group.name)

    @routes.get(f"{PREFIX}/{{name:path}}", **looking(TAG, "Show a queue", QueueRecord, 404))
    async def show_queue(name: Name) -> Answer:
        return await _shown(app, name)

    @routes.post(
        f"{PREFIX}/{{name:path}}/pause", needs="operate", keeping=REPEATABLE,
        **changing(TAG, "Pause a queue", QueueRecord, 404),
    )  # fmt: skip
    async def pause_queue(name: Name, by: Caller, body: QueuePause | None = None) -> Answer:
        """No more of its jobs start, on any node. Those that run go on. A queue may be paused before its first job.
        With `group`, that holds for the jobs of this group alone. The answer is the queue."""
        wanted = QueuePause.model_validate({}) if body is None else body
        with _naming():
            until = None if wanted.until is None else moments.instant(wanted.until, "until")
            await app.queues.pause(_checked(name), group=wanted.group, until=until, for_=wanted.for_, by=by)
        return await _shown(app, name, is_known=wanted.group is not None)

    @routes.post(
        f"{PREFIX}/{{name:path}}/resume", needs="operate", keeping=REPEATABLE,
        **changing(TAG, "Resume a queue", QueueRecord, 404),
    )  # fmt: skip
    async def resume_queue(name: Name, by: Caller, body: QueueResume | None = None) -> Answer:
        """Its jobs start again; with `group`, those of this group. The answer is the queue."""
        group = None if body is None else body.group
        await app.queues.resume(_checked(name), group=group, by=by)
        return await _shown(app, name, is_known=group is not None)

    @routes.put(f"{PREFIX}/{{name:path}}/limits", needs="operate", **changing(TAG, "Limit a queue", QueueRecord, 404))
    async def limit_queue(name: Name, body: LimitsChange, by: Caller) -> Answer:
        """How many of its jobs may run at once, and how many may start in a while. A field that is absent stays; null
        lifts the limit. With `group`, `per_group` and `rate_per_group` are set for this group alone. The answer is the
        queue."""
        given = body.model_fields_set
        with _naming():
            await app.queues.limit(
                _checked(name),
                group=body.group,
                globally=body.globally if "globally" in given else UNSET,
                per_node=body.per_node if "per_node" in given else UNSET,
                per_group=body.per_group if "per_group" in given else UNSET,
                rate=body.rate if "rate" in given else UNSET,
                rate_per_group=body.rate_per_group if "rate_per_group" in given else UNSET,
                by=by,
            )
        return await _shown(app, name, is_known=body.group is not None)


@contextmanager
def _naming() -> Iterator[None]:
    """A complaint names the field as requests spell it."""
    try:
        yield
    except InvalidJob as error:
        if error.field not in TYPED:
            raise
        raise InvalidJob(TYPED[error.field], str(error).removeprefix(f"{error.field}: ")) from None


def _checked(name: str) -> str:
    """A name that no queue can have is answered like an unknown queue."""
    try:
        return checked_queue(name)
    except InvalidJob as error:
        raise Problem(NOT_FOUND, f"There is no such queue: {error}") from None


async def _shown(app: Oncue, name: str, *, is_known: bool = False) -> Answer:
    """The queue. One of which only a group is known so far is empty."""
    for queue in await app.queues.list():
        if queue.name == name:
            return Answer(queue_record(queue))
    if is_known:
        return Answer(queue_record(Queue(name, None, 0, 0, 0, 0, 0, 0, 0)))
    raise Problem(NOT_FOUND, f"There is no queue {name!r:.200} yet: a queue begins with its first job.")
