"""Names that callers choose are labels: there are never more of them than a time series database likes."""

from __future__ import annotations

import pytest
from prometheus_client import generate_latest

from oncue.engine.counting import take_sample
from oncue.engine.survey import Surveying
from oncue.model import Limits
from oncue.observe import labels
from oncue.observe.labels import MOST, OTHER
from oncue.store import SqliteStore, Store
from tests.observe.test_prometheus import Meter
from tests.observe.watch import Watch
from tests.store.scene import DONE, NOW, a_node, after, put
from tests.turns import measured_turns

MANY = 20_000
LARGEST = 1_000_000
"""Bytes that a scrape may have."""


def test_counters_of_many_queues_are_bounded_and_add_up() -> None:
    meter = Meter()
    for number in range(MANY):
        meter.telemetry.emit("enqueue", {"jobs": 1, "duplicates": 0}, task="send", queue=f"queue-{number}")
    meter.metrics.expect([("bill", "money")])
    meter.telemetry.emit("enqueue", {"jobs": 5, "duplicates": 0}, task="bill", queue="money")
    meter.telemetry.emit("enqueue", {"jobs": 7, "duplicates": 0}, task="unheard", queue="of")
    text = generate_latest(meter.metrics.registry).decode()
    lines = [line for line in text.splitlines() if line.startswith("oncue_enqueued_jobs_total{")]
    assert len(lines) == MOST + 3
    assert sum(float(line.rpartition(" ")[2]) for line in lines) == MANY + 12
    assert meter.value("enqueued_jobs_total", task="send", queue=OTHER) == MANY - MOST
    assert meter.value("enqueued_jobs_total", task="bill", queue="money") == 5
    assert meter.value("enqueued_jobs_total", task=OTHER, queue=OTHER) == 7


def test_attempts_of_many_queues_share_a_series(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "MOST", 3)
    meter = Meter()
    for number in range(10):
        meter.stop(DONE, queue=f"queue-{number}")
    named = [meter.value("jobs_finished_total", task="send", queue=f"queue-{n}", state="succeeded") for n in range(10)]
    assert named == [1, 1, 1, *[None] * 7]
    assert meter.value("jobs_finished_total", task="send", queue=OTHER, state="succeeded") == 7
    assert meter.value("job_duration_seconds_count", task="send", queue=OTHER) == 7


async def test_the_busiest_queues_have_their_own_gauges_and_the_others_one(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labels, "MOST", 3)
    await store.nodes.register(a_node(expires_at=after(days=1)))  # it serves `default` and `mail`
    for number in range(1, 7):
        await put(store, number, queue=f"queue-{number}", priority=number % 2)
    await store.queues.pause("queue-1", NOW)
    assert await store.queues.set_limits("queue-1", Limits(), Limits(globally=5), NOW)
    watch = Watch(store)
    await watch.look(after(seconds=90))
    value = watch.metrics.registry.get_sample_value
    assert [value("oncue_queue_depth", {"queue": f"queue-{n}"}) for n in range(1, 7)] == [None, None, None, 4, 5, 6]
    assert value("oncue_queue_depth", {"queue": OTHER}) == 6
    assert [value("oncue_queue_priority_jobs", {"queue": OTHER, "priority": p}) for p in ("0", "1")] == [2, 4]
    assert [value("oncue_queue_nodes", {"queue": name}) for name in ("default", "mail", "queue-6")] == [1, 1, 0]
    assert value("oncue_queue_nodes", {"queue": "queue-5"}) is None
    assert value("oncue_queue_nodes", {"queue": OTHER}) == 0
    assert value("oncue_queue_oldest_wait_seconds", {"queue": OTHER}) == 90
    assert [value(f"oncue_queue_{name}", {"queue": OTHER}) for name in ("paused", "paused_seconds")] == [1, 90]
    # What was told once is not told for ever.
    await put(store, 9, queue="queue-1")
    await watch.look(after(seconds=91))
    assert value("oncue_queue_depth", {"queue": "queue-1"}) == 10
    assert value("oncue_queue_depth", {"queue": "queue-4"}) is None


async def test_a_queue_that_is_called_like_the_others_is_one_of_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labels, "MOST", 2)
    for number, queue in enumerate(("a", "b", "c", OTHER), 2):
        await put(store, number, queue=queue)
    watch = Watch(store)
    await watch.look(after(seconds=90))
    samples = [line for line in generate_latest(watch.metrics.registry).decode().splitlines() if line[0] != "#"]
    names = [line.rpartition(" ")[0] for line in samples]
    assert len(names) == len(set(names)), "no series is told twice"
    assert watch.metrics.registry.get_sample_value("oncue_queue_depth", {"queue": OTHER}) == 2 + 5


async def test_sampling_twenty_thousand_queues_does_not_hold_the_loop(sqlite_store: SqliteStore) -> None:
    await put(sqlite_store, MANY)
    await sqlite_store.database.write(lambda connection: connection.execute("update oncue_jobs set queue = 'q' || id"))
    watch = Watch(sqlite_store)
    with measured_turns() as turns:
        await take_sample(sqlite_store, NOW)
        await Surveying(sqlite_store, watch.telemetry).tick(NOW)
    assert turns.longest < 0.1
    assert len(generate_latest(watch.metrics.registry)) < LARGEST
