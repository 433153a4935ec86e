"""Enqueueing over HTTP. With an idempotency key a job is written once, however often the request is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from oncue.application.builtin import PREFIX as OURS
from oncue.application.enqueueing import FURTHEST, Reservation
from oncue.errors import InvalidJob, UnknownTask
from oncue.model import Receipt
from oncue.server.api import moments
from oncue.server.api.documents import changing
from oncue.server.api.idempotency import Keeping, kept_of
from oncue.server.api.identity import Caller
from oncue.server.api.jobs import PREFIX, TAG
from oncue.server.api.models.jobs import Enqueue, EnqueueMany, ReceiptRecord, Receipts
from oncue.server.api.problems import UNKNOWN_TASK, Answer, FieldError, Problem, invalid
from oncue.server.api.routing import LONG_SECONDS, Routes
from oncue.task import Call, Task
from oncue.tasks.cluster import ClusterCall
from oncue.verbs.jobs import MOST_AT_ONCE

if TYPE_CHECKING:
    from oncue.app import Oncue
    from oncue.application.enqueueing import Row

STANDS = {"model": ReceiptRecord, "description": "Nothing was written: an unfinished job has this key."}
NOT_OURS = (
    "expected a task of the application, not one of oncue's own; for deliveries: "
    "POST /api/admin/webhooks/NAME/deliveries"
)
ONE_BY_ONE = "expected no cluster task: cluster jobs are created one by one, POST /api/admin/cluster/jobs"
NONE_WRITTEN = {"model": Receipts, "description": "Nothing was written: unfinished jobs have all of the keys."}


def add(routes: Routes, app: Oncue) -> None:
    one = changing(TAG, "Enqueue a job", ReceiptRecord, 409, 421, status=201)
    one["responses"][200] = STANDS

    @routes.post(PREFIX, needs="enqueue", keeping=Keeping(repeats=True, jobs=lambda body: 1), **one)
    async def enqueue_job(request: Request, body: Enqueue, by: Caller) -> Answer:
        """Writes a job. If its key is held by an unfinished one, nothing is written, and the answer names that one. A
        cluster task is answered as by `POST /api/admin/cluster/jobs`, but with the receipt."""
        now = await app.now()
        call, row = await _call(app, body, by, now)
        if isinstance(call, ClusterCall):
            receipt = await created(app, request, call, row)
        else:
            (receipt,) = await written(app, request, [(call, row)])
        place = f"{request.scope['path']}/{receipt.id}"
        return Answer(receipt_record(receipt), 201 if receipt.created else 200, headers={"Location": place})

    many = changing(TAG, "Enqueue jobs", Receipts, 409, status=201)
    many["responses"][200] = NONE_WRITTEN

    @routes.post(
        f"{PREFIX}/bulk", needs="enqueue", keeping=Keeping(repeats=True, jobs=_how_many), patience=LONG_SECONDS, **many
    )
    async def enqueue_jobs(request: Request, body: EnqueueMany, by: Caller) -> Answer:
        """Writes all of the jobs or none, in one transaction. Jobs whose keys are held are left out."""
        now = await app.now()
        calls = [await _call(app, job, by, now, f"jobs.{number}.") for number, job in enumerate(body.jobs)]
        for number, (call, _) in enumerate(calls):
            if isinstance(call, ClusterCall):
                raise invalid(f"jobs.{number}.task", ONE_BY_ONE)
        receipts = await written(app, request, calls)
        created = sum(receipt.created for receipt in receipts)
        record = {
            "jobs": list(map(receipt_record, receipts)),
            "created": created,
            "duplicates": len(receipts) - created,
        }
        return Answer(record, 201 if created else 200)


def _how_many(body: Any) -> int:
    """How many numbers to reserve for a request that is not checked yet."""
    jobs = body.get("jobs") if isinstance(body, dict) else None
    return min(len(jobs), MOST_AT_ONCE) if isinstance(jobs, list) else 0


async def written(app: Oncue, request: Request, calls: Sequence[tuple[Call[Any], Row]]) -> list[Receipt]:
    kept = kept_of(request.scope)
    if kept is None:
        return await app.internals.enqueueing.write_all(calls)
    begun = kept.request
    return await app.internals.enqueueing.write_all(
        calls, ids=begun.ids, since=begun.started_at, in_doubt=not kept.is_new
    )


async def created(app: Oncue, request: Request, call: ClusterCall[Any], row: Row) -> Receipt:
    """Create a cluster job, once for a request that is sent twice."""
    kept, reserved = kept_of(request.scope), None
    if kept is not None:
        reserved = Reservation(kept.request.ids[0], kept.request.started_at, not kept.is_new)
    return await app.internals.clustering.create(call, row, reserved)


def receipt_record(receipt: Receipt) -> dict[str, Any]:
    return {"id": receipt.id, "uid": str(receipt.uid), "created": receipt.created}


async def _call(app: Oncue, body: Enqueue, by: str, now: datetime, prefix: str = "") -> tuple[Call[Any], Row]:
    """The call that a body asks for."""
    at = None if body.at is None else instant_to_come(body.at, now, f"{prefix}at")
    return await call_of(
        app, task_named(app, body.task, prefix), body.args, prefix, queue=body.queue, priority=body.priority,
        delay=body.delay, at=at, key=body.key, group=body.group, address=body.address, deadline=body.deadline,
        max_retries=body.max_retries, enqueued_by=by,
    )  # fmt: skip


def task_named(app: Oncue, name: str, prefix: str = "") -> Task[Any, Any]:
    if name.startswith(OURS):
        raise invalid(f"{prefix}task", NOT_OURS)
    try:
        return app.find(name)
    except UnknownTask as error:
        raise Problem(UNKNOWN_TASK, str(error), [FieldError(f"{prefix}task", str(error))]) from None


async def call_of(
    app: Oncue, task: Task[Any, Any], args: Mapping[str, Any], prefix: str = "", **options: Any
) -> tuple[Call[Any], Row]:
    """A call with these options. What is wrong with it is told by the field's place in the body."""
    try:
        await app.internals.enqueueing.refuse_bypass(task)
        call: Call[Any] = task.using(**options)
    except InvalidJob as error:
        place = error.field if error.field.startswith(prefix) else f"{prefix}{error.field}"
        raise _at(error, place) from None
    try:
        stored = task.arguments.dump((), args, app.settings.max_args_bytes)
    except InvalidJob as error:
        named = error.argument if error.field == "arguments" else error.field
        raise _at(error, f"{prefix}args" if named is None else f"{prefix}args.{named}") from None
    try:
        call.key_of((), args, stored)
    except InvalidJob as error:
        raise _at(error, f"{prefix}{error.field}") from None
    return call, ((), args)


def instant_to_come(text: str, now: datetime, field: str) -> datetime:
    at = moments.instant(text, field)
    if at - now > FURTHEST:
        raise InvalidJob(field, "expected an instant within the next hundred years")
    return at


def _at(error: InvalidJob, place: str) -> InvalidJob:
    return InvalidJob(place, str(error).removeprefix(f"{error.field}: "))
