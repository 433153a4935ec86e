"""Webhooks as rows, what their schedules and deliveries carry, and deliveries that no node would look at."""

from __future__ import annotations

import asyncio
from dataclasses import fields, replace
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from oncue.identity import job_uid
from oncue.model import (
    DELIVER,
    PARKED,
    STATES,
    WEBHOOKS_QUEUE,
    Claim,
    Decided,
    GroupSettings,
    Limits,
    Note,
    Orphan,
    Rate,
    Revised,
    Schedule,
    State,
    Webhook,
)
from oncue.store import Store
from tests.store.scene import (
    BROKEN,
    NOW,
    OPTIONS,
    a_schedule,
    a_step,
    after,
    at,
    before,
    enter,
    find,
    fire,
    plan,
    put,
    query,
    see,
    settle,
)

NOTE = Note("ada", "webhook.edit", "webhook:orders", {"url": "https://a.example"}, {"url": "https://b.example"})
LONG_AGO = before(minutes=10)


def a_webhook(name: str = "orders", **changed: Any) -> Webhook:
    usual: dict[str, Any] = {
        "id": 0, "name": name, "description": "new orders: größe", "url": "https://shop.example/hook?a=b",
        "method": "POST", "headers": {"X-Key": "ß", "Accept": "*/*"}, "content_type": "application/json",
        "body": '{"id": "{{ id }}"}', "timeout": 12.5, "secrets": ("whsec_abc", "env:ONCUE_SECRET_ORDERS"),
        "retry": '{"ladder": [30, 120, 600]}', "redirects": 2, "ca": "shop.pem", "certificate": None, "enabled": True,
        "reason": None, "declared_by": None, "version": 1, "created_by": "ada", "created_at": NOW, "updated_at": NOW,
    }  # fmt: skip
    return Webhook(**{**usual, **changed})


async def make(store: Store, name: str = "orders", **changed: Any) -> Webhook:
    assert await store.webhooks.write(a_webhook(name, **changed), 0, NOW)
    return await see_webhook(store, name)


async def see_webhook(store: Store, name: str = "orders") -> Webhook:
    (found,) = await store.webhooks.get([name])
    return found


def but_id(webhook: Webhook) -> dict[str, Any]:
    return {field.name: getattr(webhook, field.name) for field in fields(webhook) if field.name != "id"}


# --- the rows -----------------------------------------------------------------------------------------------------


async def test_a_webhook_is_read_as_it_was_written(store: Store) -> None:
    wanted = a_webhook()
    assert await store.webhooks.write(wanted, 0, NOW)
    assert but_id(await see_webhook(store)) == but_id(wanted)
    bare = a_webhook("bare", headers={}, body=None, secrets=(), ca=None, enabled=False, reason="by hand", timeout=60)
    assert await store.webhooks.write(bare, 0, NOW)
    assert but_id(await see_webhook(store, "bare")) == but_id(bare)
    numbers = [webhook.id for webhook in await store.webhooks.get(["orders", "bare"])]
    assert len(set(numbers)) == 2


async def test_many_are_read_at_once_and_those_that_are_not_there_are_left_out(store: Store) -> None:
    names = [f"hook-{number:02}" for number in range(20)]
    for name in names:
        await make(store, name)
    assert [webhook.name for webhook in await store.webhooks.get([*reversed(names), "nothing"])] == names
    assert await store.webhooks.get(["nothing"]) == []
    assert await store.webhooks.get([]) == []


async def test_a_write_counts_if_the_version_is_still_the_one_that_was_read(store: Store) -> None:
    first = await make(store)
    assert not await store.webhooks.write(a_webhook(url="https://other.example"), 0, NOW, note=NOTE), "it is there"
    assert await store.webhooks.write(replace(first, url="https://b.example", updated_at=after(hours=1)), 1, NOW)
    second = await see_webhook(store)
    assert (second.id, second.version, second.url) == (first.id, 2, "https://b.example")
    assert second.updated_at == after(hours=1)
    assert not await store.webhooks.write(replace(first, url="https://c.example"), 1, NOW, note=NOTE)
    assert not await store.webhooks.write(a_webhook("nothing"), 3, NOW, note=NOTE)
    assert await see_webhook(store) == second
    assert await store.audit_log.page() == []


