"""Cluster jobs: their parts are written with them, under the leader's epoch, and end with them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any
from uuid import UUID

import pytest

from oncue.model import Batch, Claim, ClusterJob, Job, LeaderEpoch, Lease, NewParts, Terms
from oncue.policy import lifecycle, quorum
from oncue.policy.options import ClusterOptions, Options
from oncue.policy.quorum import End, Lead, Proceed
from oncue.store import Store
from oncue.store.contract import EXCLUSIVE
from tests.store.scene import BROKEN, CRASHED, DONE, LEASE, NOW, a_batch, a_node, after, lead, see, settle, take

PART_OPTIONS = Options(delivery="at_most_once", of_cluster=True).stored()
PARTS = NewParts("send.part", "cluster", PART_OPTIONS, 0, 60.0)


async def member(
    store: Store, name: str, *, queues: Sequence[str] = ("cluster",), tasks: Sequence[str] = ("send", "send.part"),
    named: bool = True, **fields: Any,
) -> UUID:  # fmt: skip
    """A live node that may take part."""
    node = a_node(name, **fields).__class__
    made = {**{one: getattr(a_node(name, **fields), one) for one in node.__slots__}, "queues": queues, "tasks": tasks}
    await store.nodes.register(node(**made))
    if named:
        assert (await store.nodes.take_name(made["id"], name)) is not None
    return made["id"]  # type: ignore[no-any-return]


def a_wish(parts: NewParts = PARTS, **fields: Any) -> Batch:
    told = Options(cluster=ClusterOptions(parts, has_action=True)).stored()
    return a_batch(**{"queue": "cluster", "address": "cluster", "options": told, **fields})


async def created(store: Store, leader: UUID, epoch: int, parts: NewParts = PARTS, **fields: Any) -> ClusterJob:
    batch = a_wish(parts, **fields)
    made = await store.cluster.create(batch, parts, NOW, node=leader, epoch=epoch)
    assert made.leads
    assert made.created
    return await found(store, batch.ids[0])


async def found(store: Store, job_id: int) -> ClusterJob:
    (cluster,) = await store.cluster.get([job_id], NOW)
    return cluster


async def three(store: Store) -> tuple[UUID, UUID, UUID, Lease]:
    """Three nodes, of which the first leads."""
    first, second, third = [await member(store, name) for name in ("a", "b", "c")]
    return first, second, third, await lead(store, first)


async def claimed(store: Store, node: UUID, epoch: int | None = None) -> list[Claim]:
    return await take(store, node, queues=["cluster"], tasks=["send", "send.part"], epoch=epoch)


async def part_jobs(store: Store, cluster: ClusterJob) -> dict[str, Job]:
    return {part.node_name: await see(store, part.job_id or 0) for part in cluster.parts}


async def test_each_active_node_gets_a_part_that_only_it_can_claim(store: Store) -> None:
    first, second, _, lease = await three(store)
    cluster = await created(store, first, lease.epoch)
    assert [(part.node_name, part.state, part.was_open) for part in cluster.parts] == [
        ("a", "queued", None), ("b", "queued", None), ("c", "queued", None),
    ]  # fmt: skip
    assert (cluster.job.state, cluster.job.address, cluster.epoch, cluster.spread_at) == (
        "queued", "cluster", lease.epoch, NOW
    )  # fmt: skip
    (claim,) = await claimed(store, second)
    part = await see(store, claim.id)
    assert (part.task, part.address, part.enqueued_by) == ("send.part", "node:b", f"cluster:{cluster.id}")
    assert (part.args, part.max_runtime, part.max_retries) == (cluster.job.args, 60.0, 0)
    assert await claimed(store, second) == []
    assert (await store.cluster.whole_of([claim.id])) == {claim.id: cluster.id}


async def test_no_node_claims_a_cluster_job_before_it_is_decided(store: Store) -> None:
    first, _, _, lease = await three(store)
    cluster = await created(store, first, lease.epoch)
    assert cluster.id not in [claim.id for claim in await claimed(store, first, lease.epoch)]


@pytest.mark.contract("CLUS-2")
async def test_only_active_nodes_take_part(store: Store) -> None:
    first, second, third, lease = await three(store)
    await member(store, "does-not-serve", queues=["mail"])
    await member(store, "does-not-know", tasks=["other"])
    await member(store, "over", expires_at=NOW)
    gone = await member(store, "lost")
    await store.nodes.declare_lost(gone, NOW)
    cluster = await created(store, first, lease.epoch)
    assert {part.node_id for part in cluster.parts} == {first, second, third}


@pytest.mark.contract("CLUS-2")
async def test_nodes_that_stand_by_take_no_part(store: Store) -> None:
    first, _, _, lease = await three(store)
    await store.leases.acquire(EXCLUSIVE, first, "a", NOW, NOW + LEASE, respect=None)
    cluster = await created(store, first, lease.epoch)
    assert [part.node_id for part in cluster.parts] == [first]


@pytest.mark.contract("CLUS-2")
async def test_a_leader_only_job_has_the_leaders_part_and_no_job_for_it(store: Store) -> None:
    first, _, _, lease = await three(store)
    cluster = await created(store, first, lease.epoch, NewParts("send", "cluster", "{}", 0, None, leader_only=True))
    (part,) = cluster.parts
    assert (part.node_id, part.job_id, part.state) == (first, None, None)


async def test_a_subset_is_whole_or_nobody_takes_part(store: Store) -> None:
    first, second, _, lease = await three(store)
    cluster = await created(store, first, lease.epoch, PARTS._replace(nodes=("b",)))
    assert [part.node_id for part in cluster.parts] == [second]
    batch, parts = a_wish(), PARTS._replace(nodes=("b", "nowhere"))
    assert await store.cluster.create(batch, parts, NOW, node=first, epoch=lease.epoch) == (True, 0, False)
    assert await store.jobs.get(batch.ids[0]) is None


@pytest.mark.contract("CLUS-3")
async def test_a_node_that_does_not_lead_creates_nothing(store: Store) -> None:
    first, second, _, lease = await three(store)
    for node, epoch, now in (
        (second, lease.epoch, NOW),
        (first, lease.epoch + 1, NOW),
        (first, lease.epoch, after(days=999)),
    ):
        batch = a_wish()
        assert await store.cluster.create(batch, PARTS, now, node=node, epoch=epoch) == (False, 0, False)
        assert await store.jobs.get(batch.ids[0]) is None


@pytest.mark.contract("CLUS-4")
async def test_an_unfinished_job_with_the_key_stands_in_the_way(store: Store) -> None:
    first, _, _, lease = await three(store)
    cluster = await created(store, first, lease.epoch, keys=["nightly"])
    again = a_wish(keys=["nightly"])
    assert await store.cluster.create(again, PARTS, NOW, node=first, epoch=lease.epoch) == (True, 3, False)
    assert len(await claimed(store, first)) == 1, "no second part"
    (change,) = [lifecycle.cancel(cluster.job, NOW)]
    assert change is not None
    await store.jobs.apply([change], NOW)
    assert (await store.cluster.create(again, PARTS, NOW, node=first, epoch=lease.epoch)).created


@pytest.mark.contract("CLUS-12")
async def test_a_wish_gets_its_parts_from_the_leader_once(store: Store) -> None:
    first, second, _, lease = await three(store)
    (receipt,) = await store.jobs.enqueue([a_wish()])
    (waiting,) = await store.cluster.undecided(NOW, 10)
    assert (waiting.id, waiting.spread_at, waiting.parts) == (receipt.id, None, ())
    assert await store.cluster.spread(receipt.id, PARTS, NOW, node=second, epoch=lease.epoch) is None, "does not lead"
    assert await store.cluster.spread(receipt.id, PARTS, NOW, node=first, epoch=lease.epoch) == 3
    assert await store.cluster.spread(receipt.id, PARTS, NOW, node=first, epoch=lease.epoch) is None
    assert len((await found(store, receipt.id)).parts) == 3
    assert [len(await claimed(store, node)) for node in (first, second)] == [1, 1]


async def test_a_wish_that_was_cancelled_gets_no_parts(store: Store) -> None:
    first, _, _, lease = await three(store)
    (receipt,) = await store.jobs.enqueue([a_wish()])
    change = lifecycle.cancel(await see(store, receipt.id), NOW)
    assert change is not None
    assert await store.jobs.apply([change], NOW) == [True]
    assert await store.cluster.spread(receipt.id, PARTS, NOW, node=first, epoch=lease.epoch) is None
    assert await store.cluster.undecided(NOW, 10) == []


async def test_a_wish_that_no_node_can_do_is_recorded_without_parts(store: Store) -> None:
    first, _, _, lease = await three(store)
    (receipt,) = await store.jobs.enqueue([a_wish()])
    parts = PARTS._replace(queue="nobody-serves-it")
    assert await store.cluster.spread(receipt.id, parts, NOW, node=first, epoch=lease.epoch) == 0
    cluster = await found(store, receipt.id)
    assert (cluster.spread_at, cluster.parts) == (NOW, ())


@pytest.mark.contract("CLUS-9")
async def test_the_leader_alone_claims_a_decided_job_and_under_its_epoch_alone(store: Store) -> None:
    first, second, _, lease = await three(store)
    cluster = await created(store, first, lease.epoch)
    assert not await store.cluster.release(cluster.id, True, NOW, node=second, epoch=lease.epoch)
    assert not await store.cluster.release(cluster.id, True, NOW, node=first, epoch=lease.epoch + 1)
    assert await store.cluster.release(cluster.id, False, after(seconds=1), node=first, epoch=lease.epoch)
    assert not await store.cluster.release(cluster.id, True, NOW, node=first, epoch=lease.epoch), "decided once"
    decided = await found(store, cluster.id)
    assert (decided.decided_at, decided.decided_epoch, decided.quorum) == (after(seconds=1), lease.epoch, False)
    assert cluster.id not in [claim.id for claim in await claimed(store, second)]
    assert cluster.id in [claim.id for claim in await claimed(store, first, lease.epoch)]


@pytest.mark.contract("CLUS-9")
async def test_the_end_of_a_cluster_job_ends_what_has_not_begun_and_leaves_what_runs(store: Store) -> None:
    first, second, third, lease = await three(store)
    cluster = await created(store, first, lease.epoch)
    await settle(store, await claimed(store, first))
    (running,) = await claimed(store, second)
    await store.cluster.release(cluster.id, True, NOW, node=first, epoch=lease.epoch)
    (action,) = await claimed(store, first, lease.epoch)
    terms = Terms(leader=LeaderEpoch(first, lease.epoch))
    done = lifecycle.settle(lifecycle.Ended(action, DONE, NOW, NOW, terms=terms), Random(1))
    assert await store.jobs.apply([done], NOW) == [True]
    ended = await found(store, cluster.id)
    assert [(part.node_name, part.state, part.was_open) for part in ended.parts] == [
        ("a", "succeeded", False), ("b", "running", True), ("c", "skipped", True),
    ]  # fmt: skip
    assert (await part_jobs(store, ended))["c"].reason == "cluster_job_ended"
    assert await claimed(store, third) == []
    assert await settle(store, [running]) == [True], "its late result is kept"
    after_all = await found(store, cluster.id)
    assert [(part.state, part.was_open) for part in after_all.parts][1] == ("succeeded", True)
    assert quorum.status_of(after_all.parts[1], after_all.job) == "skipped", "and changes nothing"


async def test_a_part_that_waits_to_be_tried_again_ends_with_its_job(store: Store) -> None:
    first, _, _, lease = await three(store)
    cluster = await created(store, first, lease.epoch, PARTS._replace(max_retries=3))
    (claim,) = await claimed(store, first)
    await settle(store, [claim], BROKEN)
    assert (await see(store, claim.id)).state == "retrying"
    change = lifecycle.by_hand(await see(store, cluster.id), "succeeded", NOW)
    assert change is not None
    assert await store.jobs.apply([change], NOW) == [True]
    assert (await see(store, claim.id)).state == "skipped"


async def test_cancel_reaches_all_parts(store: Store) -> None:
    first, second, _, lease = await three(store)
    cluster = await created(store, first, lease.epoch)
    (running,) = await claimed(store, second)
    change = lifecycle.cancel(cluster.job, NOW)
    assert change is not None
    assert await store.jobs.apply([change], NOW) == [True]
    jobs = await part_jobs(store, await found(store, cluster.id))
    assert [jobs[name].state for name in "abc"] == ["cancelled", "running", "cancelled"]
    assert jobs["b"].cancel_requested_at == NOW
    (held,) = await store.jobs.held(second)
    assert (held.id, held.cancel_requested) == (running.id, True)


@pytest.mark.contract("CLUS-8", "CLUS-9")
@pytest.mark.parametrize("decision", [End("failed", "no_quorum", "why"), Proceed(False)])
async def test_the_leader_ends_a_job_without_an_action_under_its_epoch(store: Store, decision: Any) -> None:
    first, second, _, lease = await three(store)
    cluster = await created(store, first, lease.epoch)

    async def end(node: UUID, epoch: int) -> object:
        change = quorum.as_change(cluster, decision, Lead(node, "a", NOW), epoch, NOW)
        return (await store.jobs.apply([change], NOW))[0]

    assert await end(second, lease.epoch) == "released"
    assert await end(first, lease.epoch + 1) == "released"
    assert (await see(store, cluster.id)).state == "queued"
    assert len(await store.cluster.undecided(NOW, 10)) == 1
    assert await end(first, lease.epoch) is True
    job = await see(store, cluster.id)
    expected = ("failed", "no_quorum", "why") if isinstance(decision, End) else ("succeeded", "no_quorum", None)
    assert (job.state, job.reason, job.error) == expected
    assert {part.state for part in (await found(store, cluster.id)).parts} == {"skipped"}
    assert await end(first, lease.epoch) is False, "one verdict"


@pytest.mark.contract("CLUS-6")
async def test_a_lost_nodes_part_is_settled_as_lost_and_seen_so(store: Store) -> None:
    first, second, _, lease = await three(store)
    cluster = await created(store, first, lease.epoch)
    claims = await claimed(store, second)
    await store.nodes.declare_lost(second, NOW)
    seen = (await found(store, cluster.id)).parts[1]
    assert (seen.is_alive, quorum.status_of(seen, cluster.job)) == (False, "lost")
    assert await settle(store, claims, CRASHED) == [True]
    part = (await found(store, cluster.id)).parts[1]
    assert (part.state, part.reason, quorum.status_of(part, cluster.job)) == ("skipped", "skipped_timeout", "lost")


async def test_a_node_without_a_name_gets_its_part_under_its_id_and_then_under_its_name(store: Store) -> None:
    first = await member(store, "a")
    lease, nameless = await lead(store, first), await member(store, "b", named=False)
    cluster = await created(store, first, lease.epoch)
    assert (await part_jobs(store, cluster))["b"].address == f"node:{nameless}"
    assert await claimed(store, nameless) == [], "until it has a name it claims nothing that is addressed"
    await store.nodes.take_name(nameless, "b")
    assert (await part_jobs(store, cluster))["b"].address == "node:b"
    assert len(await claimed(store, nameless)) == 1


@pytest.mark.contract("CLUS-11")
async def test_a_new_process_of_a_name_finds_what_the_last_one_was_to_try_again(store: Store) -> None:
    first, second, _, lease = await three(store)
    await created(store, first, lease.epoch, PARTS._replace(max_retries=3))
    claims = await claimed(store, second)
    await settle(store, claims, BROKEN)
    assert await store.cluster.interrupted("b", second) == []
    await store.nodes.declare_lost(second, NOW)
    again = await member(store, "b")
    (part,) = await store.cluster.interrupted("b", again)
    assert (part.id, part.state) == (claims[0].id, "retrying")
    await store.jobs.promote(after(hours=1), 10)
    (part,) = await store.cluster.interrupted("b", again)
    assert (part.id, part.state) == (claims[0].id, "queued"), "that it is due changes nothing"
    assert await claimed(store, again) == [], "nor is it claimed before it is ended"
    assert await store.jobs.apply([lifecycle.interrupted(part, NOW)], NOW) == [True]
    assert ((await see(store, part.id)).state, (await see(store, part.id)).reason) == (
        "failed",
        "worker_startup_recovery",
    )
    assert await store.cluster.interrupted("b", again) == []


async def test_parts_are_pruned_with_their_job_and_not_before(store: Store) -> None:
    first, second, _, lease = await three(store)
    cluster = await created(store, first, lease.epoch)
    await settle(store, await claimed(store, first))
    (late,) = await claimed(store, second)
    ids = [part.job_id or 0 for part in cluster.parts]
    assert await store.jobs.prune(after(days=1), 100) == 0, "its part has ended, the job has not"
    change = lifecycle.by_hand(await see(store, cluster.id), "failed", NOW)
    assert change is not None
    await store.jobs.apply([change], NOW)
    assert await store.jobs.prune(after(days=1), 100) == 0, "one of its parts still runs"
    await settle(store, [late])
    assert await store.jobs.prune(after(days=1), 100) == 1
    assert [job_id for job_id in ids if await store.jobs.get(job_id) is not None] == []
    assert await store.cluster.get([cluster.id], NOW) == []


async def test_a_listing_goes_on_from_an_id_and_has_new_ones_too(store: Store) -> None:
    first, _, _, lease = await three(store)
    ids = [(await created(store, first, lease.epoch)).id for _ in range(3)]
    (wish,) = await store.jobs.enqueue([a_wish()])
    assert [one.id for one in await store.cluster.page(NOW, None, 10)] == [wish.id, *reversed(ids)]
    assert [one.id for one in await store.cluster.page(NOW, ids[2], 1)] == [ids[1]]
    assert await store.cluster.get([1, 2], NOW) == []


@pytest.mark.contract("CLUS-1")
async def test_a_cluster_job_that_is_repeated_begins_as_a_new_one(store: Store) -> None:
    first, _, _, lease = await three(store)
    cluster = await created(store, first, lease.epoch)
    await store.cluster.release(cluster.id, True, NOW, node=first, epoch=lease.epoch)
    change = lifecycle.by_hand(await see(store, cluster.id), "failed", NOW)
    assert change is not None
    await store.jobs.apply([change], NOW)
    (new_id,) = await store.jobs.reserve(1)
    assert await store.slots.rerun(None, await see(store, cluster.id), new_id, NOW, by="ann")
    again = await see(store, new_id)
    assert (again.state, again.address, again.retry_of) == ("queued", "cluster", cluster.id)
    assert [one.id for one in await store.cluster.undecided(NOW, 10)] == [new_id]


@pytest.mark.contract("CLUS-6")
async def test_a_part_is_lost_once_no_node_lives_that_may_claim_it(store: Store) -> None:
    """Another node of the same name may not: the part is addressed to a process that never got the name."""
    first, _, _, lease = await three(store)
    twin = await member(store, "b", named=False)
    cluster = await created(store, first, lease.epoch)
    assert [part.node_name for part in cluster.parts] == ["a", "b", "b", "c"]
    await store.nodes.declare_lost(twin, NOW)
    cluster = await found(store, cluster.id)
    assert {part.node_id: part.is_alive for part in cluster.parts}[twin] is False
    assert sum(part.is_alive for part in cluster.parts) == 3


async def test_a_part_goes_by_the_name_that_its_node_gets(store: Store) -> None:
    first, _, _, lease = await three(store)
    twin = await member(store, "b", named=False)
    cluster = await created(store, first, lease.epoch)
    await store.nodes.take_name(twin, "b~2")
    cluster = await found(store, cluster.id)
    assert {part.node_id: part.node_name for part in cluster.parts}[twin] == "b~2"
    assert all(part.is_alive for part in cluster.parts)
    (claim,) = await claimed(store, twin)
    assert (await see(store, claim.id)).address == "node:b~2"


@pytest.mark.contract("CLUS-11")
async def test_a_new_process_leaves_alone_what_another_node_is_to_try_again(store: Store) -> None:
    """That one had the same name given, and got another: its part is in its hands, and goes on."""
    first, _, _, lease = await three(store)
    twin = await member(store, "b", named=False)
    await created(store, first, lease.epoch, PARTS._replace(max_retries=3))
    await store.nodes.take_name(twin, "b~2")
    claims = await claimed(store, twin)
    await settle(store, claims, BROKEN)
    assert await store.cluster.interrupted("b", await member(store, "b", named=False)) == []
    assert await store.cluster.interrupted("b~2", twin) == []
    await store.nodes.declare_lost(twin, NOW)
    heir = await member(store, "b~2")
    assert [part.id for part in await store.cluster.interrupted("b~2", heir)] == [claims[0].id]


@pytest.mark.contract("CLUS-9")
async def test_a_part_that_is_to_be_tried_again_after_its_job_has_ended_is_past_its_deadline(store: Store) -> None:
    """Its node may be gone by then, so that it would wait for ever."""
    first, second, _, lease = await three(store)
    cluster = await created(store, first, lease.epoch, PARTS._replace(max_retries=3))
    claims = await claimed(store, second)
    ending = lifecycle.by_hand(cluster.job, "failed", NOW)
    assert ending is not None
    assert await store.jobs.apply([ending], after(seconds=1)) == [True]
    running = await see(store, claims[0].id)
    assert (running.state, running.deadline_at, running.cancel_requested_at) == ("running", after(seconds=1), None)
    await settle(store, claims, BROKEN)
    (late,) = await store.jobs.expired(after(seconds=1), 10)
    assert (late.id, late.state) == (claims[0].id, "retrying")
    change = lifecycle.expire(late, after(seconds=1))
    assert change is not None
    assert (change.state, change.reason) == ("skipped", "deadline")


async def test_a_part_is_lost_if_the_node_that_has_its_name_by_now_does_not_know_its_task(store: Store) -> None:
    first, second, _, lease = await three(store)
    cluster = await created(store, first, lease.epoch)
    await store.nodes.declare_lost(second, NOW)
    await member(store, "b", tasks=["other"])
    cluster = await found(store, cluster.id)
    assert [part.is_alive for part in cluster.parts] == [True, False, True]
