"""The verbs on jobs: enqueueing them, looking at them, changing their fate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from oncue.client import reading, requests
from oncue.client.requests import Page, Request, checked_key, given, moment, query, seconds, segment
from oncue.errors import InvalidJob
from oncue.model import Receipt, State, Stats
from oncue.policy.durations import Duration
from oncue.records.jobs import HandledRecord, JobDetail, JobRecord

PREFIX = "/api/admin/jobs"

_job = reading.record(JobRecord)


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be written: the name of a task, its arguments by name, and options; without them, the task's own."""

    task: str
    args: Mapping[str, Any] = field(default_factory=dict)
    queue: str | None = None
    priority: int | None = None
    delay: Duration | None = None
    at: datetime | None = None
    key: str | None = None
    deadline: Duration | None = None
    max_retries: int | None = None
    group: str | None = None
    address: str | None = None

    def document(self) -> dict[str, Any]:
        """As the API takes it."""
        return given(
            {
                "task": self.task,
                "args": dict(self.args),
                "queue": self.queue,
                "priority": self.priority,
                "delay": seconds(self.delay),
                "at": moment(self.at),
                "key": self.key,
                "deadline": seconds(self.deadline),
                "max_retries": self.max_retries,
                "group": self.group,
                "address": self.address,
            }
        )


def enqueue(
    task: str,
    args: Mapping[str, Any] | None = None,
    *,
    queue: str | None = None,
    priority: int | None = None,
    delay: Duration | None = None,
    at: datetime | None = None,
    key: str | None = None,
    group: str | None = None,
    address: str | None = None,
    deadline: Duration | None = None,
    max_retries: int | None = None,
    idempotency_key: str | None = None,
) -> Request[Receipt]:
    """Write a job of the task of this name; its receipt tells which job stands, and whether this call made it.

    `key` is the job's: at most one unfinished job of the task has it. `idempotency_key` is the call's: for a day,
    whoever calls again with the same one and the same arguments gets the same receipt, and nothing more is written.
    Without one, that holds for the tries of this call alone. `group` is whom the job is for: groups of a queue take
    turns. `address` is where alone it may run: `node:NAME` or `role:leader`.

    Raises UnknownTask and InvalidJob, which names the field.
    """
    job = NewJob(
        task, {} if args is None else args, queue, priority, delay, at, key, deadline, max_retries, group, address
    )
    body = requests.body(job.document())
    return Request("POST", PREFIX, reading.receipt, body=body, key=checked_key(idempotency_key), about="job")


def enqueue_many(jobs: Iterable[NewJob], *, idempotency_key: str | None = None) -> Request[list[Receipt]]:
    """Write up to 1,000 jobs in one transaction, all or none; a receipt for each, in order."""
    body = requests.body({"jobs": [job.document() for job in jobs]})
    read = requests.rows(reading.receipt, "jobs")
    return Request(
        "POST", f"{PREFIX}/bulk", read, body=body, key=checked_key(idempotency_key), about="job", is_long=True
    )


# --- looking --------------------------------------------------------------------------------------------------------


def job(ref: int | UUID) -> Request[JobDetail]:
    """One job with its result, its attempts, and why it is as it is. Raises JobNotFound."""
    return Request("GET", f"{PREFIX}/{segment(ref)}", reading.record(JobDetail), about="job")


def jobs(
    states: Sequence[State] = (),
    *,
    queue: str | None = None,
    task: str | None = None,
    key: str | None = None,
    group: str | None = None,
    before: int | None = None,
    limit: int = 100,
    offset: int = 0,
    whole: bool = False,
) -> Request[list[JobRecord]]:
    """Jobs, newest first, up to 1,000. `before` is the id to go on from; `offset` says how many to leave out.

    `queued` are all that wait, as in `stats`: those that are due later (`scheduled`, `retrying`) too.
    Large arguments, results and errors are left out (`shortened` says which) unless `whole`. There may be fewer jobs
    than `limit` if they are very large: `all_jobs` goes on by itself.
    """
    wanted = query(
        status=_joined(states), queue=queue, task=task, key=key, group=group, before=before, limit=limit,
        offset=offset or None, whole="true" if whole else None,
    )  # fmt: skip
    return Request("GET", PREFIX, requests.rows(_job, "jobs"), wanted, about="job")


