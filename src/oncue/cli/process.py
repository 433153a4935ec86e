"""A worker, a web process or both as a process: its event loop, its signals, its HTTP server, and how it ends.

The order at the end is the contract's: upkeep stops, nothing more is claimed, what runs may finish within the drain
time, the rest is given back, the lease is ended, the HTTP server closes, the process exits with 0. A web process has
only the last two to do.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import gc
import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeAlias

from oncue import identity
from oncue.app import Oncue
from oncue.cli.forking import Forks
from oncue.engine.node import WorkerNode
from oncue.engine.starting import unless
from oncue.errors import OncueError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from starlette.types import ASGIApp

    from oncue.server.api import AccessMode
    from oncue.server.health import Readiness

MakeApi: TypeAlias = "Callable[[Oncue, Readiness, CollectorRegistry, AccessMode], ASGIApp]"
"""What a process answers over HTTP: oncue's own API, or one that a program puts around it."""

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PATIENCE_SECONDS = 1.0
TOGETHER_SECONDS = 0.5
LOOK_SECONDS = 5.0
SWITCH_SECONDS = 0.0005
"""How long a thread waits for the interpreter until it asks for it. SQLite's writer needs it after each statement:
with the 5 ms of Python it would spend more time waiting for the event loop than writing."""
COLLECT_AFTER = 5_000
"""After so many new objects a worker looks for cycles among them; Python's own threshold is 700."""

SHUT = (
    "http: %s can be reached from elsewhere and there is no token yet: everything but /health is refused; "
    "`oncue token create NAME --scope read` makes one"
)

_log = logging.getLogger("oncue.process")


class Stop:
    """Told by the first signal. The second ends the process there and then, even if the event loop is stuck."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._told_at: float | None = None
        self._event = asyncio.Event()
        for number in STOPPING:
            # `nohup` ignores SIGHUP on purpose.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._received)

    async def wait(self) -> None:
        await self._event.wait()

    def _received(self, number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        now = time.monotonic()
        if self._told_at is not None and now - self._told_at < TOGETHER_SECONDS:
            return  # a supervisor and a terminal may both pass on the same wish
        if self._told_at is not None:
            try:
                _write_if_possible(f"oncue: a second signal ({name}): stopping at once\n")
            finally:
                os._exit(128 + number)
        self._told_at = now
        self._loop.call_soon_threadsafe(self._first, name)

    def _first(self, name: str) -> None:
        _log.info("%s: stopping; a second signal stops at once", name)
        self._event.set()


def _write_if_possible(text: str) -> None:
    """Tell the standard error, unless it is closed, or a pipe that is full because its reader stands still."""
    with contextlib.suppress(OSError, ValueError):
        if select.select([], [2], [], 0)[1]:
            os.write(2, text.encode())


def run_worker(
    app: Oncue, listening: socket.socket | None, *, with_api: bool = False, make_api: MakeApi | None = None
) -> None:
    """Work until a signal says stop, and answer over HTTP if there is somewhere to listen."""
    front = None if listening is None else Front(app, listening, with_api=with_api, make_api=make_api)
    _run(_work(app, front), front)


def run_web(app: Oncue, listening: socket.socket) -> None:
    """Answer over HTTP until a signal says stop. Nothing is scheduled and no job is run."""
    front = Front(app, listening, with_api=True)
    _run(_answer(app, front), front)


def switch_threads_often() -> None:
    sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))


def collect_rarely() -> None:
    """What a worker has imported stays for good, and nearly all that a job makes is freed without the collector. With
    Python's own settings that took a seventh of the time of deliveries."""
    if gc.isenabled():
        gc.collect()
        gc.freeze()
        young, *older = gc.get_threshold()
        gc.set_threshold(max(young, COLLECT_AFTER), *older)