async def test_of_two_that_write_at_once_one_counts(store: Store) -> None:
    first = await make(store)
    writes = (store.webhooks.write(replace(first, url=f"https://{n}.example"), 1, NOW) for n in range(5))
    assert sorted(await asyncio.gather(*writes)) == [False] * 4 + [True]
    assert (await see_webhook(store)).version == 2


async def test_a_deleted_webhook_keeps_its_row_and_may_come_back(store: Store) -> None:
    first = await make(store)
    await make(store, "zebra")
    gone = replace(first, deleted=True, deleted_at=after(hours=1), secrets=(), headers={})
    assert await store.webhooks.write(gone, 1, after(hours=1))
    assert [webhook.name for webhook in await store.webhooks.page()] == ["zebra"]
    seen = await see_webhook(store)
    assert (seen.deleted, seen.deleted_at, seen.secrets, seen.headers) == (True, after(hours=1), (), {})
    assert await store.webhooks.write(replace(seen, deleted=False, secrets=("whsec_new",)), 2, after(hours=2))
    back = await see_webhook(store)
    assert (back.id, back.version, back.deleted, back.deleted_at) == (first.id, 3, False, after(hours=1))


async def test_webhooks_are_listed_by_name_page_by_page(store: Store) -> None:
    for name in ("c", "a", "d", "b"):
        await make(store, name, declared_by="shop" if name in "bd" else None)
    assert [webhook.name for webhook in await store.webhooks.page(limit=3)] == ["a", "b", "c"]
    assert [webhook.name for webhook in await store.webhooks.page("c", 3)] == ["d"]
    assert [webhook.name for webhook in await store.webhooks.declared()] == ["b", "d"]
    d = await see_webhook(store, "d")
    assert await store.webhooks.write(replace(d, deleted=True), 1, NOW)
    assert [webhook.name for webhook in await store.webhooks.declared()] == ["b"]


async def test_a_write_is_noted_in_the_audit_log(store: Store) -> None:
    assert await store.webhooks.write(a_webhook(), 0, NOW, note=NOTE)
    assert await store.webhooks.write(a_webhook(), 1, after(hours=1), note=NOTE)
    entries = await store.audit_log.page()
    assert [entry.at for entry in entries] == [after(hours=1), NOW]
    assert {(entry.actor, entry.action, entry.subject) for entry in entries} == {NOTE[:3]}


# --- the schedules whose target it is ------------------------------------------------------------------------------


async def plan_webhook(store: Store, name: str = "nightly", **changed: Any) -> Schedule:
    target = {"task": DELIVER, "queue": WEBHOOKS_QUEUE, "group": "orders", "args": '{"webhook": "orders"}'}
    return await plan(store, name, **{**target, **changed})


async def test_an_edit_reaches_the_schedules_whose_target_it_is_and_no_others(store: Store) -> None:
    await make(store)
    for name in ("one", "two"):
        await plan_webhook(store, name)
    others = [
        await plan_webhook(store, "other", group="refunds"),
        await plan_webhook(store, "task", task="send"),
        await plan(store, "plain"),
    ]
    assert await store.webhooks.write(a_webhook(), 1, NOW, options=('{"retry": 7}', 7), note=NOTE)
    for name in ("one", "two"):
        found = await find(store, name)
        assert (found.options, found.max_retries, found.version) == ('{"retry": 7}', 7, 2)
    for other in others:
        assert await find(store, other.name) == other
    assert not await store.webhooks.write(a_webhook(), 1, NOW, options=("{}", 9))
    assert (await find(store, "one")).max_retries == 7, "a write that is refused changes no schedule"
    assert await store.webhooks.write(a_webhook(), 2, NOW)
    assert (await find(store, "one")).version == 2, "what does not touch the options leaves the schedules alone"


