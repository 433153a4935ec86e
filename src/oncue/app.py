"""Oncue: declares tasks, enqueues, and puts a worker together. The one place where everything meets."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload

from oncue.application.builtin import builtin_tasks
from oncue.application.internals import Internals
from oncue.application.naming import place_of
from oncue.model import DELIVER, Delivery, Missed, Receipt
from oncue.policy.retry import DEFAULT_LADDER, Ladder
from oncue.settings import Settings
from oncue.task import UNSET, Call, RetryRule, Task, _Unset
from oncue.telemetry import PUBLIC_EVENTS, Subscriber

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from oncue.application.lifespans import Lifespan, Opens
    from oncue.application.webhooks import DeclaredWebhook
    from oncue.engine.node import WorkerNode
    from oncue.policy.durations import Duration
    from oncue.policy.error_classes import ErrorClasses
    from oncue.policy.retry import Policy
    from oncue.policy.triggers import Rule
    from oncue.tasks.cluster import ClusterTask
    from oncue.verbs.alerts import Alerts
    from oncue.verbs.audit_log import AuditLog
    from oncue.verbs.cluster import Cluster
    from oncue.verbs.jobs import Jobs
    from oncue.verbs.nodes import Nodes
    from oncue.verbs.queues import Queues
    from oncue.verbs.schedules import Schedules
    from oncue.verbs.sessions import Sessions
    from oncue.verbs.tokens import Tokens
    from oncue.verbs.webhooks import Webhooks
    from oncue.verbs.windows import Windows

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Oncue:
    """An application: its tasks and schedules, and the database that its jobs live in.

    Without arguments the database is DATABASE_URL, or ./oncue.db. Nothing is opened until it is needed. One application
    has one set of tables: on PostgreSQL a schema, `public` unless `schema` names another, on SQLite a file. Its `name`
    is the same in all of its processes: a worker of an application with another name is refused on its tables. Without
    one it is called after the package or the folder that its code is in.
    """

    def __init__(
        self,
        database_url: str | None = None,
        *,
        name: str | None = None,
        schema: str | None = None,
        settings: Settings | None = None,
        dice: Random | None = None,
    ) -> None:
        declared = {"database_url": database_url, "schema": schema, "name": name}
        place = place_of(sys._getframe(1).f_globals)
        self.internals = Internals(declared, place, settings, dice, lambda: builtin_tasks(self))

    @property
    def name(self) -> str:
        return self.internals.name

    @property
    def settings(self) -> Settings:
        return self.internals.settings

    def configure(self, settings: Settings) -> None:
        """Use these settings; before anything is opened."""
        self.internals.configure(settings)

    def override(self, flags: Mapping[str, Any]) -> Settings:
        """Take over what a command line says: it wins over code. Flags that are None were not given."""
        return self.internals.override(flags)

    # --- declaring ----------------------------------------------------------------------------------------------

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self,
        *,
        name: str | None = None,
        queue: str | None = None,
        priority: int = 0,
        timeout: Duration | None = None,
        max_runtime: Duration | _Unset | None = UNSET,
        deadline: Duration | None = None,
        retry: Policy | RetryRule | None = None,
        max_retries: int | None = None,
        max_crashes: int | Literal["never"] = 5,
        delivery: Delivery = "at_least_once",
        schedule: Rule | None = None,
        missed: Missed | _Unset = UNSET,
        grace: Duration | _Unset = UNSET,
        max_instances: int | _Unset = UNSET,
        process: bool = False,
        key: Callable[..., str] | None = None,
        max_concurrency: int | _Unset = UNSET,
        on_cutoff: Task[Any, Any] | None = None,
        error_classes: ErrorClasses | None = None,
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(self, *function: Callable[..., Any], **options: Any) -> Any:
        """Declare a function, plain or `async`, as a task."""

        def declare(function: Callable[..., Any]) -> Task[Any, Any]:
            task: Task[Any, Any] = Task(self, function, declared_in=_caller(), **options)
            self.internals.declare(task)
            return task

        return declare(*function) if function else declare

    @overload
    def cluster_task(self, function: Callable[P, R], /) -> ClusterTask[P, R]: ...

    @overload
    def cluster_task(
        self,
        *,
        name: str | None = None,
        queue: str | None = None,
        priority: int = 0,
        timeout: Duration | None = None,
        max_runtime: Duration | _Unset | None = UNSET,
        deadline: Duration | None = None,
        retry: Policy | RetryRule | None = None,
        max_retries: int | None = None,
        max_crashes: int | Literal["never"] = 5,
        schedule: Rule | None = None,
        missed: Missed | _Unset = UNSET,
        grace: Duration | _Unset = UNSET,
        max_instances: int | _Unset = UNSET,
        key: Callable[..., str] | None = None,
        leader_only: bool = False,
        quorum_timeout: Duration | None = None,
        on_no_quorum: Literal["proceed", "fail"] = "proceed",
        on_node_restart: Literal["count", "fail"] = "count",
    ) -> Callable[[Callable[P, R]], ClusterTask[P, R]]: ...

    def cluster_task(self, *function: Callable[..., Any], **options: Any) -> Any:
        """Declare a function, plain or `async`, that every node runs: each its own part of one cluster job.

        `leader_action` of what this returns declares what the leader does once a quorum of the nodes has done its
        part. With `leader_only` the function is that action, and the nodes have no part. `queue` says which nodes take
        part: those that serve it; without it, all whose code declares the task. If there is no quorum within
        `quorum_timeout`, the leader acts without one, or the job fails (`on_no_quorum="fail"`). With
        `on_node_restart="fail"` it also fails as soon as a node is restarted in the middle of its part.
        """
        from oncue.tasks.cluster import ClusterTask

        def declare(function: Callable[..., Any]) -> ClusterTask[Any, Any]:
            task: ClusterTask[Any, Any] = ClusterTask(self, function, declared_in=_caller(), **options)
            self.internals.declare(task)
            return task

        return declare(*function) if function else declare

    def lifespan(self, function: Opens[T]) -> Lifespan[T]:
        """Declare what a worker opens before its first job and closes after its last.

        The function yields it once. Handlers get it by calling the function's name: `http()`.
        """
        return self.internals.lifespans.declare(function)

    def webhook(
        self,
        name: str,
        *,
        url: str,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        body: str | None = None,
        timeout: Duration = 30.0,
        secrets: str | Sequence[str] = (),
        retry: Ladder = DEFAULT_LADDER,
        redirects: int = 0,
        ca: str | None = None,
        certificate: str | None = None,
        description: str = "",
        schedule: Rule | None = None,
        missed: Missed | _Unset = UNSET,
        grace: Duration | _Unset = UNSET,
        max_instances: int | _Unset = UNSET,
    ) -> DeclaredWebhook:
        """Declare a webhook: a URL that deliveries are sent to, by hand (`.deliver(payload)`) or on a schedule.

        `body` is a template; `retry` says how long to wait before each further attempt; `secrets` sign
        every request (`whsec_…`, or `env:ONCUE_SECRET_…`, which the worker reads from its environment). `ca` and
        `certificate` are names of files in the directory ONCUE_WEBHOOKS_TLS_DIR. Deliveries of one schedule may
        overlap, since one that is tried again does not hold up the next: `max_instances=1` forbids it. Unless they are
        given, `missed` is "latest", `grace` a day and `max_instances` 100.
        """
        from oncue.application.webhooks import DeclaredWebhook

        fields = {
            "name": name, "url": url, "method": method, "headers": {} if headers is None else headers,
            "content_type": content_type, "body": body, "timeout": timeout, "secrets": secrets, "retry": retry,
            "redirects": redirects, "ca": ca, "certificate": certificate, "description": description,
        }  # fmt: skip
        webhook = DeclaredWebhook(self, fields, schedule, missed, grace, max_instances)
        self.internals.declare_webhook(webhook)
        return webhook

    @property
    def tasks(self) -> Mapping[str, Task[Any, Any]]:
        """The declared tasks by their names."""
        return self.internals.tasks

    def find(self, name: str) -> Task[Any, Any]:
        """A declared task by its name. Raises UnknownTask."""
        return self.internals.find(name)

    # --- deliveries to a bare URL -------------------------------------------------------------------------------

    def deliver(
        self,
        url: str,
        payload: Any = None,
        *,
        key: str | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        enqueued_by: str = "system",
        on: object | None = None,
        **fields: Any,
    ) -> Receipt:
        """Enqueue a delivery to a URL that no webhook stands for. In async code use `adeliver`.

        `fields` are those of `webhook` that say how it is sent. With `on=session` it becomes part of the caller's own
        transaction. A job shows its arguments, so secrets and headers are references (`env:ONCUE_SECRET_…`).
        """
        call, arguments = self._delivery(url, payload, fields, key, delay, at, priority, enqueued_by, on)
        return call.enqueue(**arguments)

    async def adeliver(
        self,
        url: str,
        payload: Any = None,
        *,
        key: str | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        enqueued_by: str = "system",
        on: object | None = None,
        **fields: Any,
    ) -> Receipt:
        call, arguments = self._delivery(url, payload, fields, key, delay, at, priority, enqueued_by, on)
        return await call.aenqueue(**arguments)

    def _delivery(
        self,
        url: str,
        payload: Any,
        fields: Mapping[str, Any],
        key: str | None,
        delay: Duration | None,
        at: datetime | None,
        priority: int | None,
        enqueued_by: str,
        on: object | None,
    ) -> tuple[Call[Any], dict[str, Any]]:
        from oncue.application.webhooks import bare_call

        options = {
            "key": key, "delay": delay, "at": at, "priority": priority, "enqueued_by": enqueued_by, "on": on
        }  # fmt: skip
        return bare_call(self.internals.builtin[DELIVER], url, payload, fields, options)

    # --- the nouns: their verbs are loaded by the first use, since every command would wait for all of them -----

    @cached_property
    def jobs(self) -> Jobs:
        from oncue.verbs.jobs import Jobs

        return Jobs(self.internals)

    @cached_property
    def queues(self) -> Queues:
        from oncue.verbs.queues import Queues

        return Queues(self.internals)

    @cached_property
    def schedules(self) -> Schedules:
        from oncue.verbs.schedules import Schedules

        return Schedules(self.internals)

    @cached_property
    def webhooks(self) -> Webhooks:
        from oncue.verbs.webhooks import Webhooks

        return Webhooks(self.internals)

    @cached_property
    def windows(self) -> Windows:
        from oncue.verbs.windows import Windows

        return Windows(self.internals)

    @cached_property
    def cluster(self) -> Cluster:
        from oncue.verbs.cluster import Cluster

        return Cluster(self.internals)

    @cached_property
    def alerts(self) -> Alerts:
        from oncue.verbs.alerts import Alerts

        return Alerts(self.internals)

    @cached_property
    def nodes(self) -> Nodes:
        from oncue.verbs.nodes import Nodes

        return Nodes(self.internals)

    @cached_property
    def tokens(self) -> Tokens:
        from oncue.verbs.tokens import Tokens

        return Tokens(self.internals)

    @cached_property
    def sessions(self) -> Sessions:
        from oncue.verbs.sessions import Sessions

        return Sessions(self.internals)

    @cached_property
    def audit_log(self) -> AuditLog:
        from oncue.verbs.audit_log import AuditLog

        return AuditLog(self.internals)

    async def now(self) -> datetime:
        """The database's time, which all nodes share: hosts may disagree."""
        return (await self.internals.connected()).now()

    # --- what happens -------------------------------------------------------------------------------------------

    def subscribe(self, subscriber: Subscriber, *events: str) -> None:
        """Call `subscriber(event, measurements, metadata)` for these events, or for all that are public.

        They are those of daily windows (`sched.…`) and of the SLO watcher (`slo.…`). It is called where the event
        happens, in the worker's event loop, and must not wait. An exception of its is logged and disturbs nothing.
        """
        for event in events:
            if event not in PUBLIC_EVENTS:
                raise ValueError(f"event: expected one of {', '.join(PUBLIC_EVENTS)}, not {event!r}")
        self.internals.telemetry.subscribe(subscriber, *(events or PUBLIC_EVENTS))

    # --- from plain code, and at the end ------------------------------------------------------------------------

    def wait(self, awaitable: Awaitable[T]) -> T:
        """Run any of the asynchronous verbs from plain code."""
        return self.internals.wait(awaitable)

    async def aclose(self) -> None:
        """Close the store of the running event loop."""
        await self.internals.connector.aclose()

    def close(self) -> None:
        """Close what plain code has opened."""
        self.internals.connector.close()

    # --- answering ----------------------------------------------------------------------------------------------

    def asgi(self, *, require_token: bool = True, on_loopback: bool = False) -> ASGIApp:
        """The dashboard and the admin API, to be mounted in any ASGI application, or served by any ASGI server.

        Everything but `/health` needs a token (`oncue token create`). An application that lets in only whom it knows
        says `require_token=False`. One whose server listens on a loopback address alone may say `on_loopback=True`:
        then it is open to this machine until somebody makes a token, as `oncue serve` is.
        """
        from oncue.server.mounting import mountable

        return mountable(self, require_token=require_token, on_loopback=on_loopback)

    # --- working ------------------------------------------------------------------------------------------------

    def worker(self, *, address: str | None = None) -> AbstractAsyncContextManager[WorkerNode]:
        """A worker that runs this application's jobs inside the `async with` block, and drains when it ends."""
        from oncue.application.worker import working

        return working(self.internals, address)


def _caller() -> str | None:
    """The module whose code declares a task. A child process imports it to find a process task again."""
    frame = sys._getframe(2)
    name: str | None = frame.f_globals.get("__name__")
    return name
