"""What a process tells of the whole database, and when it stops telling what it no longer knows."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import SimpleNamespace

import pytest

from oncue import Oncue
from oncue.engine.counting import Sampling
from oncue.errors import StoreUnavailable
from oncue.model import Count, Limits, Sample
from oncue.observe.cluster import MOST_FAILURES
from oncue.observe.prometheus import PrometheusMetrics
from oncue.server.sampling import Sampler
from oncue.store import Store
from tests.observe.test_prometheus import Meter
from tests.observe.test_schedules import a_standing
from tests.observe.watch import Watch
from tests.store.scene import NOW, a_node, after, enter, put, take

STALE = timedelta(seconds=15)


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
        seats = SimpleNamespace(concurrency=1, running=0, waiting=0)
        meter.metrics.follow(seats, 0, a_standing(a_node(), alive=alive))
        assert meter.value("node_alive") == alive
    assert meter.value("queue_seats", queue="mail") == 3


def test_counters_of_declared_tasks_begin_at_nothing() -> None:
    meter = Meter()
    meter.metrics.expect([("send", "mail")])
    assert meter.value("jobs_finished_total", task="send", queue="mail", state="failed") == 0
    assert meter.value("misfired_jobs_total", task="send", queue="mail") == 0
    assert meter.value("job_wait_seconds_count", task="send", queue="mail") is None


async def test_a_web_process_counts_only_when_nobody_else_does(store: Store) -> None:
    sampling = Sampling(store)
    await put(store, 999)
    await sampling.stand_in(NOW, STALE)
    assert await store.counters.last_sample() is None, "whoever asks can count so few"
    await put(store, 5)
    await sampling.stand_in(NOW, STALE)
    assert await store.counters.last_sample() == Sample(NOW, [Count("default", "queued", 1004)])
    await put(store, 1)
    await sampling.stand_in(after(seconds=15), STALE)
    sample = await store.counters.last_sample()
    assert sample is not None
    assert sample.at == NOW, "a leader may have counted that, and will again"
    await sampling.stand_in(after(seconds=16), STALE)
    assert await store.counters.last_sample() == Sample(after(seconds=16), [Count("default", "queued", 1005)])


async def test_a_sampler_that_has_no_database_keeps_trying() -> None:
    app = Oncue("postgresql://nobody@127.0.0.1:1/nothing")
    metrics, failed = PrometheusMetrics(app.telemetry), asyncio.Event()
    app.telemetry.subscribe(lambda _, told, __: told["failures"] == 2 and failed.set(), "tick.error")
    sampler = Sampler(app, app.telemetry)
    sampler.start()
    await asyncio.wait_for(failed.wait(), 60)
    await sampler.close()
    assert metrics.registry.get_sample_value("oncue_database_up") == 0
