"""The SLO watcher on both stores: two nodes, a fail-over, a lost reply, and the deliveries that tell of a warning."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from oncue import Oncue
from oncue.application.alerting import announcer
from oncue.application.worker import new_node
from oncue.clock import VirtualClock
from oncue.engine.leadership import Leadership
from oncue.engine.minutes import Minutes
from oncue.engine.slo_watcher import SloWatcher
from oncue.errors import StoreUnavailable
from oncue.model import AlertBook, Job, JobFilter, Minute
from oncue.policy import slo
from oncue.policy.slo import SloRules
from oncue.store.contract import Store
from oncue.telemetry import Telemetry
from tests.app.conftest import MakeApp

RULES = SloRules()
LEASE = 100.0
MINUTE = timedelta(minutes=1)


class WatchingNode:
    """The services of one node that measure and watch, on the test's clock."""

    def __init__(self, app: Oncue, store: Store, clock: VirtualClock) -> None:
        self.clock = clock
        self.telemetry = Telemetry()
        self.node = replace(new_node(app.internals, clock.now(), None), id=uuid4())
        self.leadership = Leadership(
            store, self.node, clock, self.telemetry, lambda: True, lease=LEASE, poll=0.0, shown=lambda: "test"
        )
        self.minutes = Minutes(store, self.node.id, clock, self.telemetry)
        self.watcher = SloWatcher(
            store, self.node.id, self.leadership, self.telemetry, self.minutes, RULES, announcer(app.internals)
        )
        self.told: list[tuple[str, str]] = []
        self.telemetry.subscribe(
            lambda event, _, told: self.told.append((event, told["alert"])), "slo.breach", "slo.over"
        )

    def measure(self, attempts: int, milliseconds: float) -> None:
        for _ in range(attempts):
            self.telemetry.emit("sched.job.stop", {"duration_ms": milliseconds}, result="ok", window="digest")

    async def look(self) -> None:
        """A minute is over."""
        now = self.clock.now()
        await self.leadership.tick(now)
        await self.minutes.tick(now)
        await self.watcher.tick(now)


class Rig:
    def __init__(self, app: Oncue, store: Store) -> None:
        self.app, self.store = app, store
        self.clock = VirtualClock()
        self.one, self.two = (WatchingNode(app, store, self.clock) for _ in range(2))

    async def pass_minute(self, *nodes: WatchingNode) -> None:
        self.clock.advance(MINUTE)
        for node in nodes:
            await node.look()

    async def state(self) -> Any:
        return next(one for one in (await self.store.alerts.book()).alerts if one.alert == slo.JOB)

    async def jobs(self) -> list[Job]:
        return await self.store.jobs.find(JobFilter(limit=100))


async def rig_of(app: Oncue, **settings: Any) -> Rig:
    app.configure(replace(app.settings, **settings))
    return Rig(app, (await app.internals.connected()).store)


@pytest.mark.contract("WIN-17")
async def test_two_nodes_are_seen_together_and_the_next_leader_goes_on(app: Oncue) -> None:
    """The leader itself measured nothing that is slow: the breach is what the other node measured."""
    rig = await rig_of(app)
    await rig.one.look()
    assert rig.one.leadership.epoch is not None
    for _ in range(2):
        rig.one.measure(90, 1000)
        rig.two.measure(20, 60_000)
        await rig.pass_minute(rig.two, rig.one)
    state = await rig.state()
    assert (state.breaches, state.value) == (2, pytest.approx(60_000, rel=0.06))
    rig.clock.advance(timedelta(seconds=LEASE))  # the first one is gone: its lease ends
    await rig.two.look()
    assert rig.two.leadership.epoch is not None
    state = await rig.state()
    assert (state.breaches, state.warned_at) == (3, rig.clock.now())
    assert (rig.one.told, rig.two.told) == ([], [("slo.breach", slo.JOB)])


