"""Oncue: declares tasks, enqueues, and puts a worker together. The one place where everything meets."""

from __future__ import annotations

import asyncio
import logging
import os
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from oncue import __version__, identity, store
from oncue.clock import DatabaseClock
from oncue.engine.heart import Heart
from oncue.engine.node import WorkerNode, WorkerProcess, handlers_executor
from oncue.engine.timekeeper import Timekeeper
from oncue.errors import InvalidJob, StoreUnavailable, UnknownTask
from oncue.model import DEFAULT_QUEUE, Batch, Delivery, Node, Receipt
from oncue.operations import Operations
from oncue.policy.durations import Duration
from oncue.policy.lifecycle import entry_state
from oncue.policy.retry import Policy
from oncue.portal import Portal
from oncue.settings import Settings, load
from oncue.store.contract import Store
from oncue.task import UNSET, Call, RetryRule, Task, _Unset
from oncue.telemetry import Telemetry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

CLOCK_REFRESH_SECONDS = 30.0
ENQUEUE_PATIENCE_SECONDS = 5.0
LARGEST_BLOCK = 512
FURTHEST = timedelta(days=36525)

_log = logging.getLogger("oncue")


class Connection:
    """A store that is open in one event loop, and the database's clock."""

    def __init__(self, store: Store, clock: DatabaseClock) -> None:
        self.store = store
        self.clock = clock
        self._learned = float("-inf")
        self._spare_ids: list[int] = []
        self._block = 1

    def now(self) -> datetime:
        return self.clock.now()

    async def fresh(self) -> None:
        """Learn the database's time again, now and then."""
        if self.clock.monotonic() - self._learned > CLOCK_REFRESH_SECONDS:
            sent = self.clock.sent()
            self.clock.learn(await self.store.time(), sent)
            self._learned = self.clock.monotonic()

    async def ids(self, count: int) -> list[int]:
        """Numbers for new jobs. Whoever needs many fetches them in ever larger blocks, ahead of need."""
        while len(self._spare_ids) < count:
            missing = count - len(self._spare_ids)
            self._spare_ids += await self.store.reserve(max(missing, self._block))
            self._block = min(self._block * 2, LARGEST_BLOCK)
        taken = self._spare_ids[:count]
        del self._spare_ids[:count]
        return taken


