"""The metrics: what each event counts, and that a real worker's add up."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from prometheus_client import generate_latest

from oncue import Exponential, Oncue
from oncue.model import DELIVER, WEBHOOKS_QUEUE, Claim, Failed, Lost, Outcome, Released, Skipped, Succeeded
from oncue.observe.deliveries import OUTCOMES
from oncue.observe.labels import MOST
from oncue.observe.prometheus import PrometheusMetrics
from oncue.policy.lifecycle import Ended, settle
from oncue.policy.suspicion import measured
from oncue.policy.waiting import waiting_since
from oncue.telemetry import EVENTS, Telemetry
from tests.store.scene import NOW, OPTIONS, a_node, after, as_stored, query


def a_claim(**fields: Any) -> Claim:
    claim = Claim(
        1, "send", "mail", 0, "{}", OPTIONS, NOW, NOW, None, NOW, None, 1, 0, 0, 3, 0, False,
    )  # fmt: skip
    return claim._replace(**fields)


class Meter:
    """Telemetry with metrics on it."""

    def __init__(self) -> None:
        self.telemetry = Telemetry()
        self.metrics = PrometheusMetrics(self.telemetry)

    def stop(self, outcome: Outcome, *, duration: float = 0.02, started: bool = True, **fields: Any) -> None:
        claim = a_claim(**fields)
        change = settle(Ended(claim, outcome, NOW if started else None, after(seconds=duration)), Random(1))
        self.telemetry.emit("job.stop", {"duration": duration}, claim=claim, change=change, outcome=outcome)

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"oncue_{name}", labels)


@pytest.fixture
def meter() -> Meter:
    return Meter()


MAIL = {"task": "send", "queue": "mail"}


@pytest.mark.contract("QUE-19")
def test_finished_jobs_by_state(meter: Meter) -> None:
    meter.stop(Succeeded())
    meter.stop(Failed("x"), retry_count=3)
    meter.stop(Failed("x"))
    meter.stop(Skipped("deadline"), started=False)
    assert meter.value("jobs_finished_total", state="succeeded", **MAIL) == 1
    assert meter.value("jobs_finished_total", state="failed", **MAIL) == 1
    assert meter.value("jobs_finished_total", state="skipped", **MAIL) == 1
    assert meter.value("retries_total", **MAIL) == 1
    assert meter.value("job_duration_seconds_count", **MAIL) == 3


@pytest.mark.contract("QUE-19")
def test_retries_and_first_attempts_can_be_told_apart(meter: Meter) -> None:
    for retry_count, outcome in ((0, Succeeded()), (0, Failed("x")), (1, Succeeded()), (2, Failed("x"))):
        meter.stop(outcome, retry_count=retry_count)
    attempts = {
        (outcome, retry): meter.value("attempts_total", outcome=outcome, retry=retry, **MAIL)
        for outcome in ("succeeded", "failed")
        for retry in ("no", "yes")
    }
    assert attempts == {("succeeded", "no"): 1, ("failed", "no"): 1, ("succeeded", "yes"): 1, ("failed", "yes"): 1}


@pytest.mark.contract("QUE-19")
def test_wait_and_duration_are_histograms(meter: Meter) -> None:
    for wait in (0.0005, 0.02, 0.02, 7200.0):
        meter.telemetry.emit("job.start", {"wait": wait}, claim=a_claim())
    assert meter.value("job_wait_seconds_count", **MAIL) == 4
    assert meter.value("job_wait_seconds_sum", **MAIL) == pytest.approx(7200.0405)
    buckets = {le: meter.value("job_wait_seconds_bucket", le=le, **MAIL) for le in ("0.001", "0.025", "3600.0", "+Inf")}
    assert buckets == {"0.001": 1, "0.025": 3, "3600.0": 3, "+Inf": 4}


@pytest.mark.contract("QUE-19")
def test_depth_and_priorities(meter: Meter) -> None:
    meter.telemetry.emit("queue.depth", {"depth": 12}, depths={"mail": {0: 10, 60: 2}})
    assert meter.value("queue_depth", queue="mail") == 12
    assert meter.value("queue_priority_jobs", queue="mail", priority="60") == 2
    meter.telemetry.emit("queue.depth", {"depth": 0}, depths={"mail": {}})
    assert meter.value("queue_depth", queue="mail") == 0
    assert meter.value("queue_priority_jobs", queue="mail", priority="60") is None


@pytest.mark.contract("HOOK-8")
def test_buffer_and_seats(meter: Meter) -> None:
    meter.telemetry.emit("in_flight", {"in_flight": 3, "buffered": 4, "concurrency": 8, "aside": 2})
    assert (meter.value("in_flight_jobs"), meter.value("buffer_size"), meter.value("concurrency")) == (3, 4, 8)
    assert meter.value("aside_jobs") == 2

    class Seats:
        concurrency, running, waiting, aside = 16, 5, 6, 7

    meter.metrics.follow(Seats(), 100)
    assert (meter.value("in_flight_jobs"), meter.value("buffer_size"), meter.value("concurrency")) == (5, 6, 16)
    assert meter.value("aside_jobs") == 7
    assert meter.value("buffer_capacity") == 100


def test_an_attempt_that_was_taken_away_counts_as_ended(meter: Meter) -> None:
    for crashes, begun in ((1, None), (2, NOW), (4, NOW)):
        claim = a_claim(crashes=crashes)
        change = settle(Ended(claim, Lost(), begun, NOW), Random(1))
        meter.telemetry.emit("rescue", measured(claim, change), claim=claim, change=change)
    assert meter.value("rescued_jobs_total", **MAIL) == 3
    assert (meter.value("charged_deaths_total", **MAIL), meter.value("poison_jobs_total", **MAIL)) == (2, 1)
    assert meter.value("jobs_finished_total", state="failed", **MAIL) == 1


@pytest.mark.contract("SLOT-10")
def test_a_job_that_nobody_claimed_in_time_counts_as_ended(meter: Meter) -> None:
    for reason in ("misfire", "deadline"):
        change = settle(Ended(a_claim(), Skipped(reason), None, NOW), Random(1))
        meter.telemetry.emit("expire", {}, job=a_claim(), change=change, **MAIL)
    assert meter.value("expired_jobs_total", **MAIL) == 2
    assert meter.value("jobs_finished_total", state="skipped", **MAIL) == 2
    assert meter.value("misfired_jobs_total", **MAIL) == 1


def test_rare_events(meter: Meter) -> None:
    emit = meter.telemetry.emit
    emit("enqueue", {"jobs": 2, "duplicates": 1}, task="send", queue="mail")
    emit("claim", {"jobs": 5})
    emit("settle", {"jobs": 4, "rejected": 1})
    emit("release", {"jobs": 2})
    emit("node.lost", {}, node=None)
    emit("node.beat", {"duration": 0.25}, node=None)
    emit("age", {"jobs": 7})
    emit("prune", {"jobs": 8})
    emit("tick.error", {"failures": 1}, service="claimer", error=None)
    expected = {
        "claims_total": 1, "claimed_jobs_total": 5, "settled_jobs_total": 4, "settle_rejected_total": 1,
        "released_jobs_total": 2, "nodes_lost_total": 1, "beat_seconds_count": 1, "beat_seconds_sum": 0.25,
        "aged_jobs_total": 7, "pruned_jobs_total": 8,
    }  # fmt: skip
    assert {name: meter.value(name) for name in expected} == expected
    assert meter.value("enqueued_jobs_total", **MAIL) == 2
    assert meter.value("duplicate_jobs_total", **MAIL) == 1
    assert meter.value("tick_errors_total", service="claimer") == 1


def test_every_event_is_counted(meter: Meter) -> None:
    silent = {event for event in EVENTS if not meter.telemetry.wants(event)}
    assert silent <= {"job.retry", "settle.rejected"}  # told by job.stop and by settle already


async def test_a_workers_metrics_add_up(database_url: str) -> None:
    app = Oncue(database_url)
    metrics = PrometheusMetrics(app.internals.telemetry)
    done = asyncio.Event()
    finished = 0

    def watch(*_: Any) -> None:
        nonlocal finished
        finished += 1
        if finished == 14:
            done.set()

    app.internals.telemetry.subscribe(watch, "job.stop")

    @app.task(retry=Exponential("1ms", jitter=0))
    async def flaky(number: int) -> None:
        from oncue import current_job

        if number >= 8 and current_job().attempt == 1:
            raise ValueError("not yet")

    await flaky.aenqueue_many(range(11))
    async with app.worker():
        await asyncio.wait_for(done.wait(), 60)
    await app.aclose()
    labels = {"task": "flaky", "queue": "default"}
    value = metrics.registry.get_sample_value
    assert value("oncue_enqueued_jobs_total", labels) == 11
    assert value("oncue_jobs_finished_total", {**labels, "state": "succeeded"}) == 11
    assert value("oncue_retries_total", labels) == 3
    assert value("oncue_attempts_total", {**labels, "outcome": "succeeded", "retry": "yes"}) == 3
    assert value("oncue_attempts_total", {**labels, "outcome": "succeeded", "retry": "no"}) == 8
    assert value("oncue_job_wait_seconds_count", labels) == 14
    assert value("oncue_settled_jobs_total") == 14
    assert b"oncue_build_info" in generate_latest(metrics.registry)


@pytest.mark.contract("QUE-19")
def test_a_first_attempt_has_waited_since_its_enqueue() -> None:
    due, again = after(seconds=60), after(seconds=90)
    assert waiting_since(a_claim()) == NOW
    assert waiting_since(a_claim(visible_at=again, claim_no=2)) == NOW, "it was given back, and had not begun"
    assert waiting_since(a_claim(visible_at=due)) == due, "what was enqueued for later waits from then on"
    assert waiting_since(a_claim(visible_at=again, claim_no=2, attempt=1)) == again, "so does a retry"


@pytest.mark.contract("QUE-19")
async def test_a_job_that_a_worker_gave_back_has_waited_all_along(database_url: str) -> None:
    app = Oncue(database_url)
    waits: list[float] = []
    told = asyncio.Event()

    @app.task
    async def work() -> None: ...

    def started(_: str, measurements: Any, metadata: Any) -> None:
        waits.append(measurements["wait"])
        told.set()

    app.internals.telemetry.subscribe(started, "job.start")
    await work.aenqueue()
    connected = await app.internals.connected()
    node, now = a_node(), connected.now()
    long_ago = now - timedelta(hours=1)
    await connected.store.nodes.register(
        replace(node, started_at=now, beat_at=now, expires_at=now + timedelta(hours=1))
    )
    (claim,) = await connected.store.jobs.claim(node.id, ["default"], ["work"], 1, now)
    given_back = settle(Ended(claim, Released(), None, now), Random(1))
    assert await connected.store.jobs.apply([given_back._replace(visible_at=now)], now) == [True]
    (job,) = await app.jobs.list()
    assert job.claim_no == 1
    await query(
        connected.store, f"update oncue_jobs set created_at = {as_stored(connected.store, long_ago)} returning id"
    )
    async with app.worker():
        await asyncio.wait_for(told.wait(), 60)
    await app.aclose()
    assert waits[0] >= 3600


@pytest.mark.contract("HOOK-17")
def test_deliveries_are_told_by_what_they_ended_as(meter: Meter) -> None:
    assert meter.value("deliveries_total", outcome="delivered") == 0, "shown from the start"
    of_a_delivery = {"task": DELIVER, "queue": WEBHOOKS_QUEUE}
    for outcome in (Succeeded(), Succeeded(), Failed("x"), Failed("x", final=True), Skipped("webhook_disabled")):
        meter.stop(outcome, **of_a_delivery)
    meter.stop(Succeeded())
    told = {name: meter.value("deliveries_total", outcome=name) for name in ("delivered", "failed", "skipped")}
    assert told == {"delivered": 2, "failed": 1, "skipped": 1}


@pytest.mark.contract("HOOK-17")
def test_deliveries_are_told_however_many_tasks_there_are(meter: Meter) -> None:
    for number in range(MOST + 50):
        meter.stop(Succeeded(), task=f"task {number}")
    meter.stop(Succeeded(), task=DELIVER, queue=WEBHOOKS_QUEUE)
    assert meter.value("deliveries_total", outcome="delivered") == 1


@pytest.mark.contract("HOOK-17")
def test_requests_are_told_by_outcome_with_the_latency_of_answers(meter: Meter) -> None:
    for outcome, seconds in (("delivered", 0.2), ("retry", 7.0), ("timeout", 30.0)):
        meter.telemetry.emit("delivery", {"seconds": seconds}, claim=None, webhook=None, outcome=outcome)
    assert [meter.value("delivery_attempts_total", outcome=name) for name in OUTCOMES] == [1, 1, 0, 1, 0, 0, 0]
    assert meter.value("delivery_seconds_count") == 2
    assert meter.value("delivery_seconds_sum") == 7.2
    assert meter.value("delivery_seconds_bucket", le="5.0") == 1


@pytest.mark.contract("HOOK-17")
def test_breakers_orphans_and_emit_errors_are_counted(meter: Meter) -> None:
    for trips in (1, 2, 0):
        meter.telemetry.emit("breaker", {"trips": trips}, group="orders")
    assert meter.value("breaker_transitions_total", to="open") == 2
    assert meter.value("breaker_transitions_total", to="closed") == 1
    meter.telemetry.emit("orphans", {"found": 5, "re_emitted": 3, "failed": 2})
    meter.telemetry.emit("tick.error", {"failures": 1}, service="scheduler", error=None)
    meter.telemetry.emit("tick.error", {"failures": 1}, service="pruning", error=None)
    assert (meter.value("orphans_found_total"), meter.value("orphans_re_emitted_total")) == (5, 3)
    assert meter.value("emit_errors_total") == 3
