"""Oncue: declares tasks, enqueues, and puts a worker together. The one place where everything meets."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload

from oncue import __version__, identity, logs, store
from oncue.checks import checked_name
from oncue.clock import Clock, DatabaseClock
from oncue.connecting import Connection, Connector, DatabaseConnector
from oncue.enqueueing import Enqueueing
from oncue.errors import UnknownTask
from oncue.model import DEFAULT_QUEUE, Delivery, Missed, Node
from oncue.settings import Settings, load
from oncue.store.callers import Callers
from oncue.store.contract import Store
from oncue.task import UNSET, RetryRule, Task, _Unset
from oncue.telemetry import Telemetry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import ASGIApp

    from oncue.engine.node import WorkerNode
    from oncue.engine.starting import Patience
    from oncue.policy.aging import Rules
    from oncue.policy.durations import Duration
    from oncue.policy.retry import Policy
    from oncue.policy.triggers import Rule
    from oncue.verbs.audit_log import AuditLog
    from oncue.verbs.jobs import Jobs
    from oncue.verbs.nodes import Nodes
    from oncue.verbs.queues import Queues
    from oncue.verbs.schedules import Schedules
    from oncue.verbs.tokens import Tokens

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

NO_TASKS = ", nor any other: this process was started without an application (--app), or that declares none"

_log = logging.getLogger("oncue")


class Oncue(Enqueueing):
    """An application: its tasks and schedules, and the database that its jobs live in.

    Without arguments the database is DATABASE_URL, or ./oncue.db. Nothing is opened until it is needed. Two
    applications that share a database need different names: the schedules that one of them declares are disabled when
    its code declares them no more.
    """

    def __init__(
        self,
        database_url: str | None = None,
        *,
        name: str = "app",
        settings: Settings | None = None,
        dice: Random | None = None,
    ) -> None:
        self.name = checked_name(name, "name")
        self._declared = {"database_url": database_url}
        self._settings = settings
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.telemetry = Telemetry()
        self._dice, self._dice_pid = dice or Random(), os.getpid()
        self._options: dict[str, tuple[str, float | None]] = {}
        self._callers = Callers()
        self._connector: Connector = DatabaseConnector(self.make_store)

    @property
    def settings(self) -> Settings:
        if self._settings is None:
            self._settings = load(code=self._declared)
        return self._settings

    def configure(self, settings: Settings) -> None:
        """Use these settings; before anything is opened."""
        self._settings = settings

    def override(self, flags: Mapping[str, Any]) -> Settings:
        """Take over what a command line says: it wins over code. Flags that are None were not given."""
        if self._settings is None:
            self._settings = load(flags, code=self._declared)
        else:
            self._settings = self._settings.overridden(flags)
        return self._settings

    @property
    def aging(self) -> Rules:
        return self.settings.aging

    # --- declaring ----------------------------------------------------------------------------------------------

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self,
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
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
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(self, *function: Callable[..., Any], **options: Any) -> Any:
        """Declare a function, plain or `async`, as a task."""

        def declare(function: Callable[..., Any]) -> Task[Any, Any]:
            task: Task[Any, Any] = Task(self, function, declared_in=_caller(), **options)
            if task.name in self.tasks:
                raise ValueError(f"name: a task {task.name!r} is declared already; give one of them another name=")
            self.tasks[task.name] = task
            return task

        return declare(*function) if function else declare

    def find(self, name: str) -> Task[Any, Any]:
        """A declared task by its name. Raises UnknownTask."""
        try:
            return self.tasks[name]
        except KeyError:
            known = f"; declared are: {', '.join(sorted(self.tasks))}" if self.tasks else NO_TASKS
            raise UnknownTask(f"no task {name!r} is declared{known}") from None

    # --- the nouns: their verbs are loaded by the first use, since every command would wait for all of them -----

    @cached_property
    def jobs(self) -> Jobs:
        from oncue.verbs.jobs import Jobs

        return Jobs(self)

    @cached_property
    def queues(self) -> Queues:
        from oncue.verbs.queues import Queues

        return Queues(self)

    @cached_property
    def schedules(self) -> Schedules:
        from oncue.verbs.schedules import Schedules

        return Schedules(self)

    @cached_property
    def nodes(self) -> Nodes:
        from oncue.verbs.nodes import Nodes

        return Nodes(self)

    @cached_property
    def tokens(self) -> Tokens:
        from oncue.verbs.tokens import Tokens

        return Tokens(self)

    @cached_property
    def audit_log(self) -> AuditLog:
        from oncue.verbs.audit_log import AuditLog

        return AuditLog(self)

    # --- enqueueing ---------------------------------------------------------------------------------------------

    def wait(self, awaitable: Awaitable[T]) -> T:
        """Run any of the asynchronous verbs from plain code."""
        return self._connector.wait(awaitable)

    def _own_dice(self) -> Random:
        """A forked child must not repeat its parent's throws."""
        if self._dice_pid != os.getpid():
            self._dice, self._dice_pid = Random(), os.getpid()
        return self._dice

    # --- connecting ---------------------------------------------------------------------------------------------

    async def connected(self) -> Connection:
        """The store of the running event loop, opened on first use."""
        return await self._connector.connected()

    @contextmanager
    def connecting_through(self, connector: Connector) -> Iterator[None]:
        """Go another way to the database inside the `with` block: the test kit's."""
        usual, self._connector = self._connector, connector
        try:
            yield
        finally:
            self._connector = usual

    def make_store(self, *, size: int | None = None, patience: float | None = None) -> Store:
        """A store on this application's database, not opened yet."""
        settings = self.settings
        return store.connect(
            settings.database_url,
            size=size or settings.pg_connections,
            prepare=settings.pg_prepare,
            listen=settings.pg_listen,
            patience=patience,
        )

    async def pause_before_retry(self, seconds: float) -> None:
        """Wait before the database is asked again."""
        await asyncio.sleep(seconds)

    async def aclose(self) -> None:
        """Close the store of the running event loop."""
        await self._connector.aclose()

    def close(self) -> None:
        """Close what plain code has opened."""
        self._connector.close()

    # --- answering ----------------------------------------------------------------------------------------------

    def asgi(self, *, require_token: bool = True, on_loopback: bool = False) -> ASGIApp:
        """The admin API, to be mounted in any ASGI application, or served by any ASGI server.

        Everything but `/health` needs a token (`oncue token create`). An application that lets in only whom it knows
        says `require_token=False`. One whose server listens on a loopback address alone may say `on_loopback=True`:
        then it is open to this machine until somebody makes a token, as `oncue serve` is.
        """
        from oncue.server.mounting import mountable

        return mountable(self, require_token=require_token, on_loopback=on_loopback)

    # --- working ------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def worker(self, *, address: str | None = None) -> AsyncIterator[WorkerNode]:
        """A worker that runs this application's jobs inside the `async with` block, and drains when it ends."""
        if not self._connector.works:
            connection = await self.connected()
            yield self._assembled(connection.store, connection.store, connection.clock, address)
            return
        from oncue.engine.starting import Patience

        # A beat that waits for its answer for too long must not find out only when the lease is over.
        beats = self.make_store(size=2, patience=self.settings.pace.patience)
        clock = DatabaseClock()
        patience = Patience(clock, self.settings.start_timeout)
        main = await patience.take(lambda: self._opened(clock))
        try:
            node = self._assembled(main, beats, clock, address)
            async with self._working(node, main, beats, clock, patience) as node:
                yield node
        finally:
            await main.close()

    async def _opened(self, clock: DatabaseClock) -> Store:
        """A worker's own store, with the database's time learned and the schedules of the code declared."""
        from oncue.verbs.schedules.declaring import Declaring

        store = self.make_store()
        try:
            await store.open()
            sent = clock.sent()
            clock.learn(await store.time(), sent)
            await Declaring(self).synchronise(Connection(store, clock))
        except BaseException:
            await store.close()
            raise
        return store

    @asynccontextmanager
    async def _working(
        self, node: WorkerNode, main: Store, beats: Store, clock: DatabaseClock, patience: Patience
    ) -> AsyncIterator[WorkerNode]:
        from oncue.engine.declarations import Declarations
        from oncue.engine.heartbeat_thread import HeartbeatThread
        from oncue.engine.node import WorkerProcess
        from oncue.engine.timekeeper import Timekeeper
        from oncue.verbs.schedules.declaring import Declaring

        pace = self.settings.pace
        services = [Timekeeper(beats, clock), *node.heartbeat]
        heartbeat = HeartbeatThread(beats, services, clock, self.telemetry, node.farewell, patience)
        node.upkeep.append(
            Declarations(lambda: Declaring(self).disable_undeclared(Connection(main, clock)), interval=2 * pace.lease)
        )
        process = WorkerProcess(node, main, clock, self.telemetry, pace)
        try:
            await heartbeat.start()
            await process.start()
            _log.info("node %s is working on %s", node.node.name, ", ".join(node.node.queues))
            elsewhere = sorted({task.queue for task in self.tasks.values()}.difference(node.node.queues))
            if elsewhere:
                _log.warning(
                    "the application's tasks also use %s, which this worker does not serve", ", ".join(elsewhere)
                )
            try:
                yield node
            except BaseException:
                await process.drain(0.0)  # whatever went wrong out there, what is in hand is given back
                raise
            await process.drain(pace.drain)
        finally:
            await process.abort()
            await heartbeat.stop()

    def _assembled(self, main: Store, beats: Store, clock: Clock, address: str | None) -> WorkerNode:
        from oncue.engine.messages import Setup
        from oncue.engine.node import WorkerNode, handlers_executor

        settings, loop = self.settings, asyncio.get_running_loop()

        def lapsed(why: str) -> None:
            loop.call_soon_threadsafe(node.abandon, why)

        node = WorkerNode(
            main, beats, self._new_node(clock.now(), address), clock, self._own_dice(), self.telemetry, settings.pace,
            handlers_executor(
                self.tasks, clock, self.telemetry, settings.concurrency, settings.limits, settings.processes,
                Setup(settings, logs.chosen()), lambda: node.may_start(),
            ),
            lapsed=lapsed, is_gone=_is_gone, in_processes=[task.name for task in self.tasks.values() if task.process],
        )  # fmt: skip
        return node

    def _new_node(self, now: datetime, address: str | None) -> Node:
        settings = self.settings
        return Node(
            id=identity.new_node_id(self._own_dice()),
            name=settings.node_name or identity.default_name(),
            host=identity.host(),
            pid=os.getpid(),
            boot_id=identity.boot_id(),
            version=__version__,
            queues=settings.queues,
            tasks=tuple(sorted(self.tasks)),
            concurrency=settings.concurrency,
            address=address,
            started_at=now,
            beat_at=now,
            expires_at=now,
            schedules=tuple(sorted(task.name for task in self.tasks.values() if task.schedule is not None)),
            process_start=identity.process_start(),
            exclusive=settings.exclusive,
        )


def _caller() -> str | None:
    """The module whose code declares a task. A child process imports it to find a process task again."""
    frame = sys._getframe(2)
    name: str | None = frame.f_globals.get("__name__")
    return name


def _is_gone(node: Node) -> bool:
    """Whether a node that ran on this host, since this boot, is proved to be dead."""
    here = node.host == identity.host() and node.boot_id != "" and node.boot_id == identity.boot_id()
    return here and identity.is_gone(node.pid, node.process_start)