class Oncue(Operations):
    """An application: its tasks, and the database that its jobs live in.

    Without arguments the database is DATABASE_URL, or ./oncue.db. Nothing is opened until it is needed.
    """

    def __init__(
        self, database_url: str | None = None, *, settings: Settings | None = None, dice: Random | None = None
    ) -> None:
        self._flags = {"database_url": database_url}
        self._settings = settings
        self.tasks: dict[str, Task[Any, Any]] = {}
        self.telemetry = Telemetry()
        self._dice = dice or Random()
        self._portal = Portal()
        self._options: dict[str, tuple[str, float | None]] = {}
        self._connections: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Connection] = (
            weakref.WeakKeyDictionary()
        )
        self._opening: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = weakref.WeakKeyDictionary()
        self._pid = os.getpid()

    @property
    def settings(self) -> Settings:
        if self._settings is None:
            self._settings = load(self._flags)
        return self._settings

    def configure(self, settings: Settings) -> None:
        """Use these settings; before anything is opened."""
        self._settings = settings

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
        delivery: Delivery = "at_least_once",
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(self, *function: Callable[..., Any], **options: Any) -> Any:
        """Declare a function, plain or `async`, as a task."""

        def declare(function: Callable[..., Any]) -> Task[Any, Any]:
            task: Task[Any, Any] = Task(self, function, **options)
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
            known = ", ".join(sorted(self.tasks)) or "none"
            raise UnknownTask(f"no task {name!r} is declared; declared are: {known}") from None

    # --- enqueueing ---------------------------------------------------------------------------------------------

    def wait(self, awaitable: Awaitable[T]) -> T:
        """Run any of the asynchronous verbs from plain code."""
        return self._portal.wait(awaitable)

    async def write(self, call: Call[Any], rows: Sequence[tuple[tuple[Any, ...], Mapping[str, Any]]]) -> list[Receipt]:
        """Write jobs for these arguments, all or none."""
        if not rows:
            return []
        limit = self.settings.max_args_bytes
        args = [call.task.dump(positional, named, limit) for positional, named in rows]
        keys = None if call.key is None else [call.key_of(*row) for row in rows]
        connection = await self.connected()
        batch = self._batch(call, await connection.ids(len(args)), args, keys, connection.now())
        receipts = await self._written(connection, batch)
        created = sum(receipt.created for receipt in receipts)
        self.telemetry.emit(
            "enqueue", {"jobs": created, "duplicates": len(receipts) - created},
            task=batch.task, queue=batch.queue, batch=batch, receipts=receipts,
        )  # fmt: skip
        return receipts

    def _batch(self, call: Call[Any], ids: list[int], args: list[str], keys: list[Any] | None, now: datetime) -> Batch:
        options, max_runtime = self._resolved(call.task)
        if call.at is not None and call.at - now > FURTHEST:
            raise InvalidJob("at", "expected an instant within the next hundred years")
        visible_at = max(call.at or now + timedelta(seconds=call.delay or 0.0), now)
        return Batch(
            task=call.task.name,
            queue=call.queue,
            priority=call.priority,
            state=entry_state(visible_at, now),
            options=options,
            max_retries=call.max_retries,
            max_runtime=max_runtime,
            created_at=now,
            visible_at=visible_at,
            deadline_at=None if call.deadline is None else now + timedelta(seconds=call.deadline),
            enqueued_by=call.enqueued_by,
            retry_of=None,
            ids=ids,
            args=args,
            keys=keys,
        )

    def _resolved(self, task: Task[Any, Any]) -> tuple[str, float | None]:
        if task.name not in self._options:
            options = task.options(self.settings.max_runtime)
            self._options[task.name] = (options.stored(), options.max_runtime)
        return self._options[task.name]

    async def _written(self, connection: Connection, batch: Batch) -> list[Receipt]:
        """Write a batch. When the reply is lost nobody knows: ask again under the same ids, which writes it once."""
        give_up = connection.clock.monotonic() + ENQUEUE_PATIENCE_SECONDS
        in_doubt = False
        while True:
            try:
                return await connection.store.enqueue([batch], in_doubt=in_doubt)
            except StoreUnavailable as error:
                if connection.clock.monotonic() > give_up:
                    raise StoreUnavailable(
                        f"{error}; it is unknown whether the {len(batch.ids)} jobs of {batch.task} were written "
                        f"(id {batch.ids[0]}{' …' if len(batch.ids) > 1 else ''})"
                    ) from error
                in_doubt = True
                await asyncio.sleep(0.2)

    # --- connecting ---------------------------------------------------------------------------------------------

    async def connected(self) -> Connection:
        """The store of the running event loop, opened on first use."""
        if self._pid != os.getpid():  # a forked child must not touch its parent's sockets, nor repeat its dice
            self._dice = Random()
            self._connections, self._opening, self._pid = (
                weakref.WeakKeyDictionary(),
                weakref.WeakKeyDictionary(),
                os.getpid(),
            )
        loop = asyncio.get_running_loop()
        connection = self._connections.get(loop)
        if connection is None:
            async with self._opening.setdefault(loop, asyncio.Lock()):
                connection = self._connections.get(loop)
                if connection is None:
                    opened = self.make_store()
                    await opened.open()
                    connection = self._connections[loop] = Connection(opened, DatabaseClock())
        await connection.fresh()
        return connection

    def make_store(self, *, size: int | None = None) -> Store:
        """A store on this application's database, not opened yet."""
        settings = self.settings
        return store.connect(
            settings.database_url,
            size=size or settings.pg_connections,
            prepare=settings.pg_prepare,
            listen=settings.pg_listen,
        )

    async def aclose(self) -> None:
        """Close the store of the running event loop."""
        connection = self._connections.pop(asyncio.get_running_loop(), None)
        if connection is not None:
            await connection.store.close()

    def close(self) -> None:
        """Close what plain code has opened."""
        if self._pid == os.getpid():
            self._portal.wait(self.aclose())
            self._portal.stop()

    # --- working ------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def worker(self, *, address: str | None = None) -> AsyncIterator[WorkerNode]:
        """A worker that runs this application's jobs inside the `async with` block, and drains when it ends."""
        settings, pace, clock = self.settings, self.settings.pace, DatabaseClock()
        loop = asyncio.get_running_loop()
        main, beats = self.make_store(), self.make_store(size=2)

        def lapsed(why: str) -> None:
            loop.call_soon_threadsafe(node.abandon, why)

        await main.open()
        clock.learn(await main.time(), clock.sent())
        node = WorkerNode(
            main, beats, self._new_node(clock.now(), address), clock, self._dice, self.telemetry, pace,
            handlers_executor(self.tasks, clock, self.telemetry, settings.concurrency, settings.limits),
            lapsed=lapsed,
        )  # fmt: skip
        heart = Heart(beats, [Timekeeper(beats, clock), node.membership], clock, self.telemetry, node.membership.leave)
        process = WorkerProcess(node, main, clock, self.telemetry, pace)
        await heart.start()
        await process.start()
        _log.info("node %s is working on %s", node.node.name, ", ".join(node.node.queues))
        try:
            yield node
            await process.drain(pace.drain)
        finally:
            await process.abort()
            await heart.stop()
            await main.close()

    def _new_node(self, now: datetime, address: str | None) -> Node:
        settings = self.settings
        return Node(
            id=identity.new_node_id(self._dice),
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
        )
