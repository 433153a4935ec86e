"""One active worker: it works and leads, everybody else stands by, says for whom, and takes over in time."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from oncue.policy.options import Options
from oncue.sim.checker import check
from oncue.sim.driver import finish
from oncue.sim.script import Act
from oncue.sim.world import PACE, Member, World
from oncue.store.contract import EXCLUSIVE
from tests.engine.rig import audit_holds, execute


def working(world: World) -> list[str]:
    return [name for name, member in world.members.items() if member.alive and member.worker.may_work()]


def leading(world: World) -> list[str]:
    return [name for name, member in world.members.items() if member.leads]


def pair(seed: int = 1, **options: Any) -> tuple[World, Member, Member]:
    """An exclusive worker and another that would be one."""
    world = World(seed, **options)
    active = world.boot("active", exclusive=True)
    world.run(0.5)
    standby = world.boot("standby", exclusive=True)
    world.run(0.5)
    return world, active, standby


def starts(world: World) -> list[str]:
    return [event.node for event in world.history.events if event.kind == "start"]


def kept(world: World) -> bool:
    violations = check(world.history.events, world.final())
    assert not violations, "\n".join(map(str, violations))
    return True


@pytest.mark.contract("SLOT-2")
def test_the_one_that_stands_by_claims_nothing_leads_nothing_and_says_for_whom(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "oncue.exclusivity"):
        world, active, standby = pair()
    world.schedule("often", "@every 1s")
    for _ in range(20):
        world.enqueue(Act(seconds=0.5))
    world.run(30.0)
    assert (working(world), leading(world)) == (["active"], ["active"])
    assert set(starts(world)) == {"active.1"}
    assert standby.worker.exclusivity.holder is not None
    assert standby.worker.exclusivity.holder.holder == active.worker.node.id
    lines = [record.message for record in caplog.records]
    assert lines == [
        "active is the exclusive worker now (epoch 1)",
        f"standby stands by: active ({active.worker.node.id}) is the exclusive worker",
    ], "once, not at every beat"


@pytest.mark.contract("SLOT-2")
@pytest.mark.parametrize("moment", [0.0, 0.4, 0.9])
def test_it_takes_over_when_the_lease_ends(moment: float, caplog: pytest.LogCaptureFixture) -> None:
    world, _, standby = pair()
    world.schedule("often", "@every 1s")
    world.run(5.0 + moment)
    lease = finish(world.store.leases.get(EXCLUSIVE))
    assert lease is not None
    world.crash("active")
    world.run((lease.expires_at - world.clock.now()).total_seconds() - 0.05)
    assert working(world) == []
    with caplog.at_level(logging.INFO, "oncue.exclusivity"):
        world.run(0.1)
    assert working(world) == ["standby"]
    assert standby.worker.exclusivity.holder is None
    assert "standby stands by no more" in caplog.text
    world.run(PACE.lease + PACE.poll)
    assert leading(world) == ["standby"]
    world.run(5.0)
    assert starts(world)[-1] == "standby.1"
    assert audit_holds(world, "often")
    assert kept(world)


@pytest.mark.contract("SLOT-2")
def test_one_that_leaves_in_good_order_is_followed_at_the_next_beat() -> None:
    world, _, _ = pair()
    world.run(3.0)
    world.stop("active", within=0.0)
    world.run(PACE.beat)
    assert working(world) == ["standby"]
    world.run(PACE.lease / 3 + PACE.poll)
    assert leading(world) == ["standby"]


@pytest.mark.contract("SLOT-2")
def test_workers_that_do_not_ask_for_it_stand_by_as_well() -> None:
    world = World(1)
    plain = world.boot("plain")
    world.run(1.0)
    assert (working(world), leading(world)) == (["plain"], ["plain"])
    world.boot("active", exclusive=True)
    world.run(PACE.lease + PACE.poll + PACE.beat)
    assert (working(world), leading(world)) == (["active"], ["active"])
    assert plain.worker.exclusivity.holder is not None
    before = len(starts(world))
    jobs = [world.enqueue(Act(seconds=0.2)) for _ in range(10)]
    world.run(5.0)
    assert set(starts(world)[before:]) == {"active.1"}
    assert {world.job(job).state for job in jobs} == {"succeeded"}
    world.stop("active", within=0.0)
    world.run(PACE.beat + PACE.lease / 3 + PACE.poll)
    assert (working(world), leading(world)) == (["plain"], ["plain"])


@pytest.mark.contract("SLOT-2")
@pytest.mark.parametrize("verb", ["leases.acquire", "nodes.namesakes"])
def test_a_lost_reply_does_not_make_a_worker_stand_by_for_itself(verb: str, caplog: pytest.LogCaptureFixture) -> None:
    """Neither that of the lease itself, nor of what it looks after before it works."""
    world = World(1)
    member = world.boot("active", exclusive=True)
    member.worker.recovery._store = member.wire.as_store()
    if verb == "leases.acquire":
        member.wire.lose_reply(verb)
    else:
        failing = iter([True])
        real = member.wire.pass_on

        async def once(asked: str, *rest: Any) -> Any:
            if asked == verb and finish_count(world) and next(failing, False):
                member.wire.down = True
            return await real(asked, *rest)

        member.wire.pass_on = once  # type: ignore[method-assign]
    world.run(0.05)
    assert working(world) == []
    member.wire.down = False
    assert world.run_until(lambda: working(world) == ["active"], PACE.beat, look=0.05)
    lease = finish(world.store.leases.get(EXCLUSIVE))
    assert lease is not None
    assert (lease.epoch, lease.expires_at) == (1, member.worker.exclusivity.until)
    assert "stands by" not in caplog.text


def finish_count(world: World) -> bool:
    """Whether the exclusive lease is taken in the database."""
    return finish(world.store.leases.get(EXCLUSIVE)) is not None


def test_one_that_cannot_renew_stops_its_jobs_before_its_lease_ends() -> None:
    world, active, _ = pair()
    world.run(2.0)
    job = world.enqueue(Act(seconds=60.0), options=Options())
    world.run(0.5)
    assert active.executor.busy == 1
    lease = finish(world.store.leases.get(EXCLUSIVE))
    assert lease is not None
    active.wire.down = True
    while world.clock.now() < lease.expires_at:
        busy = active.executor.busy
        world.run(0.05)
    assert busy == 0
    world.run(3 * PACE.lease)
    assert starts(world) == ["active.1", "standby.1"]
    assert world.job(job).state == "running"
    active.wire.down = False
    world.run(5.0)
    assert (working(world), leading(world)) == (["standby"], ["standby"])
    assert kept(world)


def test_a_zombie_finds_itself_standing_by() -> None:
    for seed in range(10):
        world, active, _ = pair(seed, latency=0.1)
        world.schedule("often", "@every 1s", missed="each", max_instances=50)
        world.run(4.0 + seed * 0.07)
        world.pause("active")
        world.run(8.0)
        assert working(world) == ["active", "standby"][1:] or not active.worker.may_work()
        world.resume("active")
        world.run(8.0)
        assert (working(world), leading(world)) == (["standby"], ["standby"])
        assert active.worker.exclusivity.holder is not None
        assert audit_holds(world, "often")
        assert kept(world)


def test_one_that_slept_and_was_not_missed_goes_on_with_its_jobs() -> None:
    """A laptop's lid: its lease is over, and nobody has taken it."""
    for seed in range(10):
        world = World(seed)
        member = world.boot("active", exclusive=True)
        world.run(1.0)
        job = world.enqueue(Act(seconds=8.0), options=Options("at_most_once", None, 3600.0), max_retries=0)
        world.run(1.0)
        heard: list[str] = []
        member.telemetry.subscribe(lambda event, _, __, heard=heard: heard.append(event), "exclusive.lost")
        world.pause("active")
        world.run(600.0)
        world.resume("active")
        world.run(10.0)
        assert world.job(job).state == "succeeded"
        assert (working(world), leading(world), heard) == (["active"], ["active"], [])
        assert kept(world)


