"""Counts of deliveries in a real Redis; and a Redis that is away, comes back, hangs or refuses changes nothing else."""

from __future__ import annotations

import asyncio
import builtins
import logging
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from oncue.clock import VirtualClock
from oncue.model import DELIVER, Failed, Outcome, Skipped, Snoozed, Succeeded
from oncue.observe import redis_analytics
from oncue.observe.redis_analytics import KEPT_SECONDS, PREFIX, Counts, RedisAnalytics, hour_of
from oncue.policy.lifecycle import Ended, settle
from oncue.telemetry import REPEAT_SECONDS, Telemetry
from tests.app.conftest import make_app
from tests.app.test_webhooks import declared, finished, receiving
from tests.observe.test_prometheus import a_claim
from tests.redis_server import RedisServer
from tests.store.scene import NOW, after

__all__ = ["make_app"]

pytestmark = pytest.mark.contract("HOOK-6")

HOUR = PREFIX + hour_of(NOW)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_analytics, "FLUSH_SECONDS", 0.02)
    monkeypatch.setattr(redis_analytics, "PATIENCE_SECONDS", 0.5)


class Counted:
    """Analytics with what they are fed from."""

    def __init__(self, url: str) -> None:
        self.telemetry, self.clock = Telemetry(), VirtualClock()
        self.analytics = RedisAnalytics(url, self.telemetry, self.clock)

    def ends(self, outcome: Outcome, group: str = "orders", at: datetime = NOW, task: str = DELIVER) -> None:
        claim = a_claim(task=task, group=group)
        change = settle(Ended(claim, outcome, at, at), Random(1))
        self.telemetry.emit("job.stop", {"duration": 0.1}, claim=claim, change=change, outcome=outcome)


async def shown(server: RedisServer, key: str, expected: dict[str, str]) -> None:
    """Wait until this hash is there."""
    found: Any = None
    with server.client() as client:
        for _ in range(500):
            if (found := client.hgetall(key)) == expected:
                return
            await asyncio.sleep(0.02)
    assert found == expected


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "oncue.analytics"]


async def test_deliveries_are_counted_by_endpoint_outcome_and_hour(server: RedisServer) -> None:
    server.start()
    counted = Counted(server.url)
    counted.ends(Succeeded())  # nobody counts yet
    async with counted.analytics.running():
        for outcome in (Succeeded(), Succeeded(), Failed("x"), Failed("x", final=True), Skipped("webhook_disabled")):
            counted.ends(outcome)
        counted.ends(Snoozed(2.0, "the database could not be asked"))
        counted.ends(Succeeded(), task="send")
        await shown(
            server, HOUR, {"orders:delivered": "2", "orders:retry": "1", "orders:failed": "1", "orders:skipped": "1"}
        )
        counted.ends(Succeeded(), "https://api.example:443", after(hours=1))
        counted.ends(Succeeded())
    with server.client() as client:
        assert client.hget(HOUR, "orders:delivered") == "3", "what is left is written at the end"
        assert client.hgetall(PREFIX + hour_of(after(hours=1))) == {"https://api.example:443:delivered": "1"}
        assert KEPT_SECONDS - 60 < client.ttl(HOUR) <= KEPT_SECONDS


async def test_no_redis_at_the_start_is_one_warning_and_counts_are_kept(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    counted = Counted(server.url)
    async with counted.analytics.running():
        for number in range(3):
            counted.ends(Succeeded())
            await asyncio.sleep(0.1 * number)
        (line,) = said(caplog)
        assert line.startswith("analytics: redis error")
        server.start()
        await shown(server, HOUR, {"orders:delivered": "3"})
    assert said(caplog)[1:] == ["analytics: redis answers again, 0 counts were lost"]


async def test_a_redis_that_goes_away_is_told_of_once_and_again_after_a_while(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.start()
    counted = Counted(server.url)
    async with counted.analytics.running():
        counted.ends(Succeeded())
        await shown(server, HOUR, {"orders:delivered": "1"})
        server.stop()
        counted.ends(Succeeded())
        await asyncio.sleep(0.3)
        assert len(said(caplog)) == 1
        counted.clock.advance(timedelta(seconds=REPEAT_SECONDS))
        await asyncio.sleep(0.3)
        assert len(said(caplog)) == 2
        server.start()  # with nothing in it
        await shown(server, HOUR, {"orders:delivered": "1"})


async def test_a_redis_that_hangs_holds_nothing_up(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    server.start()
    counted = Counted(server.url)
    async with counted.analytics.running():
        await asyncio.sleep(0.1)
        server.pause()
        began = time.monotonic()
        for _ in range(10_000):
            counted.ends(Succeeded())
        assert time.monotonic() - began < 2.0, "counting does not wait"
        await asyncio.sleep(0.8)
        began = time.monotonic()
    assert time.monotonic() - began < 2.0, "nor does the end"
    assert len(said(caplog)) == 1


async def test_an_answer_that_is_an_error_is_told_of_too(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    server.start()
    with server.client() as client:
        client.set(HOUR, "no hash")
    counted = Counted(server.url)
    async with counted.analytics.running():
        counted.ends(Succeeded())
        await asyncio.sleep(0.2)
    (line,) = said(caplog)
    assert line.startswith("analytics: redis error: ")
    assert "WRONGTYPE" in line


async def test_without_the_package_nothing_is_counted_and_everything_runs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    imported = builtins.__import__

    def absent(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("redis"):
            raise ImportError(name)
        return imported(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", absent)
    counted = Counted("redis://127.0.0.1:1/0")
    async with counted.analytics.running():
        counted.ends(Succeeded())
    assert said(caplog) == [
        "analytics: redis error: its package is missing: pip install 'oncue[redis]' (nothing is counted)"
    ]


async def test_an_address_that_cannot_be_one_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with Counted("redis://me:hunter2@cache:port/0").analytics.running():
        pass
    (line,) = said(caplog)
    assert line.startswith("analytics: redis error: ")
    assert "hunter2" not in line


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_analytics, "MOST_KEPT", 3)
    counts, more = Counts(), Counts()
    for number in range(5):
        counts.add("h", f"endpoint {number}:failed")
    counts.add("h", "endpoint 1:failed", 7)
    assert (counts.by_hour, counts.size, counts.dropped) == (
        {"h": {"endpoint 0:failed": 1, "endpoint 1:failed": 8, "endpoint 2:failed": 1}}, 3, 2,
    )  # fmt: skip
    more.add("h", "endpoint 2:failed", 5)
    more.add("later", "endpoint 9:failed")
    counts.add_all(more)
    assert (counts.by_hour["h"]["endpoint 2:failed"], counts.dropped) == (6, 3)


@pytest.mark.contract("HOOK-6", "HOOK-12")
async def test_a_worker_counts_and_delivers_whether_there_is_a_redis_or_not(
    make_app: Any, database_url: str, server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    app = make_app(database_url, webhooks_allow="127.0.0.0/8", name="shop", poll_interval="20ms", redis_url=server.url)
    async with receiving() as receiver:
        orders = declared(app, receiver)
        async with app.worker():
            first = await finished(app, (await orders.adeliver()).id)
            assert [line.partition(" error")[0] for line in said(caplog)] == ["analytics: redis"]
            server.start()
            second = await finished(app, (await orders.adeliver()).id)
            assert {first.state, second.state} == {"succeeded"}
            assert second.finished_at is not None
            await shown(server, PREFIX + hour_of(second.finished_at), {"orders:delivered": "2"})
