"""One row that the database refuses does not stop a pass."""

from __future__ import annotations

import sqlite3

import pytest

from oncue.policy.options import Options
from oncue.sim.driver import finish
from oncue.sim.script import Act
from oncue.sim.world import PACE, World

HOUR = 3600.0


def refuse(world: World, job_id: int) -> None:
    """From here on the database takes no change of this job."""
    text = f"""
        create trigger refused before update on oncue_jobs when old.id = {job_id}
        begin select raise(abort, 'not this one'); end"""

    def work(connection: sqlite3.Connection) -> None:
        connection.execute(text)

    finish(world.store.database.write(work))


@pytest.mark.contract("QUE-9")
def test_a_job_that_cannot_be_rescued_keeps_no_other_from_it() -> None:
    world = World(1, concurrency=4)
    world.boot("dead")
    world.run(0.1)
    jobs = [world.enqueue(Act(seconds=HOUR), Act()) for _ in range(3)]
    world.run(0.5)
    world.crash("dead")
    refuse(world, jobs[1])
    world.boot("helper")
    world.run(4 * PACE.lease)
    assert [world.job(job).state for job in jobs] == ["succeeded", "running", "succeeded"]


@pytest.mark.contract("SLOT-10")
def test_a_job_that_cannot_be_ended_keeps_neither_others_nor_its_schedule() -> None:
    """It stays in its schedule's way, so that its next slots are skipped; they are not put off for ever."""
    world = World(1, concurrency=1)
    world.boot("busy")
    world.run(2 * PACE.lease)
    world.enqueue(Act(seconds=HOUR), options=Options(max_runtime=2 * HOUR))
    world.run(0.5)
    world.schedule("stuck", "@every 10s", max_instances=1, grace=5.0)
    world.schedule("other", "@every 10s", max_instances=1, grace=5.0)
    world.run(11.0)
    (waiting,) = [job.id for job in world.jobs() if job.id == world.slots("stuck")[-1].job_id]
    refuse(world, waiting)
    world.run(30.0)
    assert world.job(waiting).state == "queued"
    assert {slot.verdict for slot in world.slots("stuck")} == {"fired", "skipped"}
    assert {job.state for job in world.jobs() if job.id in {slot.job_id for slot in world.slots("other")[:-1]}} == {
        "skipped"
    }
