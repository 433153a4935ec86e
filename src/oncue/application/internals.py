"""The inner parts of an application: what the verbs, the engine, the server, the shell and the test kit need of it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from oncue import store
from oncue.application.builtin import PREFIX
from oncue.application.connecting import Connection, Connector, DatabaseConnector
from oncue.application.enqueueing import Enqueueing
from oncue.application.lifespans import Lifespans
from oncue.application.naming import Place
from oncue.application.portal import AtOnce, NeedsItsLoop, at_once
from oncue.errors import UnknownTask
from oncue.model import CLUSTER_ADDRESS, NODE_ADDRESS, Node
from oncue.policy.checks import checked_name
from oncue.policy.ownership import ApplicationName
from oncue.settings import Settings, load
from oncue.store.contract import Store
from oncue.task import Task
from oncue.telemetry import Telemetry

if TYPE_CHECKING:
    from oncue.application.clustering import Clustering
    from oncue.application.webhooks import DeclaredWebhook
    from oncue.engine.node import WorkerNode
    from oncue.policy.aging import Rules
    from oncue.verbs.subjects import SubjectTables
    from oncue.webhooks.delivery import Deliveries
    from oncue.webhooks.transport import Transport

T = TypeVar("T")

NO_TASKS = "This process knows no tasks: start it with --app module:app, and declare tasks there"


class Internals:
    """Not for users, and it may change at any time: `Oncue` has the names that they may rely on."""

    def __init__(
        self,
        declared: Mapping[str, str | None],
        place: Place,
        settings: Settings | None,
        dice: Random | None,
        builtin: Callable[[], Mapping[str, Task[Any, Any]]] = dict,
    ) -> None:
        if (name := declared["name"]) is not None:
            checked_name(name, "name")
        self._place = place
        self.tasks: dict[str, Task[Any, Any]] = {}
        """What the application declares."""
        self.webhooks: dict[str, DeclaredWebhook] = {}
        """The webhooks that it declares."""
        self._builtin = builtin
        self.lifespans = Lifespans()
        self.telemetry = Telemetry()
        self.enqueueing = Enqueueing(self)
        self.working: list[WorkerNode] = []
        """The nodes that work in this process."""
        self.connector: Connector = DatabaseConnector(self.make_store)
        self._transport: Transport | None = None
        self._declared = declared
        self._settings = settings
        if settings is not None and any(value is not None for value in declared.values()):
            self._settings = settings.overridden({}, code=declared)
        self._dice, self._dice_pid = dice or Random(), os.getpid()
        self._options: dict[str, tuple[str, float | None]] = {}

    # --- settings -----------------------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        if self._settings is None:
            self._settings = load(code=self._declared)
        return self._settings

    def configure(self, settings: Settings) -> None:
        self._settings = settings

    def override(self, flags: Mapping[str, Any]) -> Settings:
        if self._settings is None:
            self._settings = load(flags, code=self._declared)
        else:
            self._settings = self._settings.overridden(flags)
        return self._settings

    @property
    def identity(self) -> ApplicationName:
        """How the application is known in its tables."""
        given = self.settings.name
        return ApplicationName(given or self._place.name, given is not None, *self._place)

    @property
    def name(self) -> str:
        return self.identity.name

    @property
    def aging(self) -> Rules:
        return self.settings.aging

    # --- tasks --------------------------------------------------------------------------------------------------

    def declare(self, task: Task[Any, Any]) -> None:
        if task.name.startswith(PREFIX):
            raise ValueError(f"name: expected one that does not begin with {PREFIX}, as oncue's own do: {task.name!r}")
        if task.name in self.tasks or task.name in self.handlers:
            raise ValueError(f"name: a task {task.name!r} is declared already; give one of them another name=")
        if task.schedule is not None and task.name in self._scheduled_webhooks():
            raise ValueError(f"name: a webhook {task.name!r} has a schedule of that name; give one another name")
        self.tasks[task.name] = self.handlers[task.name] = task
        if (part := getattr(task, "part", None)) is not None:
            self._declare_part(part)

    def _declare_part(self, part: Task[Any, Any]) -> None:
        if part.name in self.tasks:
            raise ValueError(f"name: a task {part.name!r} is declared already; give one of them another name=")
        self.handlers[part.name] = part

    @cached_property
    def clustering(self) -> Clustering:
        from oncue.application.clustering import Clustering

        return Clustering(self)

    @property
    def has_cluster_tasks(self) -> bool:
        return any(task.address == CLUSTER_ADDRESS for task in self.tasks.values())

    def working_node(self) -> Node:
        """The node that runs the job which asks, under the name that it goes by."""
        from oncue.engine.context import current  # a command that runs no jobs does without

        address = current.get().claim.address or ""
        names = {node.naming.shown: node for node in self.working}
        found = names.get(address.removeprefix(NODE_ADDRESS)) or next(
            (node for node in self.working if node.leadership.epoch is not None or len(self.working) == 1), None
        )
        if found is None:
            raise LookupError("no node of this process runs this job")
        return replace(found.node, name=found.naming.shown)

    def declare_webhook(self, webhook: DeclaredWebhook) -> None:
        if webhook.name in self.webhooks:
            raise ValueError(f"name: a webhook {webhook.name!r} is declared already")
        task = self.tasks.get(webhook.name)
        if webhook.schedule is not None and task is not None and task.schedule is not None:
            raise ValueError(f"name: the task {webhook.name!r} has a schedule of that name; give one another name")
        self.webhooks[webhook.name] = webhook

    def _scheduled_webhooks(self) -> list[str]:
        return [name for name, webhook in self.webhooks.items() if webhook.schedule is not None]

    @property
    def scheduled(self) -> list[str]:
        """The names of the schedules that the code declares."""
        return [*(name for name, task in self.tasks.items() if task.schedule is not None), *self._scheduled_webhooks()]

    @cached_property
    def builtin(self) -> Mapping[str, Task[Any, Any]]:
        """What oncue brings itself."""
        return self._builtin()

    @cached_property
    def handlers(self) -> dict[str, Task[Any, Any]]:
        """All that a worker runs: the application's tasks, those that it declares later too, and oncue's own."""
        return {**self.builtin, **self.tasks}

    def find(self, name: str) -> Task[Any, Any]:
        """A task by its name. Raises UnknownTask."""
        try:
            return self.builtin[name] if name.startswith(PREFIX) else self.tasks[name]
        except KeyError:
            known = f"; declared are: {', '.join(sorted(self.tasks))}" if self.tasks else f". {NO_TASKS}"
            raise UnknownTask(f"no task {name!r} is declared{known}") from None

    def carried(self, task: Task[Any, Any]) -> dict[str, Any]:
        """What a task's own options say of every job that a schedule makes for it."""
        options, max_runtime = self.resolved(task)
        return {"options": options, "max_runtime": max_runtime, "max_args": self.settings.max_args_bytes}

    def resolved(self, task: Task[Any, Any]) -> tuple[str, float | None]:
        """The options that every job of a task carries, as they are stored, and its maximum runtime."""
        if task.name not in self._options:
            options = task.options(self.settings.max_runtime)
            self._options[task.name] = (options.stored(), options.max_runtime)
        return self._options[task.name]

    # --- deliveries ---------------------------------------------------------------------------------------------

    @cached_property
    def deliveries(self) -> Deliveries:
        from oncue.webhooks.delivery import Deliveries

        return Deliveries(
            self.connected, self.make_transport, os.environ, self.telemetry,
            lambda: self.settings.webhooks_breaker, lambda: self.settings.webhooks_per_endpoint,
        )  # fmt: skip

    def make_transport(self) -> Transport:
        """The way out for deliveries. The simulator and the test kit have others."""
        if self._transport is not None:
            return self._transport
        from oncue.webhooks.aiohttp_transport import AiohttpTransport
        from oncue.webhooks.egress import Allowed

        directory = self.settings.webhooks_tls_dir
        return AiohttpTransport(
            Allowed.parse(self.settings.webhooks_allow), None if directory is None else Path(directory)
        )

    @contextmanager
    def delivering_through(self, transport: Transport) -> Iterator[None]:
        """Send deliveries another way inside the `with` block: the test kit's. Nothing is known of any endpoint yet."""
        usual, other = self.__dict__.pop("deliveries", None), self._transport
        self._transport = transport
        try:
            yield
        finally:
            self._transport = other
            self.__dict__.pop("deliveries", None)
            if usual is not None:
                self.__dict__["deliveries"] = usual

    @asynccontextmanager
    async def delivering(self) -> AsyncIterator[None]:
        """What deliveries open inside the `async with` block is closed at its end."""
        try:
            yield
        finally:
            if "deliveries" in self.__dict__:
                await self.deliveries.close()

    # --- connecting ---------------------------------------------------------------------------------------------

    async def connected(self) -> Connection:
        """The store of the running event loop, opened on first use."""
        return await self.connector.connected()

    def wait(self, awaitable: Awaitable[T]) -> T:
        """Run an asynchronous verb from plain code."""
        if isinstance(awaitable, NeedsItsLoop):
            awaitable.close()
            raise awaitable.refusal
        return at_once(awaitable) if isinstance(awaitable, AtOnce) else self.connector.wait(awaitable)

    async def subjects_on(self, on: object) -> SubjectTables:
        """The subjects of windows, as the transaction of this connection sees and writes them."""
        return await self.enqueueing.subjects_on(on)

    @contextmanager
    def connecting_through(self, connector: Connector) -> Iterator[None]:
        """Go another way to the database inside the `with` block: the test kit's."""
        usual, self.connector = self.connector, connector
        try:
            yield
        finally:
            self.connector = usual

    def make_store(self, *, size: int | None = None, patience: float | None = None) -> Store:
        """A store on this application's database, not opened yet."""
        settings = self.settings
        return store.connect(
            settings.database_url,
            schema=settings.schema,
            size=size or settings.pg_connections,
            prepare=settings.pg_prepare,
            listen=settings.pg_listen,
            patience=patience,
        )

    async def check_owner(self) -> None:
        """Raise WrongApplication if this application has a name, and the tables belong to one of another name."""
        await self.enqueueing.check_owner()

    async def pause_before_retry(self, seconds: float) -> None:
        """Wait before the database is asked again."""
        await self.connector.pause(seconds)

    # --- chance -------------------------------------------------------------------------------------------------

    @property
    def dice(self) -> Random:
        """A forked child must not repeat its parent's throws."""
        if self._dice_pid != os.getpid():
            self._dice, self._dice_pid = Random(), os.getpid()
        return self._dice
