"""What will have to be done about jobs, and when: virtual time goes no further than that."""

from __future__ import annotations

from oncue.model import PARKED, Outlook
from oncue.store import Store
from tests.store.scene import CRASHED, NOW, after, at, before, enter, fire, plan, put, settle, take

NOTHING = Outlook(frozenset(), frozenset(), frozenset(), False, False, None, None, None)


async def test_there_is_nothing_to_do_without_jobs(store: Store) -> None:
    assert await store.jobs.outlook() == NOTHING


async def test_the_queues_in_which_something_waits(store: Store) -> None:
    for queue in ("mail", "default", "mail"):
        await put(store, queue=queue)
    await put(store, queue="urgent", priority=100)
    await put(store, queue="later", state="scheduled", visible_at=after(hours=1))
    outlook = await store.jobs.outlook()
    assert outlook.waiting == {"mail", "default", "urgent"}
    await take(store, await enter(store), queues=("default", "mail", "urgent"))
    assert (await store.jobs.outlook()).waiting == frozenset()


async def test_a_job_that_is_kept_apart_waits_too(store: Store) -> None:
    node = await enter(store)
    await put(store)
    for _ in range(2):
        await settle(store, await take(store, node, few=1, alone=NOW), CRASHED)
        await store.jobs.promote(after(days=1), 10)
    assert (await store.jobs.outlook()).waiting == {"default"}
    assert await take(store, node) == [], "not among the others"


async def test_what_is_due_later(store: Store) -> None:
    await put(store, state="scheduled", visible_at=after(hours=2))
    await put(store, state="scheduled", visible_at=after(hours=1))
    assert (await store.jobs.outlook()).due_at == after(hours=1)
    await put(store, state="scheduled", visible_at=before(hours=1))
    assert (await store.jobs.outlook()).due_at == before(hours=1)


async def test_what_will_have_waited_past_its_time(store: Store) -> None:
    await put(store, deadline_at=after(hours=2))
    await put(store, deadline_at=after(hours=1), state="scheduled", visible_at=after(days=1))
    await put(store, deadline_at=after(minutes=1), state="scheduled", visible_at=PARKED)
    outlook = await store.jobs.outlook()
    assert outlook.expires_at == after(hours=1)
    assert await store.jobs.expired(after(hours=1), 10)
    await take(store, await enter(store))
    assert (await store.jobs.outlook()).expires_at == after(hours=1), "what is running is not waiting"


async def test_the_grace_of_a_slot_is_over_right_after_it(store: Store) -> None:
    await fire(store, await plan(store, grace=600.0), at(1))
    expires_at = (await store.jobs.outlook()).expires_at
    assert expires_at is not None
    (job,) = await store.jobs.expired(expires_at, 10)
    assert job.start_by is not None
    assert await store.jobs.expired(job.start_by, 10) == []


async def test_what_runs_for_too_long(store: Store) -> None:
    await put(store, max_runtime=None)
    await put(store, max_runtime=60.0)
    await put(store, max_runtime=3600.0)
    assert (await store.jobs.outlook()).overdue_at is None
    await take(store, await enter(store))
    assert (await store.jobs.outlook()).overdue_at == after(seconds=60)


async def test_what_is_running_on_a_node_that_is_lost(store: Store) -> None:
    one, other = await enter(store), await enter(store, "beta")
    await put(store, 2)
    await take(store, one, 1)
    await store.nodes.declare_lost(other, NOW)
    assert not (await store.jobs.outlook()).orphaned
    await store.nodes.declare_lost(one, NOW)
    assert (await store.jobs.outlook()).orphaned


async def test_what_is_parked(store: Store) -> None:
    await fire(store, await plan(store), at(1), at(2), parked=True)
    assert (await store.jobs.outlook()).parked
    await store.slots.release_parked(NOW, 10)
    assert (await store.jobs.outlook()).parked, "there is room for one"
