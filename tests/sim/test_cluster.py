"""Cluster jobs under random faults; and what quiet time must not skip."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from oncue.model import Claim
from oncue.sim.checker import check, report
from oncue.sim.cluster import CREW, Terms, cluster_job, declare, simulate_cluster
from oncue.sim.driver import finish
from oncue.sim.script import Act
from oncue.sim.world import World
from oncue.tasks.cluster import PART

CHUNK = 10


@pytest.mark.contract("CLUS-1", "CLUS-6", "CLUS-7", "CLUS-8", "CLUS-9", "CLUS-12")
@pytest.mark.parametrize("first", [0, CHUNK])
def test_every_promise_is_kept_in_cluster_jobs(first: int) -> None:
    """A simulation in which nothing goes wrong would prove nothing: it is looked at for that too."""
    reached: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        world, violations = simulate_cluster(seed)
        assert not violations, f"seed {seed}: {report(violations)}"
        reached += met(world)
        world.close()
    happened = (
        "crash",
        "lease.end",
        "spread",
        "quorum",
        "no quorum",
        "cancel",
        "lost part",
        "failed part",
        "late part",
    )
    assert min(reached[kind] for kind in happened) > 0, reached
    assert min(reached[state] for state in ("succeeded", "failed", "skipped", "cancelled")) > 0, reached
    assert reached["spread"] > 80, reached


def met(world: World) -> Counter[str]:
    found = Counter(event.kind for event in world.history.events)
    clusters = finish(world.store.all_cluster_jobs(world.server.now()))
    found.update({True: "quorum", False: "no quorum"}[one.quorum] for one in clusters if one.quorum is not None)
    found.update(one.job.state for one in clusters)
    for part in [part for one in clusters for part in one.parts]:
        found["lost part"] += part.error == "node_lost"
        found["failed part"] += part.state == "failed"
        found["late part"] += part.was_open is True and part.state == "succeeded"
    return found


def test_the_same_seed_gives_the_same_history_of_cluster_jobs() -> None:
    first, second, other = (simulate_cluster(seed)[0] for seed in (3, 3, 4))
    assert first.history.digest() == second.history.digest()
    assert first.history.digest() != other.history.digest()
    for world in (first, second, other):
        world.close()


# --- quiet time -----------------------------------------------------------------------------------------------------

HOUR = timedelta(hours=1)


def acts(claim: Claim) -> Act:
    """One part hangs for longer than anything waits for it."""
    return Act("hang") if claim.task.endswith(PART) and claim.address == "node:slow" else Act(seconds=0.1)


@pytest.mark.contract("CLUS-8")
@pytest.mark.parametrize("elide", [True, False])
def test_quiet_time_does_not_skip_a_time_out(elide: bool) -> None:
    """Of two parts one is done. The leader goes on without the other two minutes later, and not after that."""
    world = World(1, crew=CREW, script=acts, elide=elide, hints=0.0)
    declare(world, Terms(quorum_timeout=120.0, max_runtime="2h", timeout="2h"))
    world.boot("leader")
    world.run(4.0)
    world.boot("slow")
    world.run(8.0)
    batch = cluster_job(world)
    world.submit(batch)
    world.run(140.0)
    (cluster,) = finish(world.store.cluster.get(batch.ids, world.server.now()))
    own = next(part for part in cluster.parts if part.node_name == "leader")
    assert own.finished_at is not None
    assert cluster.decided_at is not None
    assert cluster.quorum is False
    waited = (cluster.decided_at - own.finished_at).total_seconds()
    assert 120.0 <= waited < 120.6
    assert (cluster.job.state, cluster.parts[1].was_open) == ("succeeded", True)
    assert check(world.history.events, world.final(), lease=world.pace.lease) == []
    calls = sum(member.wire.calls for member in world.members.values())
    assert (calls < 1200) is elide
    world.close()


@pytest.mark.contract("CLUS-9")
def test_quiet_time_ends_where_a_cluster_job_waits_for_its_parts() -> None:
    """No wake-up comes, and nothing else is to be done: the leader is there when the wish is due."""
    world = World(1, crew=CREW, script=acts, elide=True, hints=0.0)
    declare(world, Terms())
    world.boot("leader")
    world.run(10.0)
    batch = cluster_job(world, delay=HOUR.total_seconds())
    world.submit(batch)
    world.run(HOUR.total_seconds() + 5.0)
    job = world.job(batch.ids[0])
    assert job.state == "succeeded"
    assert job.finished_at is not None
    assert timedelta(0) < job.finished_at - batch.visible_at < timedelta(seconds=3)
    world.close()
