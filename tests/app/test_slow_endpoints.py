"""Endpoints that hang: deliveries to them wait aside, and the others have the seats."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections import Counter

import pytest
from aiohttp import ClientConnectorError
from aiohttp.client_reqrep import ConnectionKey

from oncue import Job, Oncue
from oncue.errors import Postpone
from oncue.webhooks import slow_endpoints
from oncue.webhooks.aiohttp_transport import _not_sent
from oncue.webhooks.slow_endpoints import SlowEndpoints
from oncue.webhooks.transport import NotSent, Request, Response
from tests.app.conftest import MakeApp
from tests.app.watching import Watcher

pytestmark = pytest.mark.contract("HOOK-5")

SEATS, HANGING, EACH = 2, 7, 10


class Endpoints:
    """Those whose host begins with `dead` take requests and answer none until they are `released`."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.open: Counter[str] = Counter()
        self.most = 0
        self.changed = asyncio.Event()

    async def send(self, request: Request) -> Response:
        if request.url.startswith("https://dead"):
            await self._hang(request.url)
        return Response(200, {}, "", False, 0.01, "198.51.100.7", 0)

    async def _hang(self, url: str) -> None:
        self.open[url] += 1
        self.most = max(self.most, self.open.total())
        self.changed.set()
        try:
            await self.released.wait()
        finally:
            self.open[url] -= 1
        raise NotSent("timeout", "no response")

    async def close(self) -> None: ...

    async def hang(self, count: int) -> None:
        """Wait until so many requests hang."""
        async with asyncio.timeout(60):
            while self.open.total() < count:
                self.changed.clear()
                await self.changed.wait()


@pytest.fixture
def app(make_app: MakeApp, database_url: str) -> Oncue:
    return make_app(database_url, concurrency=SEATS, queues="default,webhooks", webhooks_breaker=0)


async def deliver(app: Oncue, url: str, count: int) -> list[int]:
    return [(await app.adeliver(url, {})).id for _ in range(count)]


async def test_endpoints_that_hang_keep_no_seat_from_others(app: Oncue) -> None:
    """Before, two deliveries that hang took both seats until their time-out."""
    endpoints, watcher = Endpoints(), Watcher(app)
    for number in range(HANGING):
        await deliver(app, f"https://dead{number}.example/", EACH)
    with app.internals.delivering_through(endpoints):
        async with app.worker():
            await endpoints.hang(HANGING * EACH)
            healthy = await watcher.ended(await deliver(app, "https://healthy.example/", 3))
            assert {job.state for job in healthy} == {"succeeded"}
            endpoints.released.set()


@pytest.fixture
def crowded(app: Oncue, monkeypatch: pytest.MonkeyPatch) -> Oncue:
    """Room for eight aside; what is held back gives up at once."""
    monkeypatch.setattr(slow_endpoints, "HELD_SECONDS", 0.0)
    monkeypatch.setattr(slow_endpoints, "_room", lambda: 8)
    return app


async def test_what_finds_no_room_is_postponed_uncharged(crowded: Oncue, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "oncue.webhooks")
    endpoints, watcher = Endpoints(), Watcher(crowded)
    ids = await deliver(crowded, "https://dead.example/", 2 * EACH)
    with crowded.internals.delivering_through(endpoints):
        async with crowded.worker():
            jobs = await postponed(crowded, ids)
            assert {(job.attempt, job.retry_count) for job in jobs} == {(0, 0)}
            healthy = await watcher.ended(await deliver(crowded, "https://healthy.example/", 3))
            assert {job.state for job in healthy} == {"succeeded"}
            endpoints.released.set()
    assert endpoints.most <= 6, "half of the room, and what still had a seat when the endpoint turned slow"
    assert any("further ones to them are held back" in line for line in caplog.messages)


class FullHost(Endpoints):
    """A host without a free file: no connection is made, whatever the endpoint."""

    async def send(self, request: Request) -> Response:
        raise _not_sent("https://healthy.example", OSError(errno.EMFILE, "Too many open files"), 30.0)


