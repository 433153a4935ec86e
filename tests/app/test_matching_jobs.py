"""All jobs that match a filter: counting them, searching them, and changing each of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from oncue import InvalidJob, Oncue, Task
from oncue.model import JobFilter
from oncue.verbs.jobs import matching
from tests.store.scene import a_batch


@pytest.fixture
def work(app: Oncue) -> Task[[int], None]:
    @app.task
    def work(n: int) -> None: ...

    return work


async def many(work: Task[[int], None], size: int) -> list[int]:
    return [receipt.id for receipt in await work.aenqueue_many(range(size))]


@pytest.mark.contract("QUE-14", "QUE-15")
async def test_all_that_match_are_retried_and_what_is_refused_is_told(app: Oncue, work: Task[[int], None]) -> None:
    ids = await many(work, 5)
    held = await work.using(key="k").aenqueue(1)
    await app.jobs.set_status_many([*ids[:3], held.id], "failed")
    await work.using(key="k").aenqueue(2)
    done = await app.jobs.retry_matching(JobFilter(("failed",), task="work"), by="ada")
    assert (done.handled, done.changed, done.refused, done.next) == (4, 3, 1, None)
    assert [(one.id, one.state) for one in done.refusals] == [(held.id, "failed")]
    assert "its key 'k' is held" in done.refusals[0].message
    assert {entry.subject for entry in await app.audit_log.list(actor="ada")} == {f"job:{each}" for each in ids[:3]}


@pytest.mark.contract("QUE-15")
async def test_all_that_match_are_cancelled_or_get_a_priority(app: Oncue, work: Task[[int], None]) -> None:
    ids = await many(work, 4)
    grouped = [(await work.using(group="tenant:7").aenqueue(n)).id for n in range(2)]
    raised = await app.jobs.prioritize_matching(JobFilter(group="tenant:7"), 80, by="ada")
    assert (raised.handled, raised.changed) == (2, 2)
    assert [job.priority for job in await app.jobs.list(limit=10)] == [80, 80, *[0] * 4]
    again = await app.jobs.prioritize_matching(JobFilter(group="tenant:7"), 80, by="ada")
    assert (again.handled, again.changed, again.refused) == (2, 0, 0)
    cancelled = await app.jobs.cancel_matching(JobFilter(("queued",), queue="default"), by="ada")
    assert cancelled.changed == 6
    assert {job.state for job in await app.jobs.list(limit=10)} == {"cancelled"}
    assert len(await app.audit_log.list(actor="ada")) == 2 + 6
    assert sorted(job.id for job in await app.jobs.list()) == sorted([*ids, *grouped])


async def test_a_change_goes_on_where_the_last_one_stopped(
    app: Oncue, work: Task[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching, "BATCH", 2)
    ids = await many(work, 7)
    first = await app.jobs.cancel_matching(JobFilter(), most=3)
    assert (first.handled, first.next) == (3, ids[4])
    assert [job.id for job in await app.jobs.list(["queued"])] == ids[3::-1]
    rest = await app.jobs.cancel_matching(JobFilter(before=first.next))
    assert (rest.handled, rest.next) == (4, None)


@pytest.mark.parametrize(
    ("verb", "wanted", "said"),
    [
        ("retry_matching", JobFilter(), "status: expected which ended jobs: succeeded, failed"),
        ("retry_matching", JobFilter(("failed", "running")), "status: expected statuses of ended jobs"),
        ("cancel_matching", JobFilter(("failed",)), "status: expected statuses of unfinished jobs"),
        ("cancel_matching", JobFilter(("lost",)), "expected a list of"),  # type: ignore[arg-type]
    ],
)
async def test_statuses_that_make_no_sense_are_refused(app: Oncue, verb: str, wanted: JobFilter, said: str) -> None:
    with pytest.raises(InvalidJob, match=said):
        await getattr(app.jobs, verb)(wanted)


async def test_a_count_ends(app: Oncue, work: Task[[int], None], monkeypatch: pytest.MonkeyPatch) -> None:
    await many(work, 6)
    await work.using(group="tenant:7").aenqueue(1)

    async def told(wanted: JobFilter, **options: Any) -> tuple[str, bool]:
        counted = await app.jobs.count(wanted, **options)
        return str(counted), counted.is_exact

    assert await told(JobFilter()) == ("7", True)
    assert await told(JobFilter(("queued",)), most=7) == ("7", True)
    assert await told(JobFilter(("queued",)), most=5) == ("more than 5", False)
    assert await told(JobFilter(group="tenant:7")) == ("1", True)
    monkeypatch.setattr(matching, "LOOKS_OF_A_COUNT", 4)
    assert await told(JobFilter(group="tenant:7")) == ("at least 1", False)


async def test_a_search_by_group_reads_so_many_jobs_for_a_page(
    app: Oncue, work: Task[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = [(await work.using(group="tenant:7").aenqueue(n)).id for n in range(3)]
    newer = await many(work, 6)
    monkeypatch.setattr(matching, "LOOKS_OF_A_PAGE", 4)
    monkeypatch.setattr(matching, "LOOKS_AMONG_KINDS", 4)
    first = await app.jobs.search(JobFilter(group="tenant:7", limit=2))
    assert (first.jobs, first.next) == ([], newer[2])
    second = await app.jobs.search(JobFilter(group="tenant:7", limit=2, before=first.next))
    assert ([job.id for job in second.jobs], second.next) == (old[:0:-1], old[1])
    third = await app.jobs.search(JobFilter(group="tenant:7", limit=2, before=second.next))
    assert ([job.id for job in third.jobs], third.next) == (old[:1], None)
    done = await app.jobs.cancel_matching(JobFilter(group="tenant:7"))
    assert (done.changed, done.next) == (3, None)


async def test_pages_of_a_search(app: Oncue, work: Task[[int], None]) -> None:
    ids = await many(work, 5)
    first = await app.jobs.search(JobFilter(("queued",), limit=3))
    assert ([job.id for job in first.jobs], first.next) == (ids[:1:-1], ids[2])
    rest = await app.jobs.search(JobFilter(("queued",), limit=3, before=first.next))
    assert ([job.id for job in rest.jobs], rest.next) == (ids[1::-1], None)


async def test_a_search_by_when_jobs_were_made_begins_there(app: Oncue, work: Task[[int], None]) -> None:
    connected = await app.internals.connected()
    now = connected.now()

    async def made(hours: int, size: int) -> list[int]:
        batch = a_batch(size, task="work", created_at=now - timedelta(hours=hours))
        ids = await connected.store.jobs.reserve(size)
        return [one.id for one in await connected.store.jobs.enqueue([batch._replace(ids=ids)])]

    old, between, late = [await made(hours, 5) for hours in (9, 5, 1)]
    since, until = now - timedelta(hours=6), now - timedelta(hours=3)
    assert [job.id for job in (await app.jobs.search(JobFilter(since=until))).jobs] == late[::-1]
    assert [job.id for job in (await app.jobs.search(JobFilter(until=since))).jobs] == old[::-1]
    some = JobFilter(since=since, until=until)
    assert [job.id for job in (await app.jobs.search(some)).jobs] == between[::-1]
    assert str(await app.jobs.count(some)) == "5"
    assert (await app.jobs.cancel_matching(some)).changed == 5
    assert str(await app.jobs.count(replace(some, states=("cancelled",)))) == "5"