@pytest.mark.contract("WIN-17")
async def test_a_deposed_leader_writes_nothing(app: Oncue) -> None:
    rig = await rig_of(app)
    await rig.one.look()
    await rig.pass_minute(rig.one)
    book, epoch = await rig.store.alerts.book(), rig.one.leadership.epoch
    assert epoch is not None
    rig.clock.advance(timedelta(seconds=LEASE))
    await rig.two.look()
    later = await rig.store.alerts.book()
    assert later.version == book.version + 1
    stale = AlertBook(later.version, None, ())
    assert not await rig.store.alerts.write(stale, rig.clock.now(), node=rig.one.node.id, epoch=epoch)
    assert await rig.store.alerts.book() == later


async def test_a_new_leader_does_not_evaluate_before_its_time(app: Oncue) -> None:
    rig = await rig_of(app)
    await rig.one.look()
    version = (await rig.store.alerts.book()).version
    rig.clock.advance(timedelta(seconds=30))
    await rig.one.look()
    assert (await rig.store.alerts.book()).version == version
    rig.clock.advance(timedelta(seconds=30))
    await rig.one.look()
    assert (await rig.store.alerts.book()).version == version + 1


@pytest.mark.contract("WIN-17")
async def test_a_warning_is_one_delivery_at_its_begin_and_one_at_its_end(app: Oncue) -> None:
    await app.webhooks.create("pager", url="https://pager.example/alerts")
    rig = await rig_of(app, alert_webhook="pager")
    await rig.one.look()
    for _ in range(6):
        rig.one.measure(10, 60_000)
        await rig.pass_minute(rig.one)
    (begun,) = await rig.jobs()
    payload = begun.args["payload"]
    assert (begun.task, begun.group, begun.enqueued_by) == ("oncue.deliver", "pager", "slo")
    assert (payload["event"], payload["alert"], payload["of"], payload["threshold"], payload["window_minutes"]) == (
        *("slo.breach", "job_duration", "digest"), *(30_000, 15),
    )  # fmt: skip
    for _ in range(RULES.minutes + 2):
        await rig.pass_minute(rig.one)
    over, _ = await rig.jobs()
    assert over.args["payload"]["event"] == "slo.over"
    assert rig.one.told == [("slo.breach", slo.JOB), ("slo.over", slo.JOB)]


async def test_a_bare_url_is_delivered_to_and_a_webhook_that_is_unknown_is_said_so(
    app: Oncue, caplog: pytest.LogCaptureFixture
) -> None:
    rig = await rig_of(app, alert_webhook="https://pager.example/alerts")
    app.configure(replace(app.settings, alert_webhook="nobody"))
    unknown = WatchingNode(app, rig.store, rig.clock)
    await rig.one.look()
    for _ in range(3):
        rig.one.measure(10, 60_000)
        await rig.pass_minute(rig.one)
    (job,) = await rig.jobs()
    assert job.args["url"] == "https://pager.example/alerts"
    for _ in range(RULES.minutes + 2):
        await rig.pass_minute(rig.one)
    await rig.one.leadership.resign()
    await unknown.look()
    with caplog.at_level(logging.ERROR, "oncue.slo"):
        for _ in range(3):
            unknown.measure(10, 60_000)
            await rig.pass_minute(unknown)
    assert unknown.told == [("slo.breach", slo.JOB)], "the warning is told all the same"
    assert "alerts cannot be delivered to nobody: there is no webhook 'nobody'" in caplog.text


class LostReply:
    """A store's alerts of which one write is done and not answered."""

    def __init__(self, alerts: Any) -> None:
        self._alerts = alerts
        self.lose = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._alerts, name)

    async def write(self, *args: Any, **fields: Any) -> bool:
        took: bool = await self._alerts.write(*args, **fields)
        if self.lose:
            self.lose = False
            raise StoreUnavailable("the line broke")
        return took


