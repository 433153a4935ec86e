"""How a worker is put together: its stores, its node with the services, its heartbeat, and the end of all that."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

from oncue import __version__, identity
from oncue.application.alerting import announcer
from oncue.application.connecting import Connection
from oncue.application.internals import Internals
from oncue.application.ownership import check_name, take_tables
from oncue.clock import Clock, DatabaseClock
from oncue.engine.declarations import Declarations
from oncue.engine.heartbeat_thread import HeartbeatThread
from oncue.engine.messages import Setup
from oncue.engine.node import WorkerNode, WorkerProcess, handlers_executor
from oncue.engine.starting import Patience
from oncue.engine.timekeeper import Timekeeper
from oncue.model import CLUSTER_QUEUE, WEBHOOKS_QUEUE, WINDOWS_QUEUE, Node
from oncue.observe import logs, open_telemetry
from oncue.observe.redis_analytics import counting
from oncue.store.contract import Store
from oncue.verbs.schedules.declaring import Declaring

_log = logging.getLogger("oncue")


@asynccontextmanager
async def working(app: Internals, address: str | None) -> AsyncIterator[WorkerNode]:
    """A worker that runs an application's jobs inside the `async with` block, and drains when it ends."""
    if not app.connector.works:
        connection = await app.connected()
        yield _assembled(app, connection.store, connection.store, connection.clock, address)
        return
    # A beat that waits for its answer for too long must not find out only when the lease is over.
    beats = app.make_store(size=2, patience=app.settings.pace.patience)
    clock = DatabaseClock()
    patience = Patience(clock, app.settings.start_timeout)
    main = await patience.take(lambda: _opened(app, clock))
    try:
        node = _assembled(app, main, beats, clock, address)
        async with _working(app, node, main, beats, clock, patience) as node:
            yield node
    finally:
        await main.close()


async def _opened(app: Internals, clock: DatabaseClock) -> Store:
    """A worker's own store, with the database's time learned and the schedules of the code declared.

    Nothing is changed before it is certain that the tables are this application's.
    """
    store = app.make_store()
    check_name(app.identity, store.dialect, production=app.settings.env == "production")
    try:
        await store.open()
        sent = clock.sent()
        clock.learn(await store.time(), sent)
        await take_tables(store, app.identity, clock.now())
        await Declaring(app).synchronise(Connection(store, clock))
    except BaseException:
        await store.close()
        raise
    return store


@asynccontextmanager
async def _working(
    app: Internals, node: WorkerNode, main: Store, beats: Store, clock: DatabaseClock, patience: Patience
) -> AsyncIterator[WorkerNode]:
    pace = app.settings.pace
    services = [Timekeeper(beats, clock), *node.heartbeat]
    heartbeat = HeartbeatThread(beats, services, clock, app.telemetry, node.end_leases, patience)
    node.upkeep.append(
        Declarations(lambda: Declaring(app).disable_undeclared(Connection(main, clock)), interval=2 * pace.lease)
    )
    process = WorkerProcess(node, main, clock, app.telemetry, pace)
    open_telemetry.subscribe(app.telemetry)
    analytics = counting(app.settings.redis_url, app.telemetry, clock)
    async with analytics, app.lifespans.opened(), app.delivering(), _started(process, heartbeat):
        _log.info("node %s is working on %s", node.naming.shown, ", ".join(node.node.queues))
        used = {task.queue for task in app.tasks.values()} | ({WEBHOOKS_QUEUE} if app.webhooks else set())
        elsewhere = sorted(used.difference(node.node.queues))
        if elsewhere:
            _log.warning("the application's tasks also use %s, which this worker does not serve", ", ".join(elsewhere))
        app.working.append(node)
        try:
            yield node
        except BaseException:
            await process.drain(0.0)  # whatever went wrong out there, what is in hand is given back
            raise
        else:
            await process.drain(pace.drain)
        finally:
            app.working.remove(node)


@asynccontextmanager
async def _started(process: WorkerProcess, heartbeat: HeartbeatThread) -> AsyncIterator[None]:
    """The leases are ended before anything else is closed: the other nodes need not wait for that."""
    try:
        await heartbeat.start()
        await process.start()
        yield
    finally:
        await process.abort()
        await heartbeat.stop()


def _assembled(app: Internals, main: Store, beats: Store, clock: Clock, address: str | None) -> WorkerNode:
    settings, loop = app.settings, asyncio.get_running_loop()

    def lapsed(why: str) -> None:
        loop.call_soon_threadsafe(node.abandon, why)

    node = WorkerNode(
        main, beats, new_node(app, clock.now(), address), clock, app.dice, app.telemetry, settings.pace,
        handlers_executor(
            app.handlers, clock, app.telemetry, settings.concurrency, settings.limits, settings.processes,
            Setup(settings, logs.chosen()), lambda: node.may_start(),
        ),
        lapsed=lapsed, is_gone=_is_gone, in_processes=[task.name for task in app.tasks.values() if task.process],
        announce=announcer(app),
    )  # fmt: skip
    return node


def new_node(app: Internals, now: datetime, address: str | None) -> Node:
    settings = app.settings
    return Node(
        id=identity.new_node_id(app.dice),
        name=settings.node_name or identity.default_name(),
        host=identity.host(),
        pid=os.getpid(),
        boot_id=identity.boot_id(),
        version=__version__,
        queues=_queues(app),
        tasks=tuple(sorted(app.handlers)),
        concurrency=settings.concurrency,
        address=settings.advertise_url or address,
        started_at=now,
        beat_at=now,
        expires_at=now,
        schedules=tuple(sorted(app.scheduled)),
        process_start=identity.process_start(),
        exclusive=settings.exclusive,
    )


def _queues(app: Internals) -> tuple[str, ...]:
    """The queues that a worker serves: those of the settings, and that of windows if code declares some and no queues
    were chosen. That of cluster jobs is served by all whose code declares some: any of them may come to lead."""
    settings = app.settings
    queues = settings.queues
    has_windows = any(task.queue == WINDOWS_QUEUE for task in app.tasks.values())
    if settings.origin("queues") == "default" and has_windows:
        queues = (*queues, WINDOWS_QUEUE)
    if app.has_cluster_tasks and CLUSTER_QUEUE not in queues:
        queues = (*queues, CLUSTER_QUEUE)
    return queues


def _is_gone(node: Node) -> bool:
    """Whether a node that ran on this host, since this boot, is proved to be dead."""
    here = node.host == identity.host() and node.boot_id != "" and node.boot_id == identity.boot_id()
    return here and identity.is_gone(node.pid, node.process_start)
