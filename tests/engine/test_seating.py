"""How nodes share the seats of a limited queue, under virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from oncue.engine.seating import Seating
from oncue.errors import StoreUnavailable
from oncue.model import Limits
from oncue.policy.options import Options
from oncue.policy.seats import TURN_SECONDS
from oncue.sim.driver import finish
from oncue.sim.member import Crew
from oncue.sim.script import Act
from oncue.sim.world import PACE, World
from oncue.store import Store
from tests.store.scene import NOW, after, enter, put

LONG = Act("ok", 5.0)
PATIENT = Options(timeout=None, max_runtime=3600.0)


def seats(world: World, queue: str = "default") -> dict[str, int]:
    """Who holds how many, by the name of the node."""
    names = {member.worker.node.id: name for name, member in world.members.items() if member.alive}
    (seating,) = finish(world.store.queues.seating([queue], ["scripted"]))
    return {names[seat.node]: seat.seats for seat in seating.seats if seat.node in names and seat.seats}


def running(world: World) -> dict[str, int]:
    alive = {name: member for name, member in world.members.items() if member.alive}
    return {name: member.executor.running for name, member in alive.items() if member.executor.running}


def limited(limit: int, *names: str, jobs: int, concurrency: int = 8) -> World:
    world = World(1, concurrency=concurrency)
    world.limit(limit)
    for name in names:
        world.boot(name)
    for _ in range(jobs):
        world.enqueue(LONG)
    world.run(8.0)  # whoever was there first took all the seats: they are shared as its jobs end
    return world


def test_nodes_share_the_seats_evenly() -> None:
    world = limited(6, "a", "b", "c", jobs=20)
    assert running(world) == {"a": 2, "b": 2, "c": 2}
    assert world.run_until(world.drained, 60)


def test_one_node_alone_takes_them_all_and_gives_some_to_the_next_as_its_jobs_end() -> None:
    world = limited(4, "a", jobs=20)
    assert running(world) == {"a": 4}
    world.boot("b")
    world.run(1.5)
    assert running(world) == {"a": 4}, "what runs is not disturbed"
    world.run(6.0)
    assert running(world) == {"a": 2, "b": 2}


@pytest.mark.parametrize("how", ["crash", "leave"])
def test_the_seats_of_a_node_that_is_gone_are_free(how: str) -> None:
    world = limited(4, "a", "b", jobs=40)
    assert running(world) == {"a": 2, "b": 2}
    if how == "crash":
        world.crash("a")
        world.run(PACE.lease / 2)
        assert seats(world) == {"b": 2}, "until its lease is over they may be in use"
    else:
        finish(world.members["a"].worker.end_leases())
        world.crash("a")
    world.run(3 * PACE.lease if how == "crash" else PACE.lease / 2)
    assert running(world) == {"b": 4}


def test_who_lost_its_lease_starts_nothing_before_it_has_seats_again() -> None:
    world = limited(4, "a", jobs=20)
    worker = world.members["a"].worker
    assert worker.seating.allowed == {"default": 4}
    worker.membership.end_life("its lease is over")
    world.run(0.0)
    assert worker.seating.allowed == {"default": 0}
    assert world.run_until(world.drained, 60)


def test_suspects_get_a_seat_too() -> None:
    """What is left after a crash is all under suspicion, and the node that comes next holds no seat yet."""
    world = limited(2, "a", jobs=2)
    world.crash("a")
    world.boot("b")
    assert world.run_until(world.drained, 10 * PACE.lease)
    assert {job.state for job in world.jobs()} == {"succeeded"}


def test_a_single_seat_goes_round() -> None:
    world = World(1)
    world.limit(1)
    for name in ("a", "b"):
        world.boot(name)
    for _ in range(40):
        world.enqueue(Act("ok", 0.5))
    world.run_until(world.drained, 60)
    assert {job.node_id for job in world.jobs()} == {member.worker.node.id for member in world.members.values()}


def test_a_limit_that_is_set_lowered_and_lifted_while_jobs_run() -> None:
    world = World(1, concurrency=8)
    world.boot("a")
    for _ in range(60):
        world.enqueue(LONG)
    world.run(0.1)
    assert running(world) == {"a": 8}
    finish(world.operator.queues.limit("default", globally=3))
    world.run(4.0)
    assert running(world) == {"a": 8}, "nothing is stopped"
    world.run(3.0)
    assert running(world) == {"a": 3}
    finish(world.operator.queues.limit("default", globally=None))
    world.run(3.0)
    assert running(world) == {"a": 8}


def test_a_limit_per_node() -> None:
    world = World(1, concurrency=8)
    finish(world.operator.queues.limit("default", per_node=2))
    for name in ("a", "b"):
        world.boot(name)
    for _ in range(20):
        world.enqueue(LONG)
    world.run(2.0)
    assert running(world) == {"a": 2, "b": 2}
    finish(world.operator.queues.limit("default", globally=3))
    world.run(8.0)
    assert sum(running(world).values()) == 3


def test_a_node_that_does_not_know_of_a_limit_yet_claims_nothing_from_the_queue() -> None:
    world = World(1)
    member = world.boot("a")
    world.run(0.1)
    member.freeze_all_but("claimer", "executor", "settler", "membership")
    finish(world.operator.queues.limit("default", globally=1))
    job = world.enqueue(Act())
    world.run(1.0)
    assert world.job(job).state == "queued"
    world.crash("a")
    world.boot("b")
    assert world.run_until(world.drained, 5)


# --- limited queues beside others ---------------------------------------------------------------------------------


def beside(limit: int, *names: str, concurrency: int, tasks: tuple[str, ...] = ("scripted",)) -> World:
    """A cluster that serves a limited queue beside one that is not."""
    world = World(1, concurrency=concurrency, crew=Crew(("scarce", "default"), tasks))
    finish(world.operator.queues.limit("scarce", globally=limit))
    for name in names:
        world.boot(name)
    world.run(3.0)
    return world


def put_in(
    world: World, queue: str, seconds: float, count: int, priority: int = 0, task: str = "scripted"
) -> list[int]:
    batch = world.batch([[Act("ok", seconds)]] * count, priority=priority, task=task, options=PATIENT)
    receipts = finish(world.store.jobs.enqueue([batch._replace(queue=queue)]))
    world.hint()
    return [receipt.id for receipt in receipts]


def in_scarce(world: World, *states: str) -> int:
    return sum(job.queue == "scarce" and job.state in states for job in world.jobs())


@pytest.mark.parametrize("limit", [1, 4])
def test_urgent_jobs_of_a_limited_queue_begin_though_the_nodes_are_full_of_others(limit: int) -> None:
    """No node has room when they come, and none ever has for longer than an instant."""
    world = beside(limit, "a", "b", "c", concurrency=2)
    put_in(world, "default", 0.7071, 300)
    world.run(5.0)
    jobs = put_in(world, "scarce", 0.7, 3 * limit, priority=50)
    world.run(5.0)
    assert {world.job(job).state for job in jobs} == {"succeeded"}


def test_a_seat_does_not_stay_with_a_node_that_has_no_room_for_long() -> None:
    """All are full, but only the jobs of one node end every now and then: each has the seat in its turn."""
    world = beside(1, "a", concurrency=2)
    put_in(world, "default", 600.0, 2)
    world.run(1.0)
    world.boot("b")
    put_in(world, "default", 0.5, 300)
    world.run(3.0)
    (job,) = put_in(world, "scarce", 0.5, 1, priority=50)
    world.run(2 * TURN_SECONDS + 2.0)
    assert world.job(job).state == "succeeded"


def test_a_node_asks_for_the_seat_that_another_holds_ready_for_nothing() -> None:
    """The other sees no reason to let it go: it cannot run what waits."""
    world = beside(1, "a", concurrency=2)
    world.crew = Crew(("scarce", "default"), ("scripted", "special"))
    world.boot("b")
    put_in(world, "default", 0.5, 300, task="special")
    world.run(3.0)
    (job,) = put_in(world, "scarce", 0.5, 1, priority=50, task="special")
    world.run(2 * TURN_SECONDS + 2.0)
    assert world.job(job).state == "succeeded"


def test_a_job_that_arrives_finds_a_seat_at_once_on_whichever_node() -> None:
    world = beside(4, "a", "b", concurrency=8)
    assert seats(world, "scarce") == {"a": 2, "b": 2}
    put_in(world, "scarce", 5.0, 4)
    world.run(0.01)
    assert running(world) == {"a": 2, "b": 2}


@pytest.mark.parametrize("limit", [1, 5])
def test_seats_that_nobody_needs_stay_where_they_are(limit: int) -> None:
    """An idle cluster writes nothing."""
    world = beside(limit, "a", "b", "c", concurrency=8)
    assert sum(seats(world, "scarce").values()) == limit
    before = world.store.queues.seats_changed
    world.run(3 * TURN_SECONDS)
    assert world.store.queues.seats_changed == before


def test_whoever_has_room_uses_all_the_seats_though_others_would_hold_some_ready() -> None:
    world = beside(6, "a", "b", concurrency=8)
    put_in(world, "default", 600.0, 8)  # whoever is first has no room for anything else
    world.run(1.0)
    put_in(world, "scarce", 5.0, 40)
    for _ in range(5):
        world.run(3.0)
        assert in_scarce(world, "running") == 6


# --- one node at a time ---------------------------------------------------------------------------------------------


class Held:
    """A room with so many jobs in it, as a node knows it; what is allowed stays to be seen."""

    concurrency = 8

    def __init__(self) -> None:
        self.running = 0
        self.taken = 0
        self.allowed: list[int | None] = []

    def allow(self, queue: str, most: int | None) -> None:
        self.allowed.append(most)

    def running_in(self, queue: str) -> int:
        return self.running

    def held_in(self, queue: str) -> int:
        return 0

    def process_room(self) -> int:
        return 1


async def seated(
    store: Store, room: Held, alive: Callable[[], bool] = lambda: True, life: Callable[[], int | None] = lambda: 1
) -> Seating:
    return Seating(store, await enter(store), ["default"], ["send"], room, alive, poll=0.5, life=life)


async def limited_store(store: Store) -> None:
    await store.queues.set_limits("default", Limits(), Limits(4), NOW)
    await put(store, 20)


async def test_nodes_that_look_at_the_same_time_do_not_all_take_the_same_seats(store: Store) -> None:
    """Whoever's change comes too late has allowed itself nothing meanwhile."""
    await limited_store(store)
    rooms = [Held() for _ in range(4)]
    services = [await seated(store, room) for room in rooms]
    await asyncio.gather(*(service.tick(NOW) for service in services))
    assert sum(service.allowed.get("default", 0) for service in services) <= 4
    assert all((most or 0) <= 4 for room in rooms for most in room.allowed)
    assert sum(bool(room.allowed and max(most or 0 for most in room.allowed)) for room in rooms) == 1