@pytest.mark.contract("SLOT-2")
@pytest.mark.parametrize("gone", [False, True])
def test_who_finds_that_another_was_exclusive_meanwhile_stops_its_jobs(gone: bool) -> None:
    """Also if that one is gone again, and nobody is in its way: what it had begun may have been begun by others."""
    world, active, _ = pair()
    world.enqueue(Act(seconds=60.0), options=Options())
    world.run(0.5)
    active.frozen = frozenset({"exclusivity"})
    world.run(PACE.lease + PACE.beat)
    assert working(world) == ["standby"]
    if gone:
        world.stop("standby", within=0.0)
        world.run(0.5)
    active.frozen = frozenset()
    world.driver.plan(active.named["exclusivity"], world.clock.now())
    world.run(2 * PACE.beat)
    assert working(world) == (["active"] if gone else ["standby"])
    ended = [(event.node, event.fields["outcome"]) for event in world.history.events if event.kind == "outcome"]
    assert ended == [("active.1", "Released")]


@pytest.mark.contract("SLOT-2")
def test_a_lease_that_was_found_after_a_lost_reply_lasts_no_longer_than_the_database_says() -> None:
    """Somebody ended the lease by hand; the node took it anew and did not hear of it. Then its heartbeat is stuck."""
    world = World(1)
    member = world.boot("active", exclusive=True)
    world.run(0.5)
    execute(world, "update oncue_leases set expires_at = 0 where name = :name", name=EXCLUSIVE)
    member.wire.lose_reply("leases.acquire")
    world.run(PACE.beat * 1.5)
    member.frozen = frozenset({"exclusivity"})
    lease = finish(world.store.leases.get(EXCLUSIVE))
    assert lease is not None
    assert (lease.epoch, lease.acquired_at) == (2, lease.renewed_at), "a second look found what the first had taken"
    assert working(world) == ["active"]
    world.run((lease.expires_at - world.clock.now()).total_seconds())
    assert working(world) == []


