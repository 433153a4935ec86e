"""Jobs in every state, with attempts, errors, progress, details, keys, groups, addresses, and relatives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from oncue import Ladder, Oncue, current_job
from oncue.model import Job

LONG_TEXT = "A line of a long article, as it is handed to the task.\n" * 600
DEPTH = 30


def declare(app: Oncue) -> None:
    @app.task(name="jobs_charge", retry=Ladder("1h"), max_retries=3, priority=60)
    async def charge(order: int, currency: str = "EUR") -> str:
        current_job().details(status=503, ms=12.5, excerpt="the card processor is away")
        if current_job().attempt == 1 and order % 2:
            raise ConnectionError("the card processor does not answer")
        return f"order {order} is paid in {currency}"

    @app.task(name="jobs_import", max_retries=0)
    async def import_rows(path: str, rows: int = 3) -> None:
        deep(rows, DEPTH)

    @app.task(name="jobs_crawl", timeout="5m")
    async def crawl(site: str) -> None:
        current_job().progress(0.4, f"page 4 of 10 of {site}")
        await asyncio.sleep(280)

    @app.task(name="jobs_publish")
    async def publish(text: str) -> dict[str, object]:
        return {"characters": len(text), "tags": ["news", "<b>not bold</b>"]}

    @app.task(name="jobs_nightly", delivery="at_most_once", max_retries=0)
    async def nightly() -> None:
        raise ValueError("the report of yesterday is not there")


def deep(rows: int, left: int) -> None:
    """An error with a long traceback."""
    if left:
        deep(rows, left - 1)
    else:
        raise LookupError(f"row {rows} has no column 'amount'\nthe file has: id, name")


async def tell(app: Oncue) -> list[str]:
    charge, import_rows = app.find("jobs_charge"), app.find("jobs_import")
    crawl, publish, nightly = app.find("jobs_crawl"), app.find("jobs_publish"), app.find("jobs_nightly")
    await app.queues.pause("jobs_paused")

    paid = [(await charge.using(group=f"tenant:{order}").aenqueue(order)).id for order in (2, 4)]
    retrying = (await charge.using(group="tenant:7", key="order:7").aenqueue(7)).id
    failed = [(await import_rows.aenqueue(f"/data/{name}.csv", rows=row)).id for row, name in enumerate("abc", 3)]
    large = (await publish.aenqueue(LONG_TEXT)).id
    running = (await crawl.using(priority=80).aenqueue("https://example.org")).id
    later = (await charge.using(delay="2h", key="order:9").aenqueue(9)).id
    waiting = [row.id for row in await publish.using(queue="jobs_paused").aenqueue_many(["one", "two", "three"])]
    elsewhere = (await publish.using(address="node:elsewhere", deadline="3h").aenqueue("four")).id
    await app.jobs.prioritize(waiting[0], 90, by="anna")
    await app.jobs.cancel(waiting[2], by="anna")

    await app.schedules.create("jobs_nightly", "0 3 * * *", nightly)
    slot = await app.schedules.run_now("jobs_nightly", by="anna")
    assert slot.job_id is not None
    await ended(app, [*paid, *failed, large, slot.job_id])
    again = await app.jobs.retry(slot.job_id, by="anna")
    await ended(app, [again.id])
    await until(app, retrying, lambda job: job.state == "retrying")
    await until(app, running, lambda job: job.progress is not None)
    return [
        "/jobs", "/jobs?status=failed", "/jobs?queue=jobs_paused&status=queued%2Cretrying&since=-1d",
        "/jobs?key=nothing-has-this", "/jobs/all?task=jobs_import", "/jobs/all?status=failed&task=jobs_import",
        f"/jobs/{failed[0]}", f"/jobs/{retrying}", f"/jobs/{running}", f"/jobs/{large}", f"/jobs/{slot.job_id}",
        f"/jobs/{waiting[0]}", f"/jobs/{later}", f"/jobs/{elsewhere}",
    ]  # fmt: skip


async def ended(app: Oncue, ids: Iterable[int]) -> None:
    for job_id in ids:
        await until(app, job_id, lambda job: job.finished)


async def until(app: Oncue, job_id: int, holds: Callable[[Job], bool]) -> None:
    for _ in range(1000):
        if holds(await app.jobs.get(job_id)):
            return
        await asyncio.sleep(0.02)
    raise TimeoutError(f"job {job_id} does not get where it should")