@pytest.mark.parametrize("verb", ["seating", "take_seats"])
async def test_what_was_read_before_the_lease_was_lost_counts_for_nothing(store: Store, verb: str) -> None:
    """Nor does what was taken: by the time that the node hears of it, it may have joined anew, without a seat."""
    await limited_store(store)
    lives = [1]
    service = await seated(store, Held(), life=lambda: lives[0])
    real = getattr(store.queues, verb)

    async def meanwhile(*asked: Any) -> Any:
        answer = await real(*asked)
        lives[0] += 1
        return answer

    setattr(store.queues, verb, meanwhile)
    await service.tick(NOW)
    assert not any(service.allowed.values())
    setattr(store.queues, verb, real)
    await service.tick(after(seconds=1))
    assert service.allowed == {"default": 4}


async def test_seats_that_are_given_back_late_are_not_in_use(store: Store) -> None:
    """The call was given up, and what it wanted was out of date by then; it arrives all the same, or would."""
    await limited_store(store)
    room, other = Held(), Held()
    service, neighbour = await seated(store, room), await seated(store, other)
    for second, one in enumerate((service, neighbour, service, neighbour)):
        await one.tick(after(seconds=second))
    assert (service.allowed, neighbour.allowed) == ({"default": 2}, {"default": 2})
    real, late = store.queues.take_seats, list[tuple[Any, ...]]()

    async def held_up(*asked: Any) -> bool:
        late.append(asked)
        raise StoreUnavailable("no answer")

    store.queues.take_seats = held_up  # type: ignore[method-assign]
    room.taken = room.concurrency
    with pytest.raises(StoreUnavailable):
        await service.tick(after(seconds=4))  # it has no room any more, so the other one may have its seats
    store.queues.take_seats = real  # type: ignore[method-assign]
    assert service.allowed == {"default": 0}
    room.taken = 0
    await service.tick(after(seconds=5))
    assert service.allowed == {"default": 2}
    store.queues.take_seats = held_up  # type: ignore[method-assign]
    await service.tick(after(seconds=5.5))  # it knows what it has, and asks for nothing
    store.queues.take_seats = real  # type: ignore[method-assign]
    for call in late:
        await store.queues.take_seats(*call)
    await neighbour.tick(after(seconds=6))
    assert service.allowed["default"] + neighbour.allowed["default"] <= 4


