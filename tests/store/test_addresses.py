"""Jobs for one node, by its leased name, or for the leader; and aging by the time waited."""

from __future__ import annotations

from uuid import UUID

from oncue.model import Limits
from oncue.store import Store
from oncue.store.contract import LEADER
from tests.store.scene import NOW, a_suspect, after, age_all, before, enter, lead, put, see, settle, take

LONG_AGO = before(hours=2)


async def named(store: Store, name: str) -> UUID:
    """A live node that has the name that it asks for."""
    node = await enter(store, name)
    holder = await store.nodes.take_name(node, name)
    assert holder is not None
    assert holder.id == node
    return node


async def test_a_job_for_a_node_is_claimed_by_the_node_with_that_name(store: Store) -> None:
    web, other = await named(store, "web"), await named(store, "other")
    (job_id,) = await put(store, address="node:web")
    assert await take(store, other) == []
    (claim,) = await take(store, web)
    assert (claim.id, claim.address) == (job_id, "node:web")
    assert (await see(store, job_id)).address == "node:web"


async def test_a_node_that_does_not_have_its_name_gets_nothing_for_it(store: Store) -> None:
    nameless = await enter(store, "web")
    await put(store, address="node:web")
    assert await take(store, nameless) == []
    await named(store, "web")
    assert await take(store, nameless) == [], "the name is another node's now"


async def test_a_name_that_was_lost_gets_nothing_any_more(store: Store) -> None:
    first = await named(store, "web")
    await put(store, address="node:web")
    await store.nodes.declare_lost(first, NOW)
    assert await take(store, first) == []
    assert len(await take(store, await named(store, "web"))) == 1


async def test_a_job_for_the_leader_goes_to_the_node_that_leads_under_that_epoch(store: Store) -> None:
    leader, other = await enter(store), await enter(store)
    await put(store, 3, address="role:leader")
    epoch = (await lead(store, leader)).epoch
    assert await take(store, other, epoch=epoch) == []
    assert await take(store, leader) == [], "without its epoch it claims as any node"
    assert await take(store, leader, epoch=epoch + 1) == []
    assert await take(store, leader, now=after(seconds=15), epoch=epoch) == [], "its lease is over by then"
    assert len(await take(store, leader, 1, now=after(seconds=14), epoch=epoch)) == 1
    await store.leases.release(LEADER, leader, epoch, NOW)
    assert await take(store, leader, epoch=epoch) == []
    assert len(await take(store, other, epoch=(await lead(store, other)).epoch)) == 2


async def test_priority_and_age_hold_across_addresses(store: Store) -> None:
    web = await named(store, "web")
    epoch = (await lead(store, web)).epoch
    (low,) = await put(store, priority=1, created_at=before(hours=1))
    (mine,) = await put(store, priority=5, address="node:web", created_at=before(minutes=1))
    (led,) = await put(store, priority=5, address="role:leader", created_at=before(minutes=2))
    (high,) = await put(store, priority=9)
    assert [claim.id for claim in await take(store, web, 3, epoch=epoch)] == [high, led, mine]
    assert [claim.id for claim in await take(store, web, 3, epoch=epoch)] == [low]


async def test_the_jobs_ahead_are_those_with_the_same_address(store: Store) -> None:
    await put(store, 5, priority=9)
    first, second = await put(store, 2, address="node:web")
    await put(store, 3, address="node:other")
    assert [await store.jobs.count_ahead(await see(store, job_id), 10) for job_id in (first, second)] == [0, 1]


async def test_what_is_for_others_takes_no_room_of_a_claim(store: Store) -> None:
    web = await named(store, "web")
    await put(store, 50, priority=9, address="node:absent")
    common = await put(store, 3)
    assert [claim.id for claim in await take(store, web, 3)] == common


async def test_the_room_of_a_limited_queue_holds_for_addressed_jobs_too(store: Store) -> None:
    web = await named(store, "web")
    epoch = (await lead(store, web)).epoch
    assert await store.queues.set_limits("default", Limits(), Limits(globally=3), NOW)
    await put(store, 3, priority=9)
    mine = {*await put(store, 2, address="node:web"), *await put(store, 2, address="role:leader")}
    assert await take(store, web, 9, epoch=epoch) == [], "it does not know of the limit"
    claims = await take(store, web, 9, rooms={"default": 3}, epoch=epoch)
    assert len(claims) == 3
    assert {claim.id for claim in claims} <= mine, "where there is little room, a node begins with what only it can run"
    assert len(await take(store, web, 9, rooms={"default": 2}, epoch=epoch)) == 2


async def test_paused_queues_and_other_tasks_stay_closed(store: Store) -> None:
    web = await named(store, "web")
    await put(store, address="node:web")
    assert await take(store, web, tasks=["another"]) == []
    assert await take(store, web, queues=["mail"]) == []
    await store.queues.pause("default", NOW)
    assert await take(store, web) == []


async def test_a_suspect_with_an_address_stays_with_its_node(store: Store) -> None:
    web, other = await named(store, "web"), await named(store, "other")
    for deaths in (2, 3):
        job_id = await a_suspect(store, web, deaths, address="node:web")
        assert await take(store, other, few=4, alone=after(days=1)) == []
        claims = await take(store, web, few=4, alone=after(days=1))
        assert [claim.id for claim in claims] == [job_id]
        await settle(store, claims)


async def test_addressed_and_grouped_jobs_are_counted_and_their_waits_are_seen(store: Store) -> None:
    await put(store, 2, queue="mail", address="node:absent", created_at=LONG_AGO)
    await put(store, 3, queue="hooks", group="tenant", created_at=before(hours=3))
    await put(store, 1, queue="windows", order_at=after(hours=1), created_at=before(hours=4))
    counts = {(count.queue, count.kind): count.jobs for count in await store.counters.count(1000)}
    assert counts == {("mail", "queued"): 2, ("hooks", "queued"): 3, ("windows", "queued"): 1}
    outlook = await store.jobs.outlook()
    assert (outlook.waiting, outlook.set_apart, outlook.addresses) == ({"windows"}, {"mail", "hooks"}, {"node:absent"})
    ages = {age.queue: age.since for age in await store.counters.ages(NOW, 10)}
    assert ages == {"mail": LONG_AGO, "windows": before(hours=4)}, "a group waits from its turn on"


async def test_what_waits_ages_by_the_time_that_it_has_waited(store: Store) -> None:
    """Whatever instant it is ordered by, and whoever may run it."""
    (common,) = await put(store, created_at=LONG_AGO)
    (early,) = await put(store, created_at=NOW, order_at=LONG_AGO)
    (late,) = await put(store, created_at=LONG_AGO, order_at=after(hours=5))
    (new,) = await put(store, created_at=NOW, order_at=after(hours=5))
    grouped, addressed = (
        await put(store, group="g", created_at=LONG_AGO),
        await put(store, address="node:web", created_at=LONG_AGO),
    )
    again = await put(store, group="g", created_at=LONG_AGO, visible_at=NOW)
    assert await age_all(store, 1, before(hours=1), NOW) == 4
    assert await age_all(store, 1, before(hours=1), NOW) == 0, "once in a round"
    raised = {common, late, *grouped, *addressed}
    for job_id in (common, early, late, new, *grouped, *addressed, *again):
        assert (await see(store, job_id)).priority == (10 if job_id in raised else 0)
