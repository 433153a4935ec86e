"""Who leads: one at a time, taken over in time, and never to the harm of a slot."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from oncue.engine.leadership import OnLeader
from oncue.engine.service import Signal
from oncue.model import Lease
from oncue.sim.checker import check
from oncue.sim.driver import finish
from oncue.sim.script import Act
from oncue.sim.wire import Wire
from oncue.sim.world import PACE, World
from oncue.store.contract import EXCLUSIVE, LEADER
from oncue.store.sqlite.leases import SqliteLeases
from tests.engine.rig import Leader, audit_holds, execute, fired, since, take_turns, verdicts

NAMES = ("one", "two", "three")


def cluster(seed: int = 1, **options: object) -> World:
    world = World(seed, **options)  # type: ignore[arg-type]
    for name in NAMES:
        world.boot(name)
    world.run(1.0)
    return world


def leaders(world: World) -> list[str]:
    return [name for name, member in world.members.items() if member.leads]


def leader(world: World) -> str:
    (name,) = leaders(world)
    return name


def epoch(world: World) -> int:
    lease = finish(world.store.leases.get(LEADER))
    assert lease is not None
    return lease.epoch


def kept(world: World) -> bool:
    violations = check(world.history.events, world.final())
    assert not violations, "\n".join(map(str, violations))
    return True


def test_one_node_leads_and_goes_on_leading() -> None:
    world = cluster()
    first = leader(world)
    for _ in range(100):
        world.run(1.0)
        assert leaders(world) == [first]
    assert epoch(world) == 1


@pytest.mark.contract("SLOT-16")
@pytest.mark.parametrize("moment", [0.0, 0.3, 0.7, 0.95])
@pytest.mark.parametrize("hints", [0.0, 1.0])
def test_another_leads_within_the_lease_and_a_poll_of_its_death(moment: float, hints: float) -> None:
    world = cluster(hints=hints)
    world.run(moment)
    victim = leader(world)
    world.crash(victim)
    world.run(PACE.lease + PACE.poll)
    assert leader(world) != victim
    assert epoch(world) == 2


@pytest.mark.contract("SLOT-16")
def test_a_new_leader_works_from_the_stored_cursor() -> None:
    world = cluster()
    made = world.schedule("often", "@every 1s", missed="each", max_instances=100)
    world.run(5.2)
    world.crash(leader(world))
    world.run(10.0)
    assert verdicts(world, "often") == ["fired"] * 15
    assert fired(world, "often") == since(made, *range(1, 16))
    assert audit_holds(world, "often")
    assert kept(world)


@pytest.mark.contract("SLOT-16")
def test_what_a_new_leader_does_not_fire_has_a_row() -> None:
    world = cluster()
    world.schedule("often", "@every 1s", missed="latest", grace=1.0)
    world.run(5.2)
    for name in NAMES:
        world.crash(name)
    world.run(60.0)
    world.boot("four")
    world.run(5.0)
    rows = world.slots("often")
    assert {row.verdict for row in rows} >= {"fired", "missed"}
    (missed,) = [row for row in rows if row.verdict == "missed"]
    assert missed.slots > 50
    assert sum(row.slots for row in rows) == 70
    assert audit_holds(world, "often")


def test_who_resigns_is_followed_at_the_next_look() -> None:
    world = cluster()
    first = leader(world)
    world.stop(first, within=0.0)
    world.run(PACE.poll)
    assert leader(world) != first
    deaf = cluster(hints=0.0)
    deaf.stop(leader(deaf), within=0.0)
    deaf.run(PACE.lease / 3 + PACE.poll)
    assert len(leaders(deaf)) == 1


def test_a_leader_that_is_cut_off_stops_before_its_lease_ends_and_nobody_leads_beside_it() -> None:
    for seed in range(5):
        world = cluster(seed)
        world.run(seed * 0.2)
        first = leader(world)
        world.members[first].wire.down = True
        lease = finish(world.store.leases.get(LEADER))
        assert lease is not None
        while world.clock.now() < lease.expires_at:
            assert leaders(world) in ([first], [])
            world.run(0.1)
        assert not world.members[first].leads
        world.run(PACE.poll)
        second = leader(world)
        assert second != first
        world.members[first].wire.down = False
        world.run(10.0)
        assert leaders(world) == [second]
        assert kept(world)


def test_a_leader_whose_loop_is_stuck_loses_the_lead() -> None:
    """Its heartbeat goes on, so it keeps its jobs; but who cannot fire must not lead."""
    world = cluster()
    stuck = leader(world)
    world.members[stuck].freeze_all_but("membership")
    world.run(PACE.lease + PACE.poll)
    assert leader(world) != stuck


@pytest.mark.contract("SLOT-16")
def test_a_zombie_fires_nothing_under_its_old_epoch() -> None:
    for seed in range(20):
        world = World(seed, latency=0.2)
        for name in NAMES[:2]:
            world.boot(name)
        world.run(2.0)
        world.schedule("often", "@every 1s", missed="each", max_instances=100)
        world.run(3.0 + seed * 0.05)
        zombie = leader(world)
        world.pause(zombie)
        world.run(6.0)
        world.resume(zombie)
        world.run(6.0)
        assert leader(world) != zombie
        assert set(verdicts(world, "often")) == {"fired"}
        assert audit_holds(world, "often")
        assert kept(world)


@pytest.mark.contract("SLOT-3", "HOOK-1")
@pytest.mark.parametrize("fenced", [True, False])
def test_two_leaders_at_once_fire_nothing_twice(fenced: bool) -> None:
    """Both read what is due before either writes. Even without the epoch each slot is decided once."""
    world = World(1)
    made = world.schedule("often", "@every 1s")
    pair = [Leader(world, name, Wire(world._recorded(name), world.dice, 0.01).as_store()) for name in NAMES[:2]]
    for number, one in enumerate(pair):
        take_turns(one.leadership.tick(world.clock.now()))
        if number == 0:
            execute(world, "update oncue_leases set expires_at = 0")
    if not fenced:
        execute(world, "update oncue_leases set epoch = 1")
        pair[1].leadership.held = pair[0].leadership.held
        execute(world, "update oncue_leases set holder = :id", id=str(pair[0].node.id))
        pair[1].scheduler._node = pair[0].node.id
    for second in (1, 2, 3):
        now = made.created_at + timedelta(seconds=second)
        world.clock.advance_to(now)
        for one in pair:
            one.leadership.until = now + timedelta(seconds=9)
            one.clock.set_to(now)
        take_turns(*(one.scheduler.tick(now) for one in pair))
        for one in pair:
            take_turns(one.scheduler.tick(now))
    assert fired(world, "often")[:2] == since(made, 1, 2)[: len(fired(world, "often"))]
    assert len(world.slots("often")) == 3
    jobs = [job for job in world.jobs() if job.schedule_id == made.id]
    assert len(jobs) == len(fired(world, "often"))
    steps = [event for event in world.history.events if event.kind == "step"]
    assert sum(event.fields["accepted"] for event in steps) == 3
    assert len(steps) > 3, "the other one tried"


@pytest.mark.parametrize("verb", ["leases.renew", "leases.acquire"])
def test_after_a_lost_reply_a_node_does_not_lead_until_it_knows(verb: str) -> None:
    world = World(1)
    member = world.boot("alone")
    if verb == "leases.renew":
        world.run(0.5)
        assert member.leads
    member.wire.lose_reply(verb)
    while not any(event.kind == "tick.error" for event in world.history.events):
        world.run(0.05)
    held = [event.fields for event in world.history.events if event.kind == "hold"]
    assert held, "the database has it"
    assert not member.leads
    leadership = member.worker.leadership
    assert world.run_until(lambda: member.leads, 1.0, look=0.05), "it does not wait for the end of its own lease"
    lease = finish(world.store.leases.get(LEADER))
    assert lease is not None
    assert (lease.epoch, lease.expires_at) == (1, leadership.until), "nor does it lead for longer than that lasts"


@pytest.mark.parametrize("who", ["another", "itself"])
def test_who_is_overtaken_while_it_stands_does_not_lead(monkeypatch: pytest.MonkeyPatch, who: str) -> None:
    """By another node, or by a call of its own that it gave up: then the lease is not as long as it asked for now."""
    real, now = SqliteLeases.acquire, World(1).clock.now()

    async def acquire(self: SqliteLeases, name: str, *asked: Any, **options: Any) -> Lease | None:
        holder = node.node.id if who == "itself" else uuid4()
        await real(self, name, holder, "first", now, now + timedelta(seconds=1), respect=None)
        return await real(self, name, *asked, **options)

    monkeypatch.setattr(SqliteLeases, "acquire", acquire)
    node = Leader(World(1), "leader")
    finish(node.leadership.tick(now))
    assert node.leadership.epoch is None


def test_nobody_stands_beside_an_exclusive_node_that_it_has_not_heard_of() -> None:
    world = World(1)
    node, now = Leader(world, "leader"), world.clock.now()
    finish(world.store.leases.acquire(EXCLUSIVE, uuid4(), "other", now, now + timedelta(seconds=9), respect=None))
    node.tick()
    assert node.leadership.epoch is None


def test_a_leader_whose_own_lease_is_over_gives_up_the_lead() -> None:
    world = World(1)
    member = world.boot("alone")
    world.run(1.0)
    assert member.leads
    member.worker.membership.expires_at = None
    member.frozen = frozenset({"membership"})
    world.run(PACE.lease / 3)
    lease = finish(world.store.leases.get(LEADER))
    assert lease is not None
    assert not member.leads
    assert lease.expires_at <= world.clock.now(), "nobody has to wait for its end"


def test_a_leader_that_slept_leads_anew_under_the_next_epoch() -> None:
    world = World(1)
    member = world.boot("alone")
    world.run(1.0)
    world.pause("alone")
    world.run(3600.0)
    world.resume("alone")
    world.run(1.0)
    assert member.leads
    assert epoch(world) == 2


def test_a_node_without_a_lease_of_its_own_does_not_stand() -> None:
    world = World(1)
    member = world.boot("alone")
    member.worker.leadership._is_alive = lambda: False
    world.run(20.0)
    assert not member.leads
    assert finish(world.store.leases.get(LEADER)) is None


def test_telemetry_tells_who_leads() -> None:
    world = World(1)
    member = world.boot("alone")
    heard: list[tuple[str, float]] = []
    member.telemetry.subscribe(
        lambda event, measured, _: heard.append((event, measured["epoch"])), "leader.elected", "leader.lost"
    )
    world.run(1.0)
    member.wire.down = True
    world.run(2.0)
    assert heard == [("leader.elected", 1), ("leader.lost", 1)]


class Counting:
    name = "counting"

    def __init__(self) -> None:
        self.signal = Signal()
        self.ticks = 0

    async def tick(self, now: datetime) -> datetime:
        self.ticks += 1
        return now + timedelta(seconds=1)


def test_what_only_the_leader_does_waits_elsewhere() -> None:
    world = cluster()
    first = leader(world)
    counting = {name: Counting() for name in NAMES}
    services = {
        name: OnLeader(counting[name], member.worker.leadership) for name, member in world.members.items()
    }  # fmt: skip
    for service in services.values():
        finish(service.tick(world.clock.now()))
    assert {name: one.ticks for name, one in counting.items()} == {name: int(name == first) for name in NAMES}
    assert services[first].signal is counting[first].signal


def test_what_only_the_leader_does_begins_with_its_election() -> None:
    world = World(1)
    member = world.boot("alone")
    waiting = OnLeader(Counting(), member.worker.leadership)
    finish(waiting.tick(world.clock.now()))
    assert not waiting.signal.take()
    world.run(0.1)
    assert waiting.signal.take()


def test_only_the_leader_releases_parked_jobs() -> None:
    world = cluster()
    seen: set[str] = set()
    for name, member in world.members.items():
        real = member.wire.pass_on

        async def noted(verb: str, *rest: object, name: str = name, real: object = real) -> object:
            if verb == "slots.release_parked":
                seen.add(name)
            return await real(verb, *rest)  # type: ignore[operator]

        member.wire.pass_on = noted  # type: ignore[method-assign]
    world.run(20.0)
    assert seen == {leader(world)}


def test_a_clock_that_steps_back_keeps_nobody_from_standing() -> None:
    world = World(1)
    one = Leader(world, "one")
    noon = world.clock.now()
    finish(world.store.leases.acquire(LEADER, one.node.id, "x", noon, noon, respect=None))
    stranger = "00000000-0000-4000-8000-000000000001"
    execute(world, "update oncue_leases set holder = :id, expires_at = :until", id=stranger, until=2**52)
    one.tick(noon)
    assert one.leadership.epoch is None
    execute(world, "update oncue_leases set expires_at = 0")
    one.tick(noon - timedelta(days=1))
    assert one.leadership.epoch is not None


def test_the_lead_survives_a_job_that_kills_its_leader() -> None:
    world = cluster()
    world.schedule("deadly", "@every 5s", Act("crash"), Act())
    world.run(60.0)
    assert len(leaders(world)) == 1
    assert audit_holds(world, "deadly")
    assert kept(world)