async def test_a_limit_per_node_is_no_seat_of_a_limit_for_all(store: Store) -> None:
    await store.queues.set_limits("default", Limits(), Limits(None, 8), NOW)
    await put(store, 20)
    service, neighbour = await seated(store, Held()), await seated(store, Held())
    await service.tick(NOW)
    assert service.allowed == {"default": 8}
    await store.queues.set_limits("default", Limits(None, 8), Limits(4, 8), NOW)
    real = store.queues.take_seats

    async def too_late(*asked: Any) -> bool:
        store.queues.take_seats = real  # type: ignore[method-assign]
        await neighbour.tick(after(seconds=1))
        return await real(*asked)

    store.queues.take_seats = too_late  # type: ignore[method-assign]
    await service.tick(after(seconds=1))
    assert (service.allowed, neighbour.allowed) == ({"default": 0}, {"default": 4})


def test_who_stands_by_leaves_the_seats_to_the_exclusive_node() -> None:
    world = limited(4, "a", jobs=4)
    assert world.drained() or world.run_until(world.drained, 10)
    assert seats(world) == {"a": 4}
    world.boot("b", exclusive=True)
    world.run(2 * PACE.beat)
    for _ in range(20):
        world.enqueue(LONG)
    world.run(2.0)
    assert running(world) == {"b": 4}


