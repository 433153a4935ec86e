"""For how long the oldest has waited, and has run: in each queue, without a look at all that waits."""

from __future__ import annotations

from datetime import datetime

import asyncpg

from oncue.model import PARKED, GroupSettings
from oncue.store import Store
from tests.store.scene import BROKEN, NOW, a_suspect, after, before, enter, put, settle, take
from tests.store.test_plans import FILL, explained, nodes, trouble


async def waits(store: Store, heads: int = 20) -> dict[str, datetime]:
    return {age.queue: age.since for age in await store.counters.ages(NOW, heads) if age.kind == "queued"}


async def test_the_longest_wait_of_each_queue(store: Store) -> None:
    assert await store.counters.ages(NOW, 20) == []
    for minutes, priority, queue in ((5, 100, "a"), (9, 0, "a"), (7, 50, "a"), (3, 0, "b"), (1, 0, "b")):
        await put(store, created_at=before(minutes=minutes), priority=priority, queue=queue)
    assert await waits(store) == {"a": before(minutes=9), "b": before(minutes=3)}


async def test_a_wait_begins_when_a_job_is_due(store: Store) -> None:
    node = await enter(store)
    await put(store, created_at=before(days=9), visible_at=before(minutes=2))
    assert await waits(store) == {"default": before(minutes=2)}, "an old one that came back just now"
    await put(store, queue="later", state="scheduled", created_at=before(days=9), visible_at=before(minutes=4))
    await put(store, queue="parked", state="scheduled", visible_at=PARKED)
    await put(store, queue="future", state="scheduled", visible_at=after(minutes=1))
    assert (await waits(store)).keys() == {"default", "later"}, "due, even if no worker is there to promote it"
    await settle(store, await take(store, node))
    await a_suspect(store, node, queue="hot", created_at=before(minutes=6))
    assert (await waits(store))["hot"] >= before(minutes=6)


async def test_jobs_of_a_group_wait_from_its_turn_on(store: Store) -> None:
    """What waits for the room, the rate or the pause of its group is as it was set."""
    node = await enter(store)
    for group in ("full", "open", "paused"):
        await put(store, 2, queue="mail", group=group, created_at=before(hours=3))
    assert await store.groups.set("mail", "full", GroupSettings(), GroupSettings(limit=1), NOW)
    assert await store.groups.set("mail", "paused", GroupSettings(), GroupSettings(paused_until=PARKED), NOW)
    await store.groups.wake(["mail"], 100, before(minutes=9))
    assert await waits(store) == {"mail": before(minutes=9)}, "it has its turn since then"
    assert len(await store.groups.claim(node, ["mail"], ["send"], 10, NOW)) == 3
    assert await waits(store) == {}, "one group is full, one is paused"
    await put(store, queue="other", group="open")
    await store.groups.wake(["other"], 100, before(minutes=2))
    assert await waits(store) == {"other": before(minutes=2)}


async def test_only_the_heads_are_looked_at(store: Store) -> None:
    for minutes in range(3):
        await put(store, created_at=before(days=3 - minutes), visible_at=before(minutes=minutes))
    assert await waits(store, heads=1) == {"default": NOW}
    assert await waits(store, heads=3) == {"default": before(minutes=2)}


async def test_the_longest_run_of_each_task(store: Store) -> None:
    node = await enter(store)
    for task, queue in (("send", "a"), ("fetch", "a"), ("send", "b")):
        await put(store, 2, task=task, queue=queue)
    first = await take(store, node, 1, queues=["a"], now=before(hours=2))
    await take(store, node, 9, queues=["a", "b"], tasks=["send", "fetch"], now=before(hours=1))
    ages = {(age.queue, age.task): age.since for age in await store.counters.ages(NOW, 20) if age.kind == "running"}
    assert ages == {
        ("a", "send"): before(hours=2),
        ("a", "fetch"): before(hours=1),
        ("b", "send"): before(hours=1),
    }
    await settle(store, first, BROKEN)
    ages = {(age.queue, age.task): age.since for age in await store.counters.ages(NOW, 20) if age.kind == "running"}
    assert ages["a", "send"] == before(hours=1)


async def test_a_look_reads_no_finished_jobs_and_only_heads(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    try:
        await connection.execute(FILL.replace("200000", "50000"))
        for analysed in (False, True):
            if analysed:
                await connection.execute("analyze")
            for mode in ("force_custom_plan", "force_generic_plan"):
                await connection.execute(f"set plan_cache_mode = {mode}")
                plan = await explained(connection, "ages", [NOW, 20], "analyze,")
                assert trouble(plan, "oncue_jobs_claimable and oncue_jobs_running and oncue_jobs_later") is None
                read = sum(
                    part["Actual Rows"] * part["Actual Loops"]
                    for part in nodes(plan)
                    if part.get("Index Name") in ("oncue_jobs_claimable", "oncue_jobs_restricted", "oncue_jobs_later")
                )
                assert read < 1000, "30 lanes of 10,000 jobs"
    finally:
        await connection.close()


async def test_a_look_at_many_groups_reads_a_job_of_each_head(postgres_url: str) -> None:
    """One caller may have made them all: the sampler must not read what waits in them."""
    connection = await asyncpg.connect(postgres_url)
    try:
        fill = FILL.replace("200000", "20000").replace("isolation, ", "isolation, group_name, ")
        await connection.execute(
            fill.replace("case when state = 'running' then '", "n::text, case when state = 'running' then '")
        )
        await connection.execute(
            "insert into oncue_groups (queue, name, ready_at, version) "
            "select queue, group_name, $1, 1 from oncue_jobs where state = 'queued' and isolation = 0",
            before(minutes=1),
        )
        for analysed in (False, True):
            if analysed:
                await connection.execute("analyze")
            for mode in ("force_custom_plan", "force_generic_plan"):
                await connection.execute(f"set plan_cache_mode = {mode}")
                plan = await explained(connection, "ages", [NOW, 20], "analyze,")
                assert trouble(plan, "oncue_jobs_grouped and oncue_groups_ready") is None
                read = sum(
                    (part["Actual Rows"] + part.get("Rows Removed by Filter", 0)) * part["Actual Loops"]
                    for part in nodes(plan)
                    if part.get("Index Name") in ("oncue_jobs_grouped", "oncue_jobs_set_apart")
                )
                assert read < 200, "20 groups of each of three queues, of 4,000"
    finally:
        await connection.close()
