"""The names of nodes: leased with the node's own lease, so that no two living nodes have the same one."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import uuid4

from oncue.store import Store
from tests.store.scene import NOW, a_node, after, enter


async def holders(store: Store) -> dict[str, bool]:
    return {node.name: node.named for node in await store.nodes.alive()}


async def test_a_node_has_no_name_until_it_takes_one(store: Store) -> None:
    node = await enter(store, "worker")
    assert await holders(store) == {"worker": False}
    holder = await store.nodes.take_name(node, "worker")
    assert holder is not None
    assert (holder.id, holder.name, holder.named) == (node, "worker", True)
    assert await store.nodes.alive() == [holder]


async def test_a_name_that_another_living_node_has_is_refused(store: Store) -> None:
    first, second = await enter(store, "worker"), await enter(store, "worker")
    await store.nodes.take_name(first, "worker")
    refused = await store.nodes.take_name(second, "worker")
    assert refused is not None
    assert refused.id == first
    numbered = await store.nodes.take_name(second, "worker~2")
    assert numbered is not None
    assert (numbered.id, numbered.name) == (second, "worker~2")


async def test_a_node_keeps_the_name_that_it_got_first(store: Store) -> None:
    """A call that was given up may arrive after a later one."""
    node = await enter(store, "worker")
    await store.nodes.take_name(node, "worker~2")
    late = await store.nodes.take_name(node, "worker")
    assert late is not None
    assert (late.id, late.name) == (node, "worker~2")
    assert await holders(store) == {"worker~2": True}


async def test_a_name_is_free_once_its_node_is_declared_lost_or_leaves(store: Store) -> None:
    for end in ("leave", "declare_lost"):
        node, heir = await enter(store, "worker"), await enter(store, "worker")
        await store.nodes.take_name(node, "worker")
        await getattr(store.nodes, end)(node, NOW)
        holder = await store.nodes.take_name(heir, "worker")
        assert holder is not None
        assert holder.id == heir
        await store.nodes.leave(heir, NOW)


async def test_a_lease_that_is_over_keeps_its_name_until_it_is_declared_lost(store: Store) -> None:
    silent, heir = await enter(store, "worker", expires_at=after(seconds=15)), await enter(store, "worker")
    await store.nodes.take_name(silent, "worker")
    assert await store.nodes.expire(after(seconds=14), silent) == []
    holder = await store.nodes.take_name(heir, "worker")
    assert holder is not None
    assert holder.id == silent
    other = await enter(store, "other", expires_at=after(seconds=15))
    assert [node.id for node in await store.nodes.expire(after(seconds=15), silent)] == [silent]
    assert other in [node.id for node in await store.nodes.alive()], "only the one that was named"
    holder = await store.nodes.take_name(heir, "worker")
    assert holder is not None
    assert holder.id == heir


async def test_a_node_that_was_declared_lost_takes_no_name(store: Store) -> None:
    node = await enter(store, "worker")
    await store.nodes.declare_lost(node, NOW)
    assert await store.nodes.take_name(node, "worker") is None
    assert await store.nodes.take_name(uuid4(), "worker") is None


async def test_a_node_that_joins_anew_has_no_name_yet(store: Store) -> None:
    node = a_node("worker")
    await store.nodes.register(node)
    await store.nodes.take_name(node.id, "worker~2")
    await store.nodes.declare_lost(node.id, NOW)
    await store.nodes.register(replace(node, beat_no=1))
    assert await holders(store) == {"worker": False}
    holder = await store.nodes.take_name(node.id, "worker")
    assert holder is not None
    assert (holder.id, holder.name) == (node.id, "worker")


async def test_of_many_that_ask_at_once_one_gets_the_name(store: Store) -> None:
    nodes = [await enter(store, "worker") for _ in range(8)]
    answers = await asyncio.gather(*(store.nodes.take_name(node, "worker") for node in nodes))
    assert len({answer.id for answer in answers if answer is not None}) == 1
    assert sum(node.named for node in await store.nodes.alive()) == 1