async def test_the_schedules_of_a_webhook_are_told_by_name(store: Store) -> None:
    for name in ("two", "one", "three"):
        await plan_webhook(store, name)
    await plan_webhook(store, "other", group="refunds")
    await plan_webhook(store, "task", task="send")
    await plan_webhook(store, "gone", deleted_at=NOW)
    found = await store.schedules.delivering_to("orders")
    assert [schedule.name for schedule in found] == ["one", "three", "two"]
    assert found[0] == await find(store, "one")
    assert [schedule.name for schedule in await store.schedules.delivering_to("orders", "one", 1)] == ["three"]
    assert await store.schedules.delivering_to("nothing") == []


async def test_a_slot_decided_on_what_was_read_before_an_edit_is_refused(store: Store) -> None:
    await make(store)
    schedule = await plan_webhook(store)
    assert await store.webhooks.write(a_webhook(), 1, NOW, options=(OPTIONS, 9))
    (job_id,) = await store.jobs.reserve(1)
    step = a_step(schedule, Decided(at(1), "fired", None, job_id))
    assert await store.slots.decide([step], at(1), by="tests") == [False]
    (job_id,) = await fire(store, schedule, at(1))
    assert (await see(store, job_id)).max_retries == 9


async def test_a_webhook_may_be_written_for_the_first_time_with_schedules_waiting_for_it(store: Store) -> None:
    await plan_webhook(store)
    assert await store.webhooks.write(a_webhook(), 0, NOW, options=("{}", 1))
    assert (await find(store, "nightly")).max_retries == 1


async def test_the_group_of_a_schedule_is_kept_and_may_change(store: Store) -> None:
    assert (await plan(store, "plain")).group is None
    schedule = await plan_webhook(store)
    assert schedule.group == "orders"
    assert [found.group for found in await store.schedules.page()] == ["orders", None]
    changed = replace(schedule, group="refunds", version=2)
    assert await store.schedules.revise([Revised(changed, 1, None)], NOW) == [True]
    assert (await find(store, "nightly")).group == "refunds"
    assert a_schedule().group is None


# --- deliveries that no node would look at --------------------------------------------------------------------------


async def deliveries(store: Store, group: str = "orders", size: int = 1, **changed: Any) -> list[int]:
    usual = {"task": DELIVER, "queue": WEBHOOKS_QUEUE, "group": group, "created_at": before(hours=1)}
    return await put(store, size, **{**usual, **changed})


async def forget(store: Store) -> None:
    """Lose what was told of groups, as no correct program does."""
    await query(store, "delete from oncue_group_wakeups")


async def lost(store: Store, *args: Any, **changed: Any) -> list[int]:
    ids = await deliveries(store, *args, **changed)
    await forget(store)
    return ids


async def orphans(store: Store, due_before: datetime = LONG_AGO, limit: int = 100, after: int = 0) -> list[int]:
    return [orphan.id for orphan in await store.webhooks.orphans(due_before, after, limit)]


async def take_deliveries(store: Store, node: UUID, limit: int = 100, *, now: datetime = NOW) -> list[Claim]:
    await store.groups.wake([WEBHOOKS_QUEUE], 1000, now)
    return await store.groups.claim(node, [WEBHOOKS_QUEUE], [DELIVER], limit, now)


async def test_the_deliveries_to_an_endpoint_are_listed_newest_first(store: Store) -> None:
    node = await enter(store)
    done, failed, runs = await deliveries(store, size=3)
    claims = {claim.id: claim for claim in await take_deliveries(store, node)}
    await settle(store, [claims[done]])
    await settle(store, [claims[failed]], BROKEN)
    (waits,) = await deliveries(store)
    await deliveries(store, "refunds")
    await deliveries(store, task="send")

    async def listed(*states: State, before: int | None = None, limit: int = 100) -> list[int]:
        asked = ("orders", states or STATES, before, limit)
        found = await store.webhooks.executions(*asked)
        assert await store.webhooks.executions(*asked, short=True) == found, "nothing is large"
        assert [await see(store, job.id) for job in found] == found
        return [job.id for job in found]

    broken = (await see(store, failed)).state
    assert await listed() == [waits, runs, failed, done]
    assert await listed(limit=3) == [waits, runs, failed]
    assert await listed(before=runs) == [failed, done]
    assert await listed("succeeded") == [done]
    assert await listed("running") == [runs]
    assert await listed(broken, "queued", limit=1) == [waits]
    assert await store.webhooks.executions("nothing", STATES, None, 9) == []