async def test_a_host_without_free_files_charges_no_delivery_and_trips_no_breaker(
    make_app: MakeApp, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Connections that hang had taken the files: deliveries to healthy endpoints lost retries, and their breakers
    opened."""
    caplog.set_level(logging.WARNING, "oncue.webhooks")
    app = make_app(database_url, concurrency=SEATS, queues="default,webhooks", webhooks_breaker=1)
    ids = await deliver(app, "https://healthy.example/", EACH)
    with app.internals.delivering_through(FullHost()):
        async with app.worker():
            watch = asyncio.Event()
            app.internals.telemetry.subscribe(lambda *_: watch.set(), "settle")
            async with asyncio.timeout(60):
                while len(jobs := await postponed(app, ids)) < EACH:
                    watch.clear()
                    await watch.wait()
    assert {(job.attempt, job.retry_count) for job in jobs} == {(0, 0)}
    connected = await app.internals.connected()
    assert await connected.store.groups.held_back(connected.now(), 10) == []
    (line,) = caplog.messages
    assert "no room for another connection (https://healthy.example: Too many open files)" in line


@pytest.mark.parametrize(
    ("number", "is_ours"), [(errno.EMFILE, True), (errno.ENFILE, True), (errno.ECONNREFUSED, False)]
)
def test_what_is_this_hosts_own_lack(number: int, is_ours: bool) -> None:
    refused = ClientConnectorError(ConnectionKey("x", 443, True, True, None, None, None), OSError(number, "x"))
    assert _not_sent("https://x", refused, 30.0).is_ours is is_ours
    assert _not_sent("https://x", OSError(number, "x"), 30.0).is_ours is is_ours


async def postponed(app: Oncue, ids: list[int]) -> list[Job]:
    """Those that wait for their time again, once there are some."""
    seen = asyncio.Event()
    app.internals.telemetry.subscribe(lambda *_: seen.set(), "settle")
    async with asyncio.timeout(60):
        while True:
            jobs = [await app.jobs.get(job_id) for job_id in ids]
            if found := [job for job in jobs if job.state == "scheduled"]:
                return found
            seen.clear()
            await seen.wait()


class Attempt:
    """As much of an attempt as this needs."""

    def __init__(self) -> None:
        self.left = asyncio.Event()

    def leave_seat(self) -> None:
        self.left.set()


async def test_an_endpoint_is_slow_until_it_answers_soon() -> None:
    slow, hanging, quick = SlowEndpoints(room=8), Attempt(), Attempt()
    slow.sends(hanging, "shop")  # type: ignore[arg-type]
    await asyncio.wait_for(hanging.left.wait(), 60)
    assert (list(slow.names), slow.aside) == (["shop"], 1)
    await slow.admit(quick, "shop")  # type: ignore[arg-type]
    assert quick.left.is_set(), "from the start"
    slow.sends(quick, "shop")  # type: ignore[arg-type]
    slow.answered(quick)  # type: ignore[arg-type]
    assert not slow.names
    for attempt in (quick, hanging):
        slow.ended(attempt)  # type: ignore[arg-type]
    assert slow.aside == 0
    slow.close()


async def test_an_answer_that_comes_late_leaves_its_endpoint_slow() -> None:
    slow, late = SlowEndpoints(room=8), Attempt()
    slow.sends(late, "shop")  # type: ignore[arg-type]
    await asyncio.wait_for(late.left.wait(), 60)
    slow.answered(late)  # type: ignore[arg-type]
    slow.ended(late)  # type: ignore[arg-type]
    assert (list(slow.names), slow.aside) == (["shop"], 0)
    slow.close()


async def test_what_is_known_to_be_slow_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_endpoints, "MOST_SLOW", 2)
    slow, hanging = SlowEndpoints(room=8), {name: Attempt() for name in ("first", "second", "third")}
    for name, attempt in hanging.items():
        slow.sends(attempt, name)  # type: ignore[arg-type]
    for attempt in hanging.values():
        await asyncio.wait_for(attempt.left.wait(), 60)
    assert list(slow.names) == ["second", "third"]
    slow.close()


async def test_what_is_held_back_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_endpoints, "MOST_ASIDE", 1)
    monkeypatch.setattr(slow_endpoints, "HELD_SECONDS", 3600.0)
    slow = SlowEndpoints(room=2)
    await slow.admit(Attempt(), "shop")  # type: ignore[arg-type]
    waiting = Attempt()
    held = asyncio.ensure_future(slow.admit(waiting, "shop"))  # type: ignore[arg-type]
    await asyncio.wait_for(waiting.left.wait(), 60)
    with pytest.raises(Postpone, match="shop is slow"):
        await asyncio.wait_for(slow.admit(Attempt(), "shop"), 60)  # type: ignore[arg-type]
    assert (slow.aside, held.done()) == (1, False)
    held.cancel()
    await asyncio.wait([held])
    slow.close()