@pytest.mark.contract("WIN-17")
async def test_a_warning_whose_write_was_not_answered_is_told_once(app: Oncue, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = await rig_of(app, alert_webhook="https://pager.example/alerts")
    line = LostReply(rig.store.alerts)
    monkeypatch.setattr(rig.store, "alerts", line)
    await rig.one.look()
    for number in range(3):
        rig.one.measure(10, 60_000)
        line.lose = number == 2
        try:
            await rig.pass_minute(rig.one)
        except StoreUnavailable:
            assert number == 2
    assert rig.one.told == []
    await rig.pass_minute(rig.one)
    assert rig.one.told == [("slo.breach", slo.JOB)]
    assert len(await rig.jobs()) == 1


@pytest.mark.contract("WIN-17")
async def test_minutes_that_the_database_did_not_take_are_sent_again_and_count_once(
    app: Oncue, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = await rig_of(app)
    rig.one.measure(5, 1000)
    rig.clock.advance(MINUTE)
    append = rig.store.alerts.append

    async def lose(minutes: Any) -> None:
        await append(minutes)
        raise StoreUnavailable("the line broke")

    with monkeypatch.context() as patched:
        patched.setattr(rig.store.alerts, "append", lose)
        with pytest.raises(StoreUnavailable):
            await rig.one.minutes.tick(rig.clock.now())
    await rig.one.minutes.tick(rig.clock.now())
    await rig.one.minutes.tick(rig.clock.now())
    (row,) = await rig.store.alerts.minutes(rig.clock.now() - timedelta(hours=1))
    assert row.figures["ok"] == 5


async def test_an_application_subscribes_to_public_events_only(app: Oncue) -> None:
    heard: list[str] = []
    app.subscribe(lambda event, measurements, metadata: heard.append(event), "sched.finalize")
    app.internals.telemetry.emit("sched.finalize", {}, status="success")
    app.internals.telemetry.emit("sched.job.stop", {"duration_ms": 1.0})
    assert heard == ["sched.finalize"]
    everything: list[str] = []
    app.subscribe(lambda event, measurements, metadata: everything.append(event))
    app.internals.telemetry.emit("sched.job.stop", {"duration_ms": 1.0})
    app.internals.telemetry.emit("job.stop", {"duration": 1.0})
    assert everything == ["sched.job.stop"]
    with pytest.raises(ValueError, match=r"event: expected one of sched\.tick\.stop, .*, not 'job\.stop'"):
        app.subscribe(print, "job.stop")


@pytest.mark.contract("QUE-20")
async def test_a_worker_watches_by_itself(make_app: MakeApp, database_url: str) -> None:
    app = make_app(database_url, alert_queue_depth=0, breach_consecutive=1)
    await (await app.internals.connected()).store.migrate()
    warned = asyncio.Event()
    app.subscribe(lambda event, numbers, told: warned.set() if told["of"] == "unserved" else None, "slo.breach")

    @app.task(queue="unserved")
    async def never() -> None: ...

    await never.aenqueue()
    async with app.worker():
        await asyncio.wait_for(warned.wait(), 60)
    book = await app.alerts.book()
    assert [(one.alert, one.of, one.value) for one in book.alerts if one.warned_at] == [("queue_depth", "unserved", 1)]


async def test_old_minutes_are_pruned_by_the_leader(app: Oncue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncue.engine.slo_watcher.PRUNE_LIMIT", 2)
    rig = await rig_of(app)
    old = [Minute(rig.clock.now() - timedelta(days=2, minutes=number), uuid4(), "tick", "", {}) for number in range(3)]
    await rig.store.alerts.append(old)
    await rig.one.look()
    now = rig.clock.now()
    assert await rig.one.watcher.tick(now) > now
    assert await rig.store.alerts.minutes(now - timedelta(days=9)) == []


async def test_a_worker_that_stops_writes_its_last_minute(app: Oncue) -> None:
    store = (await app.internals.connected()).store
    await store.migrate()
    async with app.worker():
        app.internals.telemetry.emit("sched.job.stop", {"duration_ms": 5.0}, result="ok", window="digest")
    rows = [row for row in await store.alerts.minutes(await app.now() - timedelta(hours=1)) if row.kind == "window"]
    assert [(row.name, row.figures["ok"]) for row in rows] == [("digest", 1)]