async def test_what_was_read_before_the_node_was_registered_anew_counts_for_nothing(store: Store) -> None:
    """Registering takes its seats away. A look that was on its way meanwhile still saw them."""
    await limited_store(store)
    life, real = list[int | None]([1]), store.queues.seating
    service = await seated(store, Held(), life=lambda: life[0])
    await service.tick(NOW)
    life[0] = None
    service.lose_seats()

    async def meanwhile(*asked: Any) -> Any:
        found = await real(*asked)
        life[0] = 2
        return found

    store.queues.seating = meanwhile  # type: ignore[method-assign]
    await service.tick(after(seconds=1))
    assert service.allowed == {"default": 0}


async def test_seats_are_not_used_while_a_write_about_them_may_still_arrive(store: Store) -> None:
    """A write was given up, and takes effect after this node has looked again."""
    await limited_store(store)
    alive, held_up, real = [True], [], store.queues.take_seats
    one, other = await seated(store, Held(), lambda: alive[0]), await seated(store, Held())
    for second in range(8):
        await one.tick(after(seconds=second))
        await other.tick(after(seconds=second))
    assert (one.allowed, other.allowed) == ({"default": 2}, {"default": 2})

    async def given_up(*asked: Any) -> bool:
        held_up.append(asked)
        raise StoreUnavailable("no answer")

    store.queues.take_seats, alive[0] = given_up, False  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        await one.tick(after(seconds=10))
    store.queues.take_seats, alive[0] = real, True  # type: ignore[method-assign]
    await one.tick(after(seconds=11))
    assert not await store.queues.take_seats(*held_up[0]), "it comes too late"
    await other.tick(after(seconds=12))
    assert one.allowed["default"] + other.allowed["default"] <= 4


async def test_a_node_takes_no_seats_that_it_could_not_use(store: Store) -> None:
    await limited_store(store)
    for resting, alive in ((True, True), (False, False)):
        service = await seated(store, Held(), lambda alive=alive: alive)  # type: ignore[misc]
        if resting:
            service.stop_claiming()
        await service.tick(NOW)
        (seating,) = await store.queues.seating(["default"], ["send"])
        assert not seating.seats, (resting, alive)


async def test_a_full_node_holds_seats_ready_but_gives_them_to_whoever_can_use_them(store: Store) -> None:
    await limited_store(store)
    full, empty = Held(), Held()
    full.taken = full.concurrency
    one, other = await seated(store, full), await seated(store, empty)
    await one.tick(NOW)
    assert one.allowed == {"default": 4}
    for second in range(1, 3):
        await other.tick(after(seconds=second))
        await one.tick(after(seconds=second, milliseconds=500))
    await other.tick(after(seconds=3))
    assert (one.allowed, other.allowed) == ({"default": 0}, {"default": 4})


def test_long_jobs_are_not_claimed_ahead_of_the_seats() -> None:
    """Whoever looks at the table sees no more running than the limit allows, unless jobs last for milliseconds."""
    world = World(1, concurrency=8)
    world.limit(3)
    for name in ("a", "b"):
        world.boot(name)
    for _ in range(60):
        world.enqueue(Act("ok", 0.3))
    most = 0
    while not world.drained() and most <= 3:
        world.run(0.05)
        most = max(most, sum(job.state == "running" for job in world.jobs()))
    assert most == 3


async def test_a_look_that_fails_is_repeated_and_not_taken_for_one_that_worked(store: Store) -> None:
    service = await seated(store, Held())

    async def away(*asked: Any) -> Any:
        raise StoreUnavailable("the database is away")

    store.queues.seating = away  # type: ignore[method-assign]
    for moment in (NOW, after(milliseconds=1)):
        with pytest.raises(StoreUnavailable):
            await service.tick(moment)


async def test_a_node_keeps_no_more_seats_than_its_own_limit(store: Store) -> None:
    """Nobody else wants them: it would keep all that it has, were it not for a limit per node that came later."""
    await limited_store(store)
    service = await seated(store, Held())
    await service.tick(NOW)
    assert service.allowed == {"default": 4}
    await store.queues.set_limits("default", Limits(4), Limits(4, 1), NOW)
    await service.tick(after(seconds=1))
    assert service.allowed == {"default": 1}
