"""What the history tells of a call: that it was made, what it did, and what its caller was told."""

from __future__ import annotations

from oncue.sim.faults import StoreErrors
from oncue.sim.history import Event
from oncue.sim.world import World


def told(world: World, op: int) -> list[str]:
    return [event.kind for event in world.history.events if event.fields.get("op") == op]


def first(world: World, kind: str) -> Event:
    return next(event for event in world.history.events if event.kind == kind)


def test_a_call_that_does_something_is_invoked_and_answered() -> None:
    world = World(1, latency=0.01)
    world.boot("one")
    world.run(5.0)
    world.submit(world.batch([[], []]))
    world.run(5.0)
    assert told(world, first(world, "enqueue.ok").fields["op"]) == ["enqueue.invoke", "job", "job", "enqueue.ok"]
    assert told(world, first(world, "claim.ok").fields["op"]) == ["claim.invoke", "claim", "claim", "claim.ok"]
    assert told(world, first(world, "apply.ok").fields["op"])[-1] == "apply.ok"
    assert first(world, "claim.invoke").at <= first(world, "claim").at <= first(world, "claim.ok").at
    world.close()


def test_polls_that_find_nothing_leave_no_trace() -> None:
    world = World(1)
    world.boot("one")
    world.run(60.0)
    assert not [event for event in world.history.events if event.kind.startswith("claim")]
    world.close()


def test_a_lost_reply_is_unknown_to_the_caller_and_seen_in_the_history() -> None:
    world = World(1)
    member = world.boot("one")
    world.run(5.0)
    member.wire.lose_reply("jobs.claim")
    job = world.enqueue()
    world.run(10.0)
    lost = first(world, "claim.unknown").fields["op"]
    assert told(world, lost) == ["claim.invoke", "claim", "claim.unknown"]
    assert world.job(job).state == "succeeded"
    assert world.job(job).claim_no == 2
    world.close()


def test_a_client_that_is_cut_off_does_not_know() -> None:
    world = World(1)
    world.boot("one")
    StoreErrors(0.0, None, 1.0, 60.0).strike(world)
    world.submit(world.batch([[]]))
    world.run(30.0)
    assert told(world, first(world, "enqueue.invoke").fields["op"]) == ["enqueue.invoke", "enqueue.unknown"]
    world.close()


def test_a_process_that_dies_in_a_call_gets_no_answer() -> None:
    endings = []
    for call in range(1, 6):
        world = World(1)
        member = world.boot("one")
        world.run(5.0)
        member.wire.crash_at(call, "after")
        world.enqueue()
        world.run(1.0)
        assert not member.alive
        endings += [told(world, event.fields["op"]) for event in world.history.events if event.kind == "claim"]
        world.close()
    assert ["claim.invoke", "claim"] in endings
    assert ["claim.invoke", "claim", "claim.ok"] in endings
