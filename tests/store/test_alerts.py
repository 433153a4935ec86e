"""What nodes measured minute by minute, and the state of the alerts: both stores."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest

from oncue.model import NO_ALERTS, AlertBook, AlertState, Minute
from oncue.store import Store
from tests.store.scene import NOW, a_batch, after, enter, lead, see

NODE, OTHER = uuid4(), uuid4()
STATE = AlertState("saturation", "windows", 0.9, 0.8, 2, NOW, after(minutes=1), 540, "all seats are taken")


def minute(node: UUID, at: datetime = NOW, name: str = "digest", **figures: int) -> Minute:
    return Minute(at, node, "window", name, figures)


@pytest.mark.contract("WIN-17")
async def test_the_minutes_of_all_nodes_are_read_together(store: Store) -> None:
    await store.alerts.append([minute(NODE, ok=3), minute(NODE, name="news", ok=1)])
    await store.alerts.append([minute(OTHER, ok=4), minute(OTHER, after(minutes=1), ok=5)])
    await store.alerts.append([])
    found = await store.alerts.minutes(NOW)
    assert sorted((row.name, row.figures["ok"]) for row in found) == [
        ("digest", 3), ("digest", 4), ("digest", 5), ("news", 1),
    ]  # fmt: skip
    assert {row.node_id for row in found} == {NODE, OTHER}
    assert [row.figures for row in await store.alerts.minutes(after(minutes=1))] == [{"ok": 5}]


@pytest.mark.contract("WIN-17")
async def test_a_row_that_is_sent_again_counts_once(store: Store) -> None:
    for _ in range(2):
        await store.alerts.append([minute(NODE, ok=3)])
    assert await store.alerts.minutes(NOW) == [minute(NODE, ok=3)]


async def test_old_minutes_are_pruned_in_bounded_batches(store: Store) -> None:
    await store.alerts.append([minute(NODE, NOW - timedelta(minutes=number)) for number in range(5)])
    assert [await store.alerts.prune(NOW, 3) for _ in range(3)] == [3, 1, 0]
    assert [row.minute for row in await store.alerts.minutes(NOW - timedelta(days=1))] == [NOW]


async def test_the_book_is_what_was_written_last(store: Store) -> None:
    assert await store.alerts.book() == NO_ALERTS
    epoch = (await lead(store, NODE)).epoch
    assert await store.alerts.write(AlertBook(0, None, (STATE,)), NOW, node=NODE, epoch=epoch)
    assert await store.alerts.book() == AlertBook(1, NOW, (STATE,))
    assert await store.alerts.write(AlertBook(1, None, ()), after(minutes=1), node=NODE, epoch=epoch)
    assert await store.alerts.book() == AlertBook(2, after(minutes=1), ())


@pytest.mark.contract("WIN-17")
async def test_a_stale_version_and_a_stale_epoch_write_nothing_and_make_no_jobs(store: Store) -> None:
    epoch = (await lead(store, NODE)).epoch
    assert await store.alerts.write(AlertBook(0, None, (STATE,)), NOW, node=NODE, epoch=epoch)
    (job_id,) = await store.jobs.reserve(1)
    batch = a_batch()._replace(ids=[job_id])
    stale = AlertBook(0, None, ())
    assert not await store.alerts.write(stale, after(minutes=1), node=NODE, epoch=epoch, jobs=[batch])
    later = (await lead(store, OTHER, now=after(minutes=2))).epoch
    assert later > epoch
    current = AlertBook(1, None, ())
    assert not await store.alerts.write(current, after(minutes=2), node=NODE, epoch=epoch, jobs=[batch])
    assert await store.jobs.get(job_id) is None
    assert await store.alerts.book() == AlertBook(1, NOW, (STATE,))
    assert await store.alerts.write(current, after(minutes=2), node=OTHER, epoch=later, jobs=[batch])
    assert (await see(store, job_id)).state == "queued"


async def test_the_job_of_a_group_that_comes_with_the_book_is_claimed(store: Store) -> None:
    node = await enter(store)
    epoch = (await lead(store, node)).epoch
    (job_id,) = await store.jobs.reserve(1)
    batch = a_batch()._replace(ids=[job_id], group="pager")
    assert await store.alerts.write(AlertBook(0, None, ()), NOW, node=node, epoch=epoch, jobs=[batch])
    await store.groups.wake([batch.queue], 10, NOW)
    claimed = await store.groups.claim(node, [batch.queue], [batch.task], 5, NOW)
    assert [claim.id for claim in claimed] == [job_id]