def all_jobs(
    states: Sequence[State] = (),
    *,
    queue: str | None = None,
    task: str | None = None,
    key: str | None = None,
    group: str | None = None,
    before: int | None = None,
    page: int = 500,
    whole: bool = False,
) -> Request[Page[JobRecord]]:
    """Every such job, newest first, fetched page by page as you go on. What is added meanwhile is not among them.

    Large arguments, results and errors are left out (`shortened` says which) unless `whole`.
    """
    wanted = query(
        status=_joined(states), queue=queue, task=task, key=key, group=group, before=before, limit=page,
        whole="true" if whole else None,
    )  # fmt: skip
    return Request("GET", PREFIX, requests.page(_job, "jobs"), wanted, about="job")


def stats() -> Request[Stats]:
    """How many jobs there are, in all queues together. What finished is counted for good, pruned or not."""
    return Request("GET", f"{PREFIX}/stats", reading.record(Stats))


# --- changing -------------------------------------------------------------------------------------------------------


def cancel(ref: int | UUID) -> Request[JobRecord]:
    """Cancel a job that waits; ask a running one to stop. Raises Conflict if it is finished."""
    return Request("POST", f"{PREFIX}/{segment(ref)}/cancel", _job, about="job")


def retry(ref: int | UUID) -> Request[JobRecord]:
    """Start a finished job over, with its whole budget of retries. Raises Conflict if it is not finished.

    The run of an at-most-once slot and a delivery stay as they are: what is returned is a new job, with `retry_of`.
    """
    return Request("POST", f"{PREFIX}/{segment(ref)}/retry", _job, about="job")


def set_status(ref: int | UUID, status: str) -> Request[JobRecord]:
    """Give a job another status by hand. Raises Conflict if it cannot have that one."""
    body = requests.body({"status": status})
    return Request("PUT", f"{PREFIX}/{segment(ref)}/status", _job, body=body, about="job")


def prioritize(ref: int | UUID, priority: int) -> Request[JobRecord]:
    """Set the priority of an unfinished job, 0 to 100."""
    body = requests.body({"priority": priority})
    return Request("PUT", f"{PREFIX}/{segment(ref)}/priority", _job, body=body, about="job")


def boost(ref: int | UUID, amount: int = 10) -> Request[JobRecord]:
    """Raise the priority of an unfinished job; it stays between 0 and 100."""
    body = requests.body({"boost": amount})
    return Request("POST", f"{PREFIX}/{segment(ref)}/boost", _job, body=body, about="job")


def set_status_many(refs: Sequence[int | UUID], status: str) -> Request[list[HandledRecord]]:
    """`set_status` of up to 1,000 jobs: one answer for each that is named, in order."""
    body = requests.body({"job_ids": requests.refs(refs), "status": status})
    return Request("PUT", f"{PREFIX}/bulk/status", _handled, body=body, about="job", is_long=True)


def retry_many(refs: Sequence[int | UUID]) -> Request[list[HandledRecord]]:
    """`retry` of up to 1,000 jobs: one answer for each that is named, in order."""
    body = requests.body({"job_ids": requests.refs(refs)})
    return Request("POST", f"{PREFIX}/bulk/retry", _handled, body=body, about="job", is_long=True)


_handled = requests.rows(reading.record(HandledRecord), "results")


def _joined(states: Sequence[State]) -> str | None:
    if isinstance(states, str):
        raise InvalidJob("states", f"expected a list of states, not {states!r}")
    return ",".join(states) or None