def _run(life: Coroutine[Any, Any, None], front: Front | None) -> None:
    switch_threads_often()
    threads = ThreadPoolExecutor(thread_name_prefix="oncue-default")
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.get_loop().set_default_executor(threads)
        Forks(runner.get_loop(), lambda: [] if front is None else front.sockets())
        runner.run(life)
        threads.shutdown(wait=False, cancel_futures=True)
        _leave_stuck_threads()


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _work(app: Oncue, front: Front | None) -> None:
    stop = Stop()
    try:
        async with contextlib.AsyncExitStack() as stack:
            worker = app.worker(address=None if front is None else front.url)
            node = await unless(stop.wait(), stack.enter_async_context(worker))
            if front is not None and node is not None:
                await front.open(node)
            collect_rarely()
            await stop.wait()
            if front is not None:
                front.readiness.draining = True
    finally:
        if front is not None:
            await front.close()
        await app.aclose()
    _log.info("stopped")


async def _answer(app: Oncue, front: Front) -> None:
    """The database may be away, now or later: readiness says so, and its connection is opened when it is asked."""
    stop = Stop()
    try:
        await front.open()
        await stop.wait()
        front.readiness.draining = True
    finally:
        await front.close()
        await app.aclose()
    _log.info("stopped")


class Front:
    """What a process shows over HTTP: health, readiness and metrics, and the API if it is asked to."""

    def __init__(
        self, app: Oncue, listening: socket.socket, *, with_api: bool, make_api: MakeApi | None = None
    ) -> None:
        # Imported only by a process that was asked to answer, and before it works: FastAPI takes half a second.
        from oncue.observe.prometheus import PrometheusMetrics
        from oncue.server import address, api, health, http, sampling, site
        from oncue.server.connections import HttpLimits

        self.url = address.url(listening, identity.host())
        self.readiness = health.Readiness(app)
        self._metrics = PrometheusMetrics(app.internals.telemetry)
        self._metrics.expect((task.name, task.queue) for task in app.tasks.values())
        self._sampler = sampling.Sampler(app, app.internals.telemetry)
        self._buffer = app.settings.buffer
        # Only this machine can reach a loopback address: there requests need no token until the first one is made.
        access = api.AccessMode.LOOPBACK if address.is_loopback(listening) else api.AccessMode.TOKEN
        self._app, self._needs_token = app, access is api.AccessMode.TOKEN
        self._has_dashboard = with_api and make_api is None
        self._looking: asyncio.Task[None] | None = None
        make = make_api or (site.site if with_api else api.process_api)
        limits = HttpLimits(
            head=app.settings.http_header_timeout,
            body=app.settings.http_body_timeout,
            idle=app.settings.http_keep_alive,
            connections=app.settings.http_connections,
        )
        self._answering = make(app, self.readiness, self._metrics.registry, access)
        self._server = http.HttpServer(self._answering, listening, limits)

    async def open(self, node: WorkerNode | None = None) -> None:
        """Begin to answer, for a worker if there is one in this process."""
        if node is not None:
            self.readiness.node = node
            self._metrics.follow(node.executor, self._buffer, node)
        else:
            self._sampler.start()  # a worker looks at the database by itself
        await self._server.start()
        _log.info("http: listening on %s", self.url)
        if self._has_dashboard:
            _log.info("the dashboard is at %s/", (self._app.settings.public_url or self.url).rstrip("/"))
        if self._needs_token:
            self._looking = asyncio.create_task(self._warn_if_shut(), name="oncue-access")

    async def _warn_if_shut(self) -> None:
        """Warn if no token is valid, so that every request is refused. While the database is away this is unknown."""
        with contextlib.suppress(OncueError, TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                if not await (await self._app.internals.connected()).store.tokens.exist():
                    _log.warning(SHUT, self.url)

    def sockets(self) -> list[int]:
        return self._server.sockets()

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await self._sampler.close()
        if (end_streams := getattr(self._answering, "aclose", None)) is not None:
            await end_streams()  # those of open tabs would keep the server waiting
        await self._server.close()


def _leave_stuck_threads() -> None:
    """A thread cannot be stopped, and Python would wait for it for ever: its job is given back, so leave without it."""
    until = time.monotonic() + PATIENCE_SECONDS
    for thread in _others():
        thread.join(max(until - time.monotonic(), 0.0))
    stuck = _others()
    if stuck:
        _log.warning("%d threads do not end and are left behind: %s", len(stuck), ", ".join(t.name for t in stuck))
        with contextlib.suppress(Exception):
            atexit._run_exitfuncs()
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _others() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t is not threading.main_thread() and not t.daemon]
