"""What a process tells of the whole database, and when it stops telling what it no longer knows."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from oncue import Oncue
from oncue.engine.counting import Sampling, latest_sample
from oncue.engine.survey import Surveying
from oncue.errors import StoreUnavailable
from oncue.model import LIVE_LIMIT, Count, Limits
from oncue.observe.cluster import MOST_FAILURES
from oncue.observe.prometheus import PrometheusMetrics
from oncue.server.sampling import Sampler
from oncue.store import Store
from tests.observe.test_prometheus import Meter
from tests.observe.test_schedules import a_standing
from tests.observe.watch import Watch
from tests.store.scene import NOW, a_node, after, enter, put, take


@pytest.mark.contract("QUE-19")
async def test_what_a_look_at_the_database_tells(store: Store) -> None:
    watch = Watch(store)
    value = watch.metrics.registry.get_sample_value
    assert value("oncue_database_up") is None, "nobody has looked yet"
    node = await enter(store)
    await put(store, 3, queue="mail")
    await put(store)
    await take(store, node)
    assert await store.queues.set_limits("mail", Limits(), Limits(globally=5, per_node=2), NOW)
    await watch.look(after(seconds=90))
    told = {
        "oncue_queue_depth": {"queue": "mail"}, "oncue_queue_oldest_wait_seconds": {"queue": "mail"},
        "oncue_queue_nodes": {"queue": "mail"}, "oncue_queue_paused": {"queue": "mail"},
        "oncue_jobs_running_longest_seconds": {"queue": "default", "task": "send"}, "oncue_database_up": {},
    }  # fmt: skip
    assert [value(name, labels) for name, labels in told.items()] == [3, 90, 1, 0, 90, 1]
    assert value("oncue_queue_oldest_wait_seconds", {"queue": "default"}) == 0
    limits_told = [value("oncue_queue_limit", {"queue": "mail", "scope": scope}) for scope in ("global", "node")]
    assert limits_told == [5, 2]


async def test_what_is_no_longer_known_is_no_longer_told(store: Store) -> None:
    watch, error = Watch(store), StoreUnavailable("gone")
    value = watch.metrics.registry.get_sample_value
    await put(store)
    await watch.look(NOW)
    for failures in range(1, MOST_FAILURES + 1):
        assert value("oncue_leader_present") == 0
        assert value("oncue_queue_depth", {"queue": "default"}) == 1
        watch.telemetry.emit("tick.error", {"failures": failures}, service="claimer", error=error)
        watch.telemetry.emit("tick.error", {"failures": failures}, service="survey", error=error)
        assert value("oncue_database_up") == 0
    assert value("oncue_leader_present") is None
    assert value("oncue_queue_depth", {"queue": "default"}) is None
    await watch.look(after(minutes=5))
    assert (value("oncue_database_up"), value("oncue_leader_present")) == (1, 0)


def test_a_node_that_lives_and_its_seats() -> None:
    meter = Meter()
    assert meter.value("node_alive") is None
    assert meter.value("queue_seats", queue="mail") is None
    for alive in (True, False):
        seats = SimpleNamespace(concurrency=1, running=0, waiting=0, aside=0)
        meter.metrics.follow(seats, 0, a_standing(a_node(), alive=alive))
        assert meter.value("node_alive") == alive
    assert meter.value("queue_seats", queue="mail") == 3


def test_counters_of_declared_tasks_begin_at_nothing() -> None:
    meter = Meter()
    meter.metrics.expect([("send", "mail")])
    assert meter.value("jobs_finished_total", task="send", queue="mail", state="failed") == 0
    assert meter.value("misfired_jobs_total", task="send", queue="mail") == 0
    assert meter.value("job_wait_seconds_count", task="send", queue="mail") is None


async def test_a_process_counts_only_when_the_leader_does_not(store: Store) -> None:
    await put(store, 5)
    sample = await latest_sample(store, NOW)
    assert sample.counts == [Count("default", "queued", 5)]
    await put(store, 1)
    assert await latest_sample(store, after(seconds=15)) == sample, "the leader may have counted that, and will again"
    later = await latest_sample(store, after(seconds=16))
    assert later.counts == [Count("default", "queued", 6)]
    assert await store.counters.last_sample() == later, "and so the next process need not count"
    earlier = await latest_sample(store, NOW)
    assert earlier.at == NOW, "the clock was set back"


async def test_while_the_leader_samples_metrics_count_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await put(store, 3, queue="mail")
    await Sampling(store).tick(NOW)
    watch, limits = Watch(store), list[int]()

    async def count(limit: int) -> list[Count]:
        limits.append(limit)
        return await real(limit)

    real = store.counters.count
    monkeypatch.setattr(store.counters, "count", count)
    await Surveying(store, watch.telemetry).tick(after(seconds=10))
    assert max(limits, default=0) <= LIVE_LIMIT
    value = watch.metrics.registry.get_sample_value
    assert value("oncue_queue_depth", {"queue": "mail"}) == 3
    assert value("oncue_queue_oldest_wait_seconds", {"queue": "mail"}) == 0, "as it was when it was counted"


async def test_a_sampler_that_has_no_database_keeps_trying() -> None:
    app = Oncue("postgresql://nobody@127.0.0.1:1/nothing")
    metrics, failed = PrometheusMetrics(app.internals.telemetry), asyncio.Event()
    app.internals.telemetry.subscribe(lambda _, told, __: told["failures"] == 2 and failed.set(), "tick.error")
    sampler = Sampler(app, app.internals.telemetry)
    sampler.start()
    await asyncio.wait_for(failed.wait(), 60)
    await sampler.close()
    assert metrics.registry.get_sample_value("oncue_database_up") == 0
