"""Aging and pruning at the pace that the settings say, and slots whose key is held, under virtual time."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from oncue.model import Revised, Session, Token
from oncue.policy.aging import Rules
from oncue.policy.options import Options
from oncue.sim.driver import finish
from oncue.sim.script import Act
from oncue.sim.world import PACE, World


def gained(rules: Rules, seconds: float) -> int:
    """How much priority a job has gained that no node serves, after so long."""
    world = World(1, pace=replace(PACE, aging=rules))
    world.boot("alone")
    waits = world.enqueue(queue="nobody-serves-it")
    world.run(seconds)
    return world.job(waits).priority


@pytest.mark.contract("QUE-2", "QUE-18")
def test_aging_follows_its_settings() -> None:
    assert gained(Rules(every=60.0, after=120.0, gain=7), 110.0) == 0
    assert gained(Rules(every=60.0, after=120.0, gain=7), 400.0) in (28, 35)
    assert gained(Rules(every=60.0, after=120.0, gain=50), 400.0) == 100
    assert gained(Rules(every=60.0, after=120.0, gain=0), 400.0) == 0


@pytest.mark.contract("QUE-18")
def test_pruning_follows_its_settings() -> None:
    left = {}
    for interval in (10.0, 600.0):
        world = World(1, pace=replace(PACE, retention=20.0, maintenance=interval))
        world.boot("alone")
        world.run(5.0)
        job = world.enqueue()
        world.run(60.0)
        left[interval] = any(found.id == job for found in world.jobs())
    assert left == {10.0: False, 600.0: True}


def test_a_session_that_is_over_is_pruned_after_a_day() -> None:
    world = World(1)
    world.boot("alone")
    now = world.clock.now()
    finish(world.store.tokens.add(Token("t", "ada", "digest", ("read",), "ada", now)))
    for name, hours in (("long-ago", 25), ("yesterday", 23)):
        over = now - timedelta(hours=hours)
        finish(world.store.sessions.add(Session(name, "digest", "t", over - timedelta(hours=1), over)))
    world.run(120.0)
    left = [finish(world.store.sessions.get(name)) is not None for name in ("long-ago", "yesterday")]
    assert left == [False, True]


@pytest.mark.contract("QUE-3", "QUE-9", "SLOT-5")
def test_a_holder_of_the_key_that_is_over_its_maximum_runtime_is_settled_before_a_slot_is_skipped_for_it() -> None:
    once = Options("at_most_once", None, 10.0)
    world = World(1)
    world.boot("alone")
    world.run(1.0)
    made = world.schedule("often", "@every 60s", options=once)
    keyed = replace(made, key="k", version=made.version + 1)
    assert finish(world.store.schedules.revise([Revised(keyed, made.version, None)], world.clock.now())) == [True]
    stuck = world.enqueue(Act("hang", stubborn=True), options=once, max_retries=0, keys=["k"], task=made.task)
    world.run(90.0)
    (slot,) = world.slots("often")
    assert (world.job(stuck).state, slot.verdict) == ("skipped", "fired")
    assert slot.job_id is not None
    assert world.job(slot.job_id).key == "k"


@pytest.mark.contract("QUE-3", "SLOT-5")
def test_while_another_job_has_the_key_slots_are_skipped_and_then_they_fire_again() -> None:
    world = World(1)
    world.boot("alone")
    world.run(1.0)
    made = world.schedule("often", "@every 7s")
    keyed = replace(made, key="k", version=made.version + 1)
    assert finish(world.store.schedules.revise([Revised(keyed, made.version, None)], world.clock.now())) == [True]
    patient = Options("at_least_once", None, 100.0)
    holder = world.enqueue(Act("ok", seconds=20.0), options=patient, keys=["k"], task=made.task)
    world.run(40.0)
    slots = world.slots("often")
    assert [slot.verdict for slot in slots] == ["skipped", "skipped", "fired", "fired", "fired"]
    assert {(slot.reason, slot.blocked_by) for slot in slots[:2]} == {("key_held", holder)}
