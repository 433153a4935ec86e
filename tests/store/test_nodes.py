from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

from oncue.model import GoneNode
from oncue.store import Store
from tests.store.scene import NOW, a_node, after, enter, put, take


async def test_a_node_is_read_as_it_was_registered(store: Store) -> None:
    node = replace(a_node(), address="http://10.0.0.1:8000", queues=("ä", "b"), tasks=())
    await store.nodes.register(node)
    assert await store.nodes.alive() == [node]


async def test_nodes_are_listed_in_the_order_of_their_start(store: Store) -> None:
    late, early = a_node("late", started_at=after(seconds=9)), a_node("early")
    await store.nodes.register(late)
    await store.nodes.register(early)
    assert [node.name for node in await store.nodes.alive()] == ["early", "late"]


async def test_the_latest_nodes_that_are_gone(store: Store) -> None:
    """One that was declared lost stays so, although it leaves afterwards."""
    lost, left, old = [await enter(store, name) for name in ("lost", "left", "old")]
    await store.nodes.leave(old, after(seconds=1))
    assert await store.nodes.declare_lost(lost, after(seconds=20))
    await store.nodes.leave(lost, after(seconds=40))
    await store.nodes.leave(left, after(seconds=30))
    await enter(store, "alive")
    found = await store.nodes.gone(after(seconds=20), 10)
    assert found == [
        GoneNode(left, "left", after(seconds=30), True),
        GoneNode(lost, "lost", after(seconds=20), False),
    ]
    assert await store.nodes.gone(after(seconds=20), 1) == found[:1]


async def test_what_nodes_hold(store: Store) -> None:
    """Of each up to so many, also of one that holds nothing."""
    busy, idle = await enter(store, "busy"), await enter(store, "idle")
    ids = await put(store, 3)
    await take(store, busy)
    found = await store.nodes.work([busy, idle], 10)
    assert sorted(job.id for job in found[busy]) == ids
    assert {(job.task, job.started_at) for job in found[busy]} == {("send", None)}
    assert found[idle] == []
    assert len((await store.nodes.work([busy], 2))[busy]) == 2
    assert await store.nodes.work([], 2) == {}


async def test_a_beat_renews_the_lease(store: Store) -> None:
    node = await enter(store, expires_at=after(seconds=15))
    assert await store.nodes.beat(node, after(seconds=4), after(seconds=19))
    (seen,) = await store.nodes.alive()
    assert (seen.beat_at, seen.expires_at) == (after(seconds=4), after(seconds=19))


async def test_a_beat_that_was_given_up_and_comes_late_changes_nothing(store: Store) -> None:
    """It would take back what a later one has renewed, and others would take a living node for lost."""
    node = replace(a_node(), beat_no=1)
    await store.nodes.register(node)
    assert await store.nodes.beat(node.id, after(seconds=8), after(seconds=23), 3)
    assert not await store.nodes.beat(node.id, after(seconds=4), after(seconds=19), 2)
    await store.nodes.register(node)
    (seen,) = await store.nodes.alive()
    assert (seen.beat_at, seen.expires_at, seen.beat_no) == (after(seconds=8), after(seconds=23), 3)
    await store.nodes.leave(node.id, after(seconds=9))
    await store.nodes.register(replace(node, beat_no=2))
    assert await store.nodes.alive() == [], "nor does a beginning bring back who has left"


async def test_a_farewell_is_later_than_every_beat_that_is_still_on_its_way(store: Store) -> None:
    """A process that has left would have a lease again, and nothing would keep it."""
    node = replace(a_node(), beat_no=1)
    await store.nodes.register(node)
    await store.nodes.leave(node.id, after(seconds=9), 3)
    assert not await store.nodes.beat(node.id, after(seconds=8), after(seconds=23), 2)
    await store.nodes.register(replace(node, beat_at=after(seconds=8), expires_at=after(seconds=23), beat_no=2))
    assert await store.nodes.alive() == []
    await store.nodes.register(replace(node, beat_no=4))
    assert [seen.id for seen in await store.nodes.alive()] == [node.id], "a later life begins as ever"


async def test_a_stranger_cannot_beat(store: Store) -> None:
    assert not await store.nodes.beat(uuid4(), NOW, after(seconds=15))
    assert await store.nodes.alive() == []


async def test_an_expired_lease_can_be_renewed_until_somebody_declares_it_lost(store: Store) -> None:
    node = await enter(store, expires_at=after(seconds=15))
    assert await store.nodes.beat(node, after(seconds=20), after(seconds=35))
    assert await store.nodes.expire(after(seconds=34.999)) == []
    (lost,) = await store.nodes.expire(after(seconds=35))
    assert lost.id == node
    assert not await store.nodes.beat(node, after(seconds=36), after(seconds=50))


async def test_a_node_is_buried_once_and_listed_no_more(store: Store) -> None:
    await enter(store, "dead", expires_at=after(seconds=15))
    alive = await enter(store, "alive", expires_at=after(seconds=15.001))
    assert [node.name for node in await store.nodes.expire(after(seconds=15))] == ["dead"]
    assert await store.nodes.expire(after(seconds=15)) == []
    assert [node.id for node in await store.nodes.alive()] == [alive]


async def test_a_buried_node_may_register_again(store: Store) -> None:
    node = a_node(expires_at=after(seconds=15))
    await store.nodes.register(node)
    await store.nodes.expire(after(seconds=20))
    await store.nodes.register(replace(node, beat_at=after(seconds=21), expires_at=after(seconds=36)))
    assert await store.nodes.beat(node.id, after(seconds=22), after(seconds=37))
    await put(store)
    assert len(await take(store, node.id, now=after(seconds=22))) == 1


async def test_a_node_that_left_is_gone(store: Store) -> None:
    node = await enter(store)
    await store.nodes.leave(node, NOW)
    assert await store.nodes.alive() == []
    assert not await store.nodes.beat(node, NOW, after(seconds=15))
    await store.nodes.leave(node, NOW)


async def test_names_are_known_of_the_dead_too(store: Store) -> None:
    alive, left = await enter(store, "alive"), await enter(store, "left")
    lost = await enter(store, "lost", expires_at=after(seconds=15))
    await store.nodes.leave(left, NOW)
    await store.nodes.expire(after(seconds=15))
    assert await store.nodes.names([alive, left, lost, uuid4()]) == {alive: "alive", left: "left", lost: "lost"}
    assert await store.nodes.names([lost, lost]) == {lost: "lost"}
    assert await store.nodes.names([]) == {}