@pytest.mark.contract("HOOK-11")
async def test_a_delivery_of_whose_group_nothing_is_known_is_an_orphan_until_it_is_emitted_again(store: Store) -> None:
    node = await enter(store)
    ids = await lost(store, "orders", 3) + await lost(store, "refunds")
    assert await take_deliveries(store, node) == [], "no claim looks at them"
    assert await orphans(store) == ids
    assert await store.webhooks.re_emit(ids[:2], NOW) == ids[:2]
    assert await orphans(store) == ids[3:], "their group is looked at again, and with it the third"
    assert await store.webhooks.re_emit(ids[3:], NOW) == ids[3:]
    assert await orphans(store) == []
    claims = await take_deliveries(store, node)
    assert sorted(claim.id for claim in claims) == ids
    assert {(claim.attempt, claim.retry_count, claim.claim_no) for claim in claims} == {(0, 0, 1)}


@pytest.mark.contract("HOOK-11")
async def test_an_orphan_tells_what_its_log_line_needs(store: Store) -> None:
    schedule = await plan_webhook(store)
    (of_slot,) = await fire(store, schedule, at(1))
    (by_hand,) = await lost(store, created_at=at(2))
    assert await store.webhooks.orphans(at(60), 0, 100) == sorted(
        [
            Orphan(of_slot, at(1), "orders", schedule.id, NOW, at(1), at(1)),
            Orphan(by_hand, at(2), "orders", None, None, None, at(2)),
        ]
    )
    (orphan,) = [one for one in await store.webhooks.orphans(at(60), 0, 100) if one.id == of_slot]
    assert orphan.uid == (await see(store, of_slot)).uid
    assert orphan.schedule_uid == job_uid(schedule.id, schedule.created_at)
    assert Orphan(by_hand, at(2), "orders", None, None, None, at(2)).schedule_uid is None


@pytest.mark.contract("HOOK-11")
async def test_what_is_told_of_is_no_orphan(store: Store) -> None:
    node = await enter(store)
    await deliveries(store)
    assert await orphans(store) == [], "the next look reads of it"
    await store.groups.wake([WEBHOOKS_QUEUE], 1000, NOW)
    assert await orphans(store) == [], "its group has its turn"
    await take_deliveries(store, node)
    assert await orphans(store) == [], "it runs"


@pytest.mark.contract("HOOK-11")
async def test_only_queued_deliveries_that_are_due_for_long_are_orphans(store: Store) -> None:
    node = await enter(store)
    await lost(store, "young", created_at=before(minutes=5))
    await lost(store, "later", state="scheduled", visible_at=after(hours=1))
    await lost(store, "other task", task="send")
    await lost(store, "other queue", queue="mail")
    await lost(store, None)
    (ended,), (again,) = await deliveries(store, "ended"), await deliveries(store, "again")
    claims = {claim.id: claim for claim in await take_deliveries(store, node)}
    await settle(store, [claims[ended]])
    await settle(store, [claims[again]], BROKEN)
    await forget(store)
    assert await orphans(store) == []
    assert len(await orphans(store, after(days=9))) == 1


@pytest.mark.contract("HOOK-11")
async def test_what_waits_for_room_is_no_orphan(store: Store) -> None:
    node = await enter(store)
    assert await store.queues.set_limits(WEBHOOKS_QUEUE, Limits(), Limits(per_group=2), NOW)
    waiting = (await deliveries(store, size=3))[2]
    (first, _) = await take_deliveries(store, node)
    assert await orphans(store) == []
    await settle(store, [first])
    await forget(store)
    assert await orphans(store) == [waiting], "there is room, and that was never told"
    await store.groups.set(WEBHOOKS_QUEUE, "orders", GroupSettings(), GroupSettings(limit=1), NOW)
    await query(store, "update oncue_groups set ready_at = null")
    assert await orphans(store) == [], "its own limit is smaller"