@pytest.mark.contract("SLOT-2")
def test_never_two_at_once_whatever_happens() -> None:
    for seed in range(15):
        world = World(seed, latency=0.05)
        names = ("one", "two", "three")
        for name in names:
            world.boot(name, exclusive=True)
        world.run(1.0)
        for _ in range(6):
            victim = world.dice.choice(names)
            match world.dice.randrange(3):
                case 0:
                    world.crash(victim)
                case 1:
                    world.pause(victim)
                case _:
                    world.members[victim].wire.down = True
            for _ in range(40):
                world.run(0.1)
                awake = [name for name in working(world) if not world.members[name].paused]
                assert len(awake) <= 1
            world.members[victim].wire.down = False
            world.resume(victim)
            world.revive(victim)
        world.run(3 * PACE.lease)
        assert len(working(world)) == 1
        assert leading(world) == working(world)


def test_telemetry_tells_who_is_exclusive() -> None:
    world = World(1)
    member = world.boot("active", exclusive=True)
    heard: list[str] = []

    def hear(event: str, measured: Mapping[str, float], _: Mapping[str, Any]) -> None:
        heard.append(event)

    member.telemetry.subscribe(hear, "exclusive.taken", "exclusive.lost")
    world.run(1.0)
    member.wire.down = True
    world.run(PACE.lease)
    assert heard == ["exclusive.taken", "exclusive.lost"]


@pytest.mark.contract("SLOT-2")
def test_a_leader_that_has_to_stand_by_gives_up_the_lead() -> None:
    world = World(1)
    world.boot("ordinary")
    world.run(2.0)
    assert leading(world) == ["ordinary"]
    world.boot("only", exclusive=True)
    world.run(2 * PACE.lease / 3 + PACE.poll)
    assert (working(world), leading(world)) == (["only"], ["only"]), "long before the old lease would have ended"
