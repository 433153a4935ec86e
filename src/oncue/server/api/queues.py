"""Queues: what waits where, pausing, resuming and limiting them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Path

from oncue.errors import InvalidJob
from oncue.policy.checks import checked_queue
from oncue.records.queues import queue_record
from oncue.server.api.documents import changing, looking
from oncue.server.api.idempotency import REPEATABLE
from oncue.server.api.identity import Caller
from oncue.server.api.models.control import LimitsChange, QueueRecord, Queues
from oncue.server.api.problems import NOT_FOUND, Answer, Problem, made
from oncue.server.api.routing import Routes
from oncue.task import UNSET

if TYPE_CHECKING:
    from oncue.app import Oncue

PREFIX = "/api/admin/queues"
TAG = "queues"

Name = Annotated[str, Path(description="The queue's name.", examples=["mail"])]


def add(routes: Routes, app: Oncue) -> None:
    @routes.get(PREFIX, **looking(TAG, "List the queues", Queues))
    async def list_queues() -> Answer:
        """Every queue that has had a job, or that something was set for."""
        found = await app.queues.list()
        return await made(lambda: {"queues": [queue_record(queue) for queue in found]})

    @routes.get(f"{PREFIX}/{{name:path}}", **looking(TAG, "Show a queue", QueueRecord, 404))
    async def show_queue(name: Name) -> Answer:
        return await _shown(app, name)

    @routes.post(
        f"{PREFIX}/{{name:path}}/pause", needs="operate", keeping=REPEATABLE,
        **changing(TAG, "Pause a queue", QueueRecord, 404),
    )  # fmt: skip
    async def pause_queue(name: Name, by: Caller) -> Answer:
        """No more of its jobs start, on any node. Those that run go on. A queue may be paused before its first job."""
        await app.queues.pause(_checked(name), by=by)
        return await _shown(app, name)

    @routes.post(
        f"{PREFIX}/{{name:path}}/resume", needs="operate", keeping=REPEATABLE,
        **changing(TAG, "Resume a queue", QueueRecord, 404),
    )  # fmt: skip
    async def resume_queue(name: Name, by: Caller) -> Answer:
        await app.queues.resume(_checked(name), by=by)
        return await _shown(app, name)

    @routes.put(f"{PREFIX}/{{name:path}}/limits", needs="operate", **changing(TAG, "Limit a queue", QueueRecord, 404))
    async def limit_queue(name: Name, body: LimitsChange, by: Caller) -> Answer:
        """How many of its jobs may run at once. A field that is absent stays; null lifts the limit."""
        given = body.model_fields_set
        try:
            await app.queues.limit(
                _checked(name),
                globally=body.globally if "globally" in given else UNSET,
                per_node=body.per_node if "per_node" in given else UNSET,
                by=by,
            )
        except InvalidJob as error:
            if error.field == "globally":
                raise InvalidJob("global", str(error).removeprefix("globally: ")) from None
            raise
        return await _shown(app, name)


def _checked(name: str) -> str:
    """A name that no queue can have is answered like an unknown queue."""
    try:
        return checked_queue(name)
    except InvalidJob as error:
        raise Problem(NOT_FOUND, f"There is no such queue: {error}") from None


async def _shown(app: Oncue, name: str) -> Answer:
    for queue in await app.queues.list():
        if queue.name == name:
            return Answer(queue_record(queue))
    raise Problem(NOT_FOUND, f"There is no queue {name!r:.200} yet: a queue begins with its first job.")
