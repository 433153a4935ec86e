"""The metrics of schedules, of who leads and of who stands by."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from oncue import Oncue, cron
from oncue.clock import VirtualClock
from oncue.engine.leadership import Leadership
from oncue.model import Decided, Node
from oncue.observe import slots
from oncue.observe.labels import OTHER
from oncue.observe.prometheus import PrometheusMetrics
from oncue.policy.schedules import EDITED
from oncue.settings import load
from oncue.store import Store
from oncue.store.contract import LEADER
from oncue.telemetry import Telemetry
from tests.observe.test_prometheus import Meter
from tests.store.scene import NOW, a_node, before


@pytest.fixture
def meter() -> Meter:
    return Meter()


def decide(meter: Meter, verdict: Any, reason: str | None = None, *, late: float = 0.2, **fields: Any) -> None:
    schedule = fields.pop("schedule", "nightly")
    decided = Decided(NOW, verdict, reason, **fields)
    meter.telemetry.emit("slot", {"slots": decided.slots, "late": late}, schedule=schedule, decided=decided)


def slots_of(meter: Meter, verdict: str, reason: str = "", schedule: str = "nightly") -> float | None:
    return meter.value("slots_total", schedule=schedule, verdict=verdict, reason=reason)


@pytest.mark.contract("QUE-19")
def test_slots_by_verdict_and_reason(meter: Meter) -> None:
    decide(meter, "fired", job_id=1)
    decide(meter, "fired", job_id=2)
    decide(meter, "missed", "misfire", until=NOW, slots=40)
    decide(meter, "missed", EDITED)
    decide(meter, "skipped", "max_instances", blocked_by=1)
    assert slots_of(meter, "fired") == 2
    assert slots_of(meter, "missed", "misfire") == 40
    assert slots_of(meter, "missed", "edited") == 1
    assert slots_of(meter, "skipped", "max_instances") == 1


def test_what_a_slot_was_coalesced_into_is_no_label(meter: Meter) -> None:
    decide(meter, "coalesced", "into 2030-01-01T12:00:00+00:00")
    decide(meter, "coalesced", "into 2030-01-01T13:00:00+00:00", slots=3)
    assert slots_of(meter, "coalesced") == 4


def test_not_every_schedule_has_a_series_of_its_own(meter: Meter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "MOST_NAMED", 3)
    for number in range(10):
        decide(meter, "fired", schedule=f"schedule {number}")
    decide(meter, "missed", "misfire", schedule="schedule 2")
    meter.telemetry.emit("schedule.error", {}, schedule="schedule 9", error=None)
    assert slots_of(meter, "fired", schedule="schedule 2") == 1
    assert slots_of(meter, "missed", "misfire", schedule="schedule 2") == 1
    assert slots_of(meter, "fired", schedule="schedule 3") is None
    assert slots_of(meter, "fired", schedule=OTHER) == 7
    assert meter.value("schedule_errors_total", schedule=OTHER) == 1


@pytest.mark.contract("QUE-19")
def test_lateness_is_a_histogram(meter: Meter) -> None:
    for late in (-0.1, 0.02, 0.3):
        decide(meter, "fired", late=late)
    decide(meter, "missed", "misfire", late=7200.0, slots=12)
    assert meter.value("slot_lateness_seconds_count", verdict="fired") == 3
    assert meter.value("slot_lateness_seconds_sum", verdict="fired") == pytest.approx(0.32)
    assert meter.value("slot_lateness_seconds_bucket", verdict="fired", le="0.025") == 2
    assert meter.value("slot_lateness_seconds_count", verdict="missed") == 1


def test_schedules_that_cannot_be_worked_out(meter: Meter) -> None:
    meter.telemetry.emit("schedule.error", {}, schedule="nightly", error=None)
    assert meter.value("schedule_errors_total", schedule="nightly") == 1


@pytest.mark.contract("SLOT-9")
def test_runs_that_a_start_ended(meter: Meter) -> None:
    meter.telemetry.emit("recovery", {"jobs": 3}, node=None, predecessor=None)
    meter.telemetry.emit("recovery", {"jobs": 0}, node=None, predecessor=None)
    assert meter.value("recovered_jobs_total") == 3


def test_who_leads_and_who_is_exclusive(meter: Meter) -> None:
    assert (meter.value("is_leader"), meter.value("leader_epoch"), meter.value("is_exclusive")) == (0, 0, 0)
    meter.telemetry.emit("leader.elected", {"epoch": 7}, node=None, lease=None)
    meter.telemetry.emit("exclusive.taken", {"epoch": 2}, node=None, lease=None)
    assert (meter.value("is_leader"), meter.value("leader_epoch"), meter.value("is_exclusive")) == (1, 7, 1)
    meter.telemetry.emit("leader.lost", {"epoch": 7}, node=None, why="")
    meter.telemetry.emit("exclusive.lost", {}, node=None, why="")
    assert (meter.value("is_leader"), meter.value("leader_epoch"), meter.value("is_exclusive")) == (0, 7, 0)
    counts = ("elections_total", "leads_lost_total", "exclusive_taken_total", "exclusive_lost_total")
    assert [meter.value(name) for name in counts] == [1, 1, 1, 1]


def a_standing(node: Node, *, epoch: int | None = None, holder: Any = None, alive: bool = True) -> Any:
    return SimpleNamespace(
        node=node,
        membership=SimpleNamespace(is_alive=lambda: alive),
        seating=SimpleNamespace(allowed={"mail": 3}),
        leadership=SimpleNamespace(epoch=epoch),
        exclusivity=SimpleNamespace(holder=holder, may_work=lambda: True),
    )


@pytest.mark.contract("SLOT-2")
def test_a_lead_that_ran_out_quietly_and_standing_by(meter: Meter) -> None:
    seats = SimpleNamespace(concurrency=1, running=0, waiting=0, aside=0)
    meter.telemetry.emit("leader.elected", {"epoch": 7}, node=None, lease=None)
    meter.metrics.follow(seats, 0, a_standing(a_node(), holder="another"))
    assert [meter.value(name) for name in ("is_leader", "is_exclusive", "standing_by")] == [0, 0, 1]
    exclusive = replace(a_node(), exclusive=True)
    meter.metrics.follow(seats, 0, a_standing(exclusive, epoch=7))
    assert [meter.value(name) for name in ("is_leader", "is_exclusive", "standing_by")] == [1, 1, 0]


async def test_an_outage_is_told_by_the_leader_after_it(store: Store) -> None:
    old, new, clock, telemetry = a_node("old"), a_node("new"), VirtualClock(NOW), Telemetry()
    metrics = PrometheusMetrics(telemetry)
    for node in (old, new):
        await store.nodes.register(node)
    lease = await store.leases.acquire(LEADER, old.id, old.name, before(hours=1), before(minutes=59), respect=None)
    assert lease is not None
    leadership = Leadership(store, new, clock, telemetry, lambda: True, lease=15, poll=0.5)
    await leadership.tick(NOW)
    value = metrics.registry.get_sample_value
    assert (value("oncue_outages_total"), value("oncue_outage_seconds_total")) == (1, 3600)
    await leadership.resign()
    clock.advance(timedelta(seconds=1))
    await leadership.tick(clock.now())
    assert (value("oncue_elections_total"), value("oncue_outages_total")) == (2, 1), "a second is no outage"


@pytest.mark.contract("QUE-19")
async def test_a_real_leaders_metrics(database_url: str) -> None:
    app = Oncue(settings=load({"database_url": database_url, "poll_interval": "50ms"}, environment={}))
    metrics, ran = PrometheusMetrics(app.internals.telemetry), asyncio.Event()

    @app.task(schedule=cron("* * * * * *"))
    async def tick() -> None:
        ran.set()

    async with app.worker() as node:
        metrics.follow(node.executor, 0, node)
        await asyncio.wait_for(ran.wait(), 60)
        value = metrics.registry.get_sample_value
        assert (value("oncue_is_leader"), value("oncue_leader_epoch"), value("oncue_standing_by")) == (1, 1, 0)
        assert (value("oncue_slots_total", {"schedule": "tick", "verdict": "fired", "reason": ""}) or 0) >= 1
        assert (value("oncue_slot_lateness_seconds_count", {"verdict": "fired"}) or 0) >= 1
    await app.aclose()
    assert value("oncue_is_leader") == 0, "the lead was given up"
