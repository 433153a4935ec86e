"""Leases: one holder at a time, an epoch that only grows, and what others may not do meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from oncue.model import Lease
from oncue.store import Store
from oncue.store.contract import EXCLUSIVE, LEADER
from tests.store.scene import NOW, a_node, a_suspect, after, enter, put, settle, take

HAIR = timedelta(microseconds=1)
ANNA, BERT, CARL = (UUID(int=number) for number in (1, 2, 3))


async def acquire(
    store: Store, holder: UUID, now: datetime = NOW, name: str = LEADER, respect: str | None = None
) -> Lease | None:
    """Ask for a lease of fifteen seconds."""
    return await store.leases.acquire(
        name, holder, f"node-{holder.int}", now, now + timedelta(seconds=15), respect=respect
    )


async def renew(
    store: Store, holder: UUID, epoch: int, now: datetime, name: str = LEADER, respect: str | None = None
) -> bool:
    return await store.leases.renew(name, holder, epoch, now, now + timedelta(seconds=15), respect=respect)


@pytest.mark.contract("SLOT-16")
async def test_the_first_to_ask_gets_the_lease(store: Store) -> None:
    assert await store.leases.get(LEADER) is None
    mine = await acquire(store, ANNA, NOW + HAIR)
    assert mine == Lease(LEADER, ANNA, "node-1", 1, NOW + HAIR, NOW + HAIR, after(seconds=15) + HAIR)
    assert await acquire(store, BERT, after(seconds=1)) == mine, "the next one is told who holds it"
    assert await acquire(store, ANNA, after(seconds=1)) == mine, "asking again is not renewing"
    assert await store.leases.get(LEADER) == mine


@pytest.mark.contract("SLOT-16")
async def test_leases_of_different_names_have_nothing_to_do_with_each_other(store: Store) -> None:
    leader, exclusive = await acquire(store, ANNA), await acquire(store, BERT, name=EXCLUSIVE)
    assert leader is not None
    assert exclusive is not None
    assert (leader.holder, exclusive.holder, exclusive.epoch) == (ANNA, BERT, 1)
    assert not await renew(store, ANNA, 1, after(seconds=1), EXCLUSIVE)
    await store.leases.release(LEADER, ANNA, 1, after(seconds=1))
    assert await store.leases.get(EXCLUSIVE) == exclusive


@pytest.mark.contract("SLOT-16")
async def test_a_lease_that_is_over_goes_to_whoever_asks_under_the_next_epoch(store: Store) -> None:
    await acquire(store, ANNA)
    early = await acquire(store, BERT, after(seconds=15) - HAIR)
    assert early is not None
    assert (early.holder, early.epoch) == (ANNA, 1)
    taken = await acquire(store, BERT, after(seconds=15))
    assert taken == Lease(LEADER, BERT, "node-2", 2, after(seconds=15), after(seconds=15), after(seconds=30))


@pytest.mark.contract("SLOT-16")
async def test_the_epoch_grows_with_every_holder_also_with_the_same_one(store: Store) -> None:
    epochs: list[int] = []
    now = NOW
    for number, holder in enumerate([ANNA, ANNA, BERT, ANNA, CARL, CARL]):
        lease = await acquire(store, holder, now)
        assert lease is not None
        assert lease.holder == holder
        epochs.append(lease.epoch)
        if number % 2:
            await store.leases.release(LEADER, holder, lease.epoch, now + HAIR)
            now += HAIR
        else:
            now += timedelta(seconds=15)
    assert epochs == sorted(set(epochs))


@pytest.mark.contract("SLOT-16")
async def test_a_renewal_needs_name_holder_and_epoch(store: Store) -> None:
    await acquire(store, ANNA)
    await acquire(store, ANNA, after(seconds=15))
    standing = await store.leases.get(LEADER)
    now = after(seconds=20)
    for name, holder, epoch in [(LEADER, ANNA, 1), (LEADER, ANNA, 3), (LEADER, BERT, 2), (EXCLUSIVE, ANNA, 2)]:
        assert not await renew(store, holder, epoch, now, name)
    assert await store.leases.get(LEADER) == standing
    assert await renew(store, ANNA, 2, now)
    assert standing is not None
    assert await store.leases.get(LEADER) == replace(standing, renewed_at=now, expires_at=after(seconds=35))


@pytest.mark.contract("SLOT-16")
async def test_a_renewal_that_arrives_late_does_not_make_the_lease_shorter(store: Store) -> None:
    await acquire(store, ANNA)
    assert await renew(store, ANNA, 1, after(seconds=9))
    assert await renew(store, ANNA, 1, after(seconds=4))
    lease = await store.leases.get(LEADER)
    assert lease is not None
    assert lease.expires_at == after(seconds=24)


@pytest.mark.contract("SLOT-16")
async def test_a_former_holder_cannot_renew(store: Store) -> None:
    await acquire(store, ANNA)
    taken = await acquire(store, BERT, after(seconds=15))
    assert not await renew(store, ANNA, 1, after(seconds=16))
    assert not await renew(store, ANNA, 2, after(seconds=16))
    assert await store.leases.get(LEADER) == taken


@pytest.mark.contract("SLOT-16")
async def test_a_lease_that_is_over_cannot_be_renewed_even_if_nobody_took_it(store: Store) -> None:
    standing = await acquire(store, ANNA)
    assert not await renew(store, ANNA, 1, after(seconds=15))
    assert await store.leases.get(LEADER) == standing
    assert await renew(store, ANNA, 1, after(seconds=15) - HAIR)


@pytest.mark.contract("SLOT-16")
async def test_a_lease_that_is_given_up_is_free_at_once_and_stays_so(store: Store) -> None:
    await acquire(store, ANNA)
    await store.leases.release(LEADER, ANNA, 1, after(seconds=3))
    free = await store.leases.get(LEADER)
    assert free is not None
    assert (free.renewed_at, free.expires_at, free.epoch) == (after(seconds=3), after(seconds=3), 1)
    assert not await renew(store, ANNA, 1, after(seconds=3)), "a late renewal does not bring it back"
    taken = await acquire(store, BERT, after(seconds=3))
    assert taken is not None
    assert (taken.holder, taken.epoch) == (BERT, 2)


@pytest.mark.contract("SLOT-16")
async def test_only_the_holder_can_give_a_lease_up(store: Store) -> None:
    await acquire(store, ANNA)
    taken = await acquire(store, BERT, after(seconds=15))
    for holder, epoch in [(ANNA, 1), (ANNA, 2), (BERT, 1), (BERT, 3)]:
        await store.leases.release(LEADER, holder, epoch, after(seconds=16))
    assert await store.leases.get(LEADER) == taken


async def test_giving_up_what_is_over_does_not_prolong_it(store: Store) -> None:
    await acquire(store, ANNA)
    await store.leases.release(LEADER, ANNA, 1, after(seconds=60))
    over = await store.leases.get(LEADER)
    assert over is not None
    assert over.expires_at == after(seconds=15)


@pytest.mark.contract("SLOT-2")
async def test_while_one_node_is_exclusive_nobody_else_leads(store: Store) -> None:
    await acquire(store, ANNA, name=EXCLUSIVE)
    assert await acquire(store, BERT, respect=EXCLUSIVE) is None
    assert await store.leases.get(LEADER) is None
    mine = await acquire(store, ANNA, respect=EXCLUSIVE)
    assert mine is not None
    assert mine.holder == ANNA
    assert await renew(store, ANNA, 1, after(seconds=5), respect=EXCLUSIVE)


@pytest.mark.contract("SLOT-2")
async def test_a_leader_steps_back_when_another_node_becomes_exclusive(store: Store) -> None:
    leader = await acquire(store, BERT, respect=EXCLUSIVE)
    await acquire(store, ANNA, after(seconds=1), EXCLUSIVE)
    assert not await renew(store, BERT, 1, after(seconds=5), respect=EXCLUSIVE)
    assert await store.leases.get(LEADER) == leader
    taken = await acquire(store, ANNA, after(seconds=15), respect=EXCLUSIVE)
    assert taken is not None
    assert (taken.holder, taken.epoch) == (ANNA, 2)


@pytest.mark.contract("SLOT-2")
async def test_when_the_exclusive_lease_ends_others_may_lead_again(store: Store) -> None:
    await acquire(store, ANNA, name=EXCLUSIVE)
    await acquire(store, ANNA, respect=EXCLUSIVE)
    assert not await _leads(store, BERT, after(seconds=15) - HAIR)
    assert await _leads(store, BERT, after(seconds=15))


async def _leads(store: Store, node: UUID, now: datetime) -> bool:
    lease = await acquire(store, node, now, respect=EXCLUSIVE)
    return lease is not None and lease.holder == node


@pytest.mark.contract("SLOT-2")
async def test_whoever_ends_an_exclusive_lease_lets_the_others_in(store: Store) -> None:
    await acquire(store, ANNA, name=EXCLUSIVE)
    await store.leases.release(EXCLUSIVE, ANNA, 1, after(seconds=2))
    assert await _leads(store, BERT, after(seconds=2))


async def claimed(store: Store, nodes: Sequence[UUID], now: datetime) -> list[int]:
    """How many jobs each of the nodes is given."""
    return [len(await take(store, node, 1, now=now)) for node in nodes]


@pytest.mark.contract("SLOT-2")
async def test_while_one_node_is_exclusive_nobody_else_is_given_a_job(store: Store) -> None:
    worker, other, third = [await enter(store, name) for name in ("worker", "other", "third")]
    await put(store, 9)
    await acquire(store, worker, name=EXCLUSIVE)
    assert await claimed(store, [other, worker, third], after(seconds=14)) == [0, 1, 0]
    assert await claimed(store, [other, worker, third], after(seconds=15)) == [1, 1, 1]
    taken = await acquire(store, other, after(seconds=15), EXCLUSIVE)
    assert taken is not None
    assert await claimed(store, [other, worker, third], after(seconds=16)) == [1, 0, 0]
    await store.leases.release(EXCLUSIVE, other, taken.epoch, after(seconds=17))
    assert await claimed(store, [other, worker, third], after(seconds=17)) == [1, 1, 1]


@pytest.mark.contract("SLOT-2")
async def test_while_one_node_is_exclusive_nobody_else_is_given_a_suspect(store: Store) -> None:
    worker, other = await enter(store, "worker"), await enter(store, "other")
    suspect = await a_suspect(store, worker)
    await acquire(store, worker, name=EXCLUSIVE)
    assert await take(store, other, few=8, alone=NOW) == []
    assert [claim.id for claim in await take(store, worker, few=8)] == [suspect]


@pytest.mark.contract("SLOT-2")
async def test_what_others_run_already_they_may_settle(store: Store) -> None:
    worker, other = await enter(store, "worker"), await enter(store, "other")
    await put(store)
    claims = await take(store, other)
    await acquire(store, worker, name=EXCLUSIVE)
    assert await settle(store, claims) == [True]


@pytest.mark.contract("SLOT-9")
async def test_a_node_that_is_declared_lost_holds_nothing_any_more(store: Store) -> None:
    dead, heir = await enter(store, "worker"), await enter(store, "worker")
    for name in (LEADER, EXCLUSIVE):
        await acquire(store, dead, name=name)
    await acquire(store, heir, name="another")
    other = await store.leases.get("another")
    assert await store.nodes.declare_lost(dead, after(seconds=5))
    assert not await store.nodes.declare_lost(dead, after(seconds=6)), "once"
    assert not await store.nodes.beat(dead, after(seconds=6), after(seconds=21))
    for name in (LEADER, EXCLUSIVE):
        # Not even if its clock is behind: its epoch is over.
        assert not await renew(store, dead, 1, after(seconds=4), name)
        freed = await store.leases.get(name)
        assert freed is not None
        assert freed.expires_at == after(seconds=5)
        taken = await acquire(store, heir, after(seconds=5), name)
        assert taken is not None
        assert taken.holder == heir
        assert taken.epoch > 1
    assert await store.leases.get("another") == other
    assert [node.id for node in await store.nodes.alive()] == [heir]


@pytest.mark.contract("SLOT-9")
async def test_who_is_lost_already_is_not_declared_lost_again(store: Store) -> None:
    node = await enter(store, expires_at=after(seconds=5))
    await store.nodes.expire(after(seconds=5))
    await acquire(store, node)
    standing = await store.leases.get(LEADER)
    assert not await store.nodes.declare_lost(node, after(seconds=6))
    assert not await store.nodes.declare_lost(ANNA, after(seconds=6))
    assert await store.leases.get(LEADER) == standing


@pytest.mark.contract("SLOT-9")
async def test_namesakes_are_other_nodes_of_the_name_that_may_still_hold_jobs(store: Store) -> None:
    me = a_node("worker", started_at=after(seconds=9))
    await store.nodes.register(me)
    late, early = a_node("worker", started_at=after(seconds=2), exclusive=True), a_node("worker")
    for node in (late, early, a_node("another")):
        await store.nodes.register(node)
    assert await store.nodes.namesakes(me) == [early, late]
    await store.nodes.leave(early.id, after(seconds=3))
    assert await store.nodes.namesakes(me) == [late]


@pytest.mark.contract("SLOT-9")
async def test_a_namesake_that_was_lost_counts_while_something_of_its_runs(store: Store) -> None:
    me = a_node("worker")
    await store.nodes.register(me)
    idle = await enter(store, "worker", expires_at=after(seconds=5))
    busy = await enter(store, "worker", expires_at=after(seconds=5))
    await put(store)
    claims = await take(store, busy)
    assert {node.id for node in await store.nodes.namesakes(me)} == {idle, busy}
    await store.nodes.expire(after(seconds=5))
    assert [node.id for node in await store.nodes.namesakes(me)] == [busy]
    await settle(store, claims)
    assert await store.nodes.namesakes(me) == []


async def test_what_identifies_a_process_is_read_as_it_was_registered(store: Store) -> None:
    node = replace(a_node("worker"), process_start="4711.25", exclusive=True)
    await store.nodes.register(node)
    assert await store.nodes.alive() == [node]
    assert await store.nodes.namesakes(a_node("worker")) == [node]
