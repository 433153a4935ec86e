"""Jobs whose process died under them, under virtual time: who is charged, what company they get, who is poison."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest

from oncue.policy.suspicion import PATIENCE_SECONDS, ROOM_SECONDS
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
    finish(world.store.database.write(lambda connection: connection.execute(charge, (suspect,))))
    assert world.run_until(lambda: world.job(suspect).state == "running", 2 * PATIENCE_SECONDS)
    world.run(10 * PACE.lease)
    assert (world.job(suspect).started_at, world.job(long).state) == (None, "running")
    world.errand(world.colleague.jobs.cancel(suspect))
    world.run(3.0)
    assert world.job(suspect).state == "cancelled"


def suspected(world: World, *jobs: int) -> None:
    """Charge these with so many deaths that they have to run alone."""
    charge = f"update oncue_jobs set crashes = 3, isolation = 2 where id in ({', '.join(map(str, jobs))})"
    finish(world.store.database.write(lambda connection: connection.execute(charge)))


@pytest.mark.parametrize("in_processes", [(), ("other",)], ids=["one claim", "a claim for processes too"])
def test_between_two_jobs_that_run_alone_the_others_have_their_turn(in_processes: tuple[str, ...]) -> None:
    """Also when all of those have waited for so long that a busy node takes them, and with two claims at once."""
    world = cluster("a", concurrency=2)
    world.members["a"].worker.claimer._process_tasks = list(in_processes)
    alone = [world.enqueue(Act(seconds=30.0), options=ENDLESS, delay=1.0) for _ in range(5)]
    suspected(world, *alone)
    assert world.run_until(lambda: world.job(alone[0]).state == "running", 60)
    world.run(2.0)
    others = [world.enqueue(Act(seconds=1.0)) for _ in range(20)]
    assert world.run_until(lambda: all(world.job(job).finished for job in others), 60), [
        world.job(job).state for job in (*alone, *others)
    ]
    assert sum(world.job(job).finished for job in alone) == 1
    assert world.run_until(world.drained, 300)
    late = [world.enqueue(Act(seconds=30.0), options=ENDLESS, delay=1.0) for _ in range(5)]
    suspected(world, *late)
    for _ in range(200):
        world.enqueue(Act(seconds=1.0))
    assert world.run_until(lambda: world.job(late[0]).finished, 200)
    before = sum(not job.finished for job in world.jobs())
    world.run(10.0)
    assert sum(not job.finished for job in world.jobs()) < before - 10
    assert world.run_until(world.drained, 900)


def test_a_node_does_not_wait_for_ever_to_be_empty() -> None:
    """Beside a job that takes hours, one that has to run alone is given back, and the others have their turn."""
    world = cluster("a", concurrency=2)
    world.enqueue(Act(seconds=7200.0), options=ENDLESS)
    suspect = world.enqueue(Act(), options=ENDLESS, delay=1.0)
    suspected(world, suspect)
    assert world.run_until(lambda: world.job(suspect).state == "running", 2 * PATIENCE_SECONDS)
    others = [world.enqueue(Act(seconds=1.0)) for _ in range(10)]
    assert world.run_until(lambda: all(world.job(job).finished for job in others), ROOM_SECONDS + 60)
    assert world.job(suspect).crashes == 3
    assert world.run_until(lambda: world.job(suspect).finished, 9000)


def test_kills_by_hand_meet_a_different_job_each_time() -> None:
    """Of several innocents that have to run alone none dies twice before all have died once."""
    world = cluster("a")
    jobs = [world.enqueue(Act(seconds=20.0), options=ENDLESS, delay=1.0) for _ in range(8)]
    suspected(world, *jobs)
    for _ in range(6):
        assert world.run_until(lambda: any(job.state == "running" and job.started_at for job in world.jobs()), 60)
        kill(world, "a", after=2.0)
    assert world.run_until(world.drained, 600)
    assert {world.job(job).state for job in jobs} == {"succeeded"}
