"""Jobs whose process died under them, under virtual time: who is charged, what company they get, who is poison."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest

from oncue.policy.suspicion import PATIENCE_SECONDS
from oncue.sim.driver import finish
from oncue.sim.operator import OPTIONS
from oncue.sim.script import Act
from oncue.sim.world import PACE, World

ENDLESS = dataclasses.replace(OPTIONS, timeout=None, max_runtime=None)


def cluster(*names: str, concurrency: int = 8, seed: int = 1) -> World:
    world = World(seed, concurrency=concurrency)
    for name in names:
        world.boot(name)
    world.run(PACE.lease + 1.0)  # whoever is new judges nobody
    return world


def kill(world: World, name: str, after: float = 0.5) -> None:
    world.run(after)
    world.crash(name)
    world.run(PACE.lease + 0.5)
    world.revive(name)


def test_after_one_death_all_of_them_run_again_at_once() -> None:
    world = cluster("a", "b", concurrency=64)
    world.members["b"].executor.concurrency = 0
    jobs = [world.enqueue(Act(seconds=5.0)) for _ in range(64)]
    world.run(1.0)
    world.crash("a")
    world.members["b"].executor.concurrency = 64
    assert world.run_until(world.drained, PACE.lease + 5.0 + 1.0)
    assert {(world.job(job).state, world.job(job).crashes, world.job(job).attempt) for job in jobs} == {
        ("succeeded", 1, 2)
    }


def test_a_rescue_comes_when_the_lease_ends() -> None:
    world = cluster("a", "b")
    world.members["b"].executor.concurrency = 0
    job = world.enqueue(Act(seconds=60.0), options=ENDLESS)
    world.run(10.0)
    ends = world.members["a"].worker.membership.expires_at
    world.crash("a")
    assert ends is not None
    assert world.run_until(lambda: world.job(job).state == "queued", 2 * PACE.lease)
    assert world.job(job).updated_at - ends < timedelta(seconds=0.1)


@pytest.mark.parametrize("seed", range(5))
def test_an_innocent_beside_three_different_killers_survives(seed: int) -> None:
    """It takes long, and each of the others takes its process down; it was poison once."""
    world = cluster("a", seed=seed)
    innocent = world.enqueue(Act(seconds=20.0), options=ENDLESS)
    killers = [world.enqueue(Act("crash", seconds=2.0 + number), options=ENDLESS) for number in range(3)]
    assert world.run_until(world.drained, 600)
    assert [world.job(job).reason for job in killers] == ["poison"] * 3
    assert [world.job(job).crashes for job in killers] == [5] * 3
    assert world.job(innocent).state == "succeeded"


def test_kills_by_hand_are_no_poison_while_others_run_beside_it() -> None:
    world = cluster("a")
    innocent = world.enqueue(Act(seconds=100.0), options=ENDLESS)
    for _ in range(3):
        others = [world.enqueue(Act(seconds=3.0)) for _ in range(3)]
        kill(world, "a", after=2.0)
        world.run_until(lambda: all(world.job(job).finished for job in others), 30)  # noqa: B023
    assert world.run_until(world.drained, 300)
    assert world.job(innocent).state == "succeeded"


def test_never_is_never_charged_and_never_kept_apart() -> None:
    world = cluster("a")
    spot = dataclasses.replace(ENDLESS, max_crashes=None)
    jobs = [world.enqueue(Act(seconds=10.0), options=spot) for _ in range(3)]
    for _ in range(7):
        kill(world, "a", after=2.0)
    assert world.run_until(world.drained, 60)
    assert {(world.job(job).state, world.job(job).crashes) for job in jobs} == {("succeeded", 0)}
    assert max(world.job(job).attempt for job in jobs) > 5


def test_a_busy_node_makes_room_for_a_job_that_has_to_run_alone() -> None:
    """It takes it when it has waited for a minute, begins nothing else, and lets what runs there end."""
    world = cluster("a", concurrency=2)
    killer = world.enqueue(Act("crash", seconds=1.0), options=ENDLESS)
    assert world.run_until(lambda: world.job(killer).crashes == 3, 120)
    for _ in range(60):
        world.enqueue(Act(seconds=4.0))
    since = world.clock.now()
    assert world.run_until(lambda: world.job(killer).state == "running" or world.job(killer).finished, 200)
    waited = (world.clock.now() - since).total_seconds()
    assert waited < PATIENCE_SECONDS + 20.0
    assert world.run_until(world.drained, 900)
    assert (world.job(killer).reason, world.job(killer).crashes) == ("poison", 5)
    assert {job.state for job in world.jobs() if job.id != killer} == {"succeeded"}


def test_a_job_that_waits_to_run_alone_can_be_cancelled() -> None:
    world = cluster("a", concurrency=2)
    long = world.enqueue(Act(seconds=300.0), options=ENDLESS)
    suspect = world.enqueue(Act(), options=ENDLESS, delay=1.0)
    charge = "update oncue_jobs set crashes = 3, isolation = 2 where id = ?"
    finish(world.store._writer.write(lambda connection: connection.execute(charge, (suspect,))))
    assert world.run_until(lambda: world.job(suspect).state == "running", 2 * PATIENCE_SECONDS)
    world.run(10 * PACE.lease)
    assert (world.job(suspect).started_at, world.job(long).state) == (None, "running")
    world.errand(world.colleague.cancel(suspect))
    world.run(3.0)
    assert world.job(suspect).state == "cancelled"