@pytest.mark.contract("HOOK-11")
async def test_what_waits_for_a_pause_a_rate_or_a_breaker_is_no_orphan(store: Store) -> None:
    node = await enter(store)
    await store.groups.set(WEBHOOKS_QUEUE, "paused", GroupSettings(), GroupSettings(paused_until=PARKED), NOW)
    await store.groups.set(WEBHOOKS_QUEUE, "rated", GroupSettings(), GroupSettings(rate=Rate(1, 3600)), NOW)
    assert await store.groups.trip(WEBHOOKS_QUEUE, "broken", 0, 1, after(minutes=1), NOW)
    for group in ("paused", "rated", "broken"):
        await deliveries(store, group, 3)
    assert [claim.group for claim in await take_deliveries(store, node)] == ["rated"]
    assert await orphans(store) == []
    probe, *_ = await take_deliveries(store, node, now=after(minutes=1))
    assert probe.group == "broken"
    assert await orphans(store) == [], "one probe runs at a time"


@pytest.mark.contract("HOOK-11")
async def test_what_waits_in_a_paused_queue_is_no_orphan(store: Store) -> None:
    (job_id,) = await lost(store)
    await store.queues.pause(WEBHOOKS_QUEUE, NOW)
    assert await orphans(store) == []
    await store.queues.resume(WEBHOOKS_QUEUE, NOW)
    assert await orphans(store) == [job_id]


@pytest.mark.contract("HOOK-11")
async def test_orphans_are_bounded_and_come_by_id(store: Store) -> None:
    ids = await lost(store, "b", 5) + await lost(store, "a", 5) + await lost(store, "c", 5)
    assert await orphans(store, limit=7) == ids[:7]
    assert await orphans(store, limit=7, after=ids[6]) == ids[7:14]
    assert await orphans(store, after=ids[13]) == ids[14:]


@pytest.mark.contract("HOOK-11")
async def test_nothing_but_a_queued_delivery_is_emitted_again(store: Store) -> None:
    node = await enter(store)
    (ended,) = await deliveries(store)
    (claim,) = await take_deliveries(store, node)
    assert await store.webhooks.re_emit([ended], NOW) == [], "it runs"
    await settle(store, [claim])
    (later,) = await deliveries(store, state="scheduled", visible_at=after(hours=1))
    (other,) = await put(store, group="orders", queue=WEBHOOKS_QUEUE)
    (waits,) = await deliveries(store)
    kept = [await see(store, job_id) for job_id in (ended, later, other, waits)]
    assert await store.webhooks.re_emit([999, ended, later, other, waits], after(hours=1)) == [waits]
    assert [await see(store, job.id) for job in kept] == kept, "no row of a job is written"
    assert await store.webhooks.re_emit([], NOW) == []


async def test_limits_by_default_leave_what_was_set_alone(store: Store) -> None:
    assert await store.queues.default_limits(WEBHOOKS_QUEUE, Limits(per_group=10, rate=Rate(5, 1)), NOW)
    assert await store.queues.limits(WEBHOOKS_QUEUE) == Limits(per_group=10, rate=Rate(5, 1))
    assert not await store.queues.default_limits(WEBHOOKS_QUEUE, Limits(per_group=20), NOW)
    assert await store.queues.limits(WEBHOOKS_QUEUE) == Limits(per_group=10, rate=Rate(5, 1))
    assert await store.queues.set_limits(WEBHOOKS_QUEUE, Limits(per_group=10, rate=Rate(5, 1)), Limits(), NOW)
    assert not await store.queues.default_limits(WEBHOOKS_QUEUE, Limits(per_group=20), NOW)
    assert await store.queues.limits(WEBHOOKS_QUEUE) == Limits(), "an operator took the limit away"
