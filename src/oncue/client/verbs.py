"""Everything that a client can do. The verbs are plain functions; these descriptors make methods of them.

So there are no twins to keep in step: what a verb takes and gives is said once, and a type checker knows that
`client.jobs.get(7)` is a JobDetail, or something to `await` if the client is an AsyncClient.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, overload

from oncue.client import alerts as on_alerts
from oncue.client import audit_log as on_audit_log
from oncue.client import cluster as on_cluster
from oncue.client import jobs as on_jobs
from oncue.client import nodes as on_nodes
from oncue.client import queues as on_queues
from oncue.client import schedules as on_schedules
from oncue.client import tokens as on_tokens
from oncue.client import webhooks as on_webhooks
from oncue.client import windows as on_windows
from oncue.client.requests import Page, Request

if TYPE_CHECKING:
    from oncue.client.awaiting import AsyncClient
    from oncue.client.plain import Client

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C")


class Noun(Generic[C]):
    """The verbs of one noun, on one client."""

    def __init__(self, client: C) -> None:
        self._client = client


class Verb(Generic[P, T]):
    """A method that asks one request and gives what is answered."""

    def __init__(self, prepare: Callable[P, Request[T]]) -> None:
        self._prepare = prepare

    @overload
    def __get__(self, on: None, owner: type) -> Callable[P, Request[T]]: ...
    @overload
    def __get__(self, on: Client | Noun[Client], owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, on: AsyncClient | Noun[AsyncClient], owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, on: Any, owner: type) -> Callable[P, Any]:
        if on is None:
            return self._prepare
        asking: Callable[P, Any] = _client(on)._asking(self._prepare)
        return asking


class Listing(Generic[P, T]):
    """A method that goes through a listing, and asks for a page of it when it gets there."""

    def __init__(self, prepare: Callable[P, Request[Page[T]]]) -> None:
        self._prepare = prepare

    @overload
    def __get__(self, on: None, owner: type) -> Callable[P, Request[Page[T]]]: ...
    @overload
    def __get__(self, on: Client | Noun[Client], owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, on: AsyncClient | Noun[AsyncClient], owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, on: Any, owner: type) -> Callable[P, Any]:
        if on is None:
            return self._prepare
        walking: Callable[P, Any] = _client(on)._walking(self._prepare)
        return walking


def _client(on: Any) -> Any:
    return on._client if isinstance(on, Noun) else on


class Jobs(Noun[C]):
    list = Verb(on_jobs.jobs)
    all = Listing(on_jobs.all_jobs)
    get = Verb(on_jobs.job)
    stats = Verb(on_jobs.stats)
    cancel = Verb(on_jobs.cancel)
    retry = Verb(on_jobs.retry)
    set_status = Verb(on_jobs.set_status)
    prioritize = Verb(on_jobs.prioritize)
    boost = Verb(on_jobs.boost)
    set_status_many = Verb(on_jobs.set_status_many)
    retry_many = Verb(on_jobs.retry_many)


class Queues(Noun[C]):
    list = Verb(on_queues.queues)
    get = Verb(on_queues.queue)
    groups = Verb(on_queues.groups)
    all_groups = Listing(on_queues.all_groups)
    pause = Verb(on_queues.pause)
    resume = Verb(on_queues.resume)
    limit = Verb(on_queues.limit)


class Schedules(Noun[C]):
    list = Verb(on_schedules.schedules)
    all = Listing(on_schedules.all_schedules)
    get = Verb(on_schedules.schedule)
    create = Verb(on_schedules.create_schedule)
    change = Verb(on_schedules.change_schedule)
    toggle = Verb(on_schedules.toggle_schedule)
    delete = Verb(on_schedules.delete_schedule)
    preview = Verb(on_schedules.preview)
    preview_change = Verb(on_schedules.preview_change)
    revisions = Verb(on_schedules.revisions)
    slots = Verb(on_schedules.slots)
    latest_slots = Verb(on_schedules.latest_slots)
    all_slots = Listing(on_schedules.all_slots)
    audit = Verb(on_schedules.audit)
    trigger = Verb(on_schedules.trigger)
    run_now = Verb(on_schedules.run_now)
    backfill = Verb(on_schedules.backfill)
    undecided = Verb(on_schedules.undecided)


class Webhooks(Noun[C]):
    list = Verb(on_webhooks.webhooks)
    all = Listing(on_webhooks.all_webhooks)
    get = Verb(on_webhooks.webhook)
    create = Verb(on_webhooks.create_webhook)
    change = Verb(on_webhooks.change_webhook)
    toggle = Verb(on_webhooks.toggle_webhook)
    delete = Verb(on_webhooks.delete_webhook)
    pause = Verb(on_webhooks.pause_webhook)
    resume = Verb(on_webhooks.resume_webhook)
    deliver = Verb(on_webhooks.deliver)
    executions = Verb(on_webhooks.executions)
    all_executions = Listing(on_webhooks.all_executions)
    execution = Verb(on_webhooks.execution)
    retry = Verb(on_webhooks.retry_execution)


class Windows(Noun[C]):
    list = Verb(on_windows.windows)
    get = Verb(on_windows.window)
    day = Verb(on_windows.day)
    subjects = Verb(on_windows.subjects)
    all_subjects = Listing(on_windows.all_subjects)
    subject = Verb(on_windows.subject)
    ledger = Verb(on_windows.ledger)
    audit = Verb(on_windows.audit_days)
    explain = Verb(on_windows.explain_day)
    add = Verb(on_windows.add)
    change = Verb(on_windows.change)
    remove = Verb(on_windows.remove)
    add_each = Verb(on_windows.add_each)
    run_now = Verb(on_windows.run_now)


class Cluster(Noun[C]):
    run = Verb(on_cluster.run)
    get = Verb(on_cluster.get)
    list = Verb(on_cluster.cluster_jobs)
    all = Listing(on_cluster.all_cluster_jobs)
    leader = Verb(on_cluster.cluster_leader)


class Nodes(Noun[C]):
    list = Verb(on_nodes.nodes)
    leader = Verb(on_nodes.leader)


class Tokens(Noun[C]):
    list = Verb(on_tokens.tokens)
    create = Verb(on_tokens.create_token)
    revoke = Verb(on_tokens.revoke_token)


class AuditLog(Noun[C]):
    list = Verb(on_audit_log.audit_log)
    all = Listing(on_audit_log.all_audit_log)


class Alerts(Noun[C]):
    book = Verb(on_alerts.alert_book)


class Verbs:
    """What a client can do: enqueue, deliver, ask how the process is, and the verbs of each noun, as `Oncue` has it."""

    enqueue = Verb(on_jobs.enqueue)
    enqueue_many = Verb(on_jobs.enqueue_many)
    deliver = Verb(on_webhooks.deliver_to_url)
    health = Verb(on_nodes.health)
    ready = Verb(on_nodes.ready)

    @property
    def jobs(self) -> Jobs[Self]:
        return Jobs(self)

    @property
    def queues(self) -> Queues[Self]:
        return Queues(self)

    @property
    def schedules(self) -> Schedules[Self]:
        return Schedules(self)

    @property
    def webhooks(self) -> Webhooks[Self]:
        return Webhooks(self)

    @property
    def windows(self) -> Windows[Self]:
        return Windows(self)

    @property
    def cluster(self) -> Cluster[Self]:
        return Cluster(self)

    @property
    def nodes(self) -> Nodes[Self]:
        return Nodes(self)

    @property
    def tokens(self) -> Tokens[Self]:
        return Tokens(self)

    @property
    def audit_log(self) -> AuditLog[Self]:
        return AuditLog(self)

    @property
    def alerts(self) -> Alerts[Self]:
        return Alerts(self)
