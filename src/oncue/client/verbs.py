"""Everything that a client can do. The verbs are plain functions; these descriptors make methods of them.

So there are no twins to keep in step: what a verb takes and gives is said once, and a type checker knows that
`client.job(7)` is a JobDetail, or something to `await` if the client is an AsyncClient.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from oncue.client import control as on_control
from oncue.client import jobs as on_jobs
from oncue.client import queues as on_queues
from oncue.client import schedules as on_schedules
from oncue.client.requests import Page, Request

if TYPE_CHECKING:
    from oncue.client.awaiting import AsyncClient
    from oncue.client.plain import Client

P = ParamSpec("P")
T = TypeVar("T")


class Verb(Generic[P, T]):
    """A method that asks one request and gives what is answered."""

    def __init__(self, prepare: Callable[P, Request[T]]) -> None:
        self._prepare = prepare

    @overload
    def __get__(self, client: None, owner: type) -> Callable[P, Request[T]]: ...
    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Client | AsyncClient | None, owner: type) -> Callable[P, Any]:
        return self._prepare if client is None else client._asking(self._prepare)


class Listing(Generic[P, T]):
    """A method that goes through a listing, and asks for a page of it when it gets there."""

    def __init__(self, prepare: Callable[P, Request[Page[T]]]) -> None:
        self._prepare = prepare

    @overload
    def __get__(self, client: None, owner: type) -> Callable[P, Request[Page[T]]]: ...
    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Client | AsyncClient | None, owner: type) -> Callable[P, Any]:
        return self._prepare if client is None else client._walking(self._prepare)


class Verbs:
    """The list."""

    enqueue = Verb(on_jobs.enqueue)
    enqueue_many = Verb(on_jobs.enqueue_many)
    job = Verb(on_jobs.job)
    jobs = Verb(on_jobs.jobs)
    all_jobs = Listing(on_jobs.all_jobs)
    stats = Verb(on_jobs.stats)
    cancel = Verb(on_jobs.cancel)
    retry = Verb(on_jobs.retry)
    set_status = Verb(on_jobs.set_status)
    prioritize = Verb(on_jobs.prioritize)
    boost = Verb(on_jobs.boost)
    set_status_many = Verb(on_jobs.set_status_many)
    retry_many = Verb(on_jobs.retry_many)

    queues = Verb(on_queues.queues)
    queue = Verb(on_queues.queue)
    pause = Verb(on_queues.pause)
    resume = Verb(on_queues.resume)
    limit = Verb(on_queues.limit)

    schedules = Verb(on_schedules.schedules)
    all_schedules = Listing(on_schedules.all_schedules)
    schedule = Verb(on_schedules.schedule)
    create_schedule = Verb(on_schedules.create_schedule)
    change_schedule = Verb(on_schedules.change_schedule)
    toggle_schedule = Verb(on_schedules.toggle_schedule)
    delete_schedule = Verb(on_schedules.delete_schedule)
    preview = Verb(on_schedules.preview)
    revisions = Verb(on_schedules.revisions)
    slots = Verb(on_schedules.slots)
    latest_slots = Verb(on_schedules.latest_slots)
    all_slots = Listing(on_schedules.all_slots)
    audit = Verb(on_schedules.audit)
    trigger = Verb(on_schedules.trigger)
    run_now = Verb(on_schedules.run_now)
    backfill = Verb(on_schedules.backfill)
    absent = Verb(on_schedules.absent)

    nodes = Verb(on_control.nodes)
    leader = Verb(on_control.leader)
    tokens = Verb(on_control.tokens)
    create_token = Verb(on_control.create_token)
    revoke_token = Verb(on_control.revoke_token)
    audit_log = Verb(on_control.audit_log)
    all_audit_log = Listing(on_control.all_audit_log)
    health = Verb(on_control.health)
    ready = Verb(on_control.ready)
