"""What the crawler's operators see: SQL views in the origin's words, and `oncue explain` for its four troubles."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from community_crawler import communities, database, jobs
from community_crawler.worker import APP
from sqlalchemy import text

from oncue.cli import run
from oncue.model import Claim, Failed, Outcome, Succeeded
from oncue.policy.lifecycle import Ended, settle
from oncue.settings import load
from tests.examples.conftest import NOW, ROOT
from tests.store.scene import a_node

CRAWL_JOBS = (
    "id", "subreddit_id", "status", "retries", "priority", "last_attempt", "duration_ms", "enqueued_by", "created_at",
    "updated_at", "visible_at", "retry_count", "max_retries", "next_retry_at",
)  # fmt: skip
SCHEDULED_JOBS = (
    "id", "name", "description", "subreddit_id", "cron_expression", "enabled", "last_run_at", "next_run_at", "priority",
    "max_retries", "created_at", "updated_at", "created_by",
)  # fmt: skip


@pytest.fixture
def crawler(crawler_url: str, runner: asyncio.Runner) -> Iterator[str]:
    """The crawler on a fresh database; its address."""
    assert run(["migrate", "--database-url", crawler_url]) == 0
    jobs.app.configure(load(environment={}, code={"database_url": crawler_url}))
    jobs.forget()
    yield crawler_url
    runner.run(jobs.app.aclose())
    jobs.forget()


def added(name: str) -> int:
    return communities.add(jobs.engine(), "http://site.example", name, NOW)


def rows(view: str) -> list[dict[str, Any]]:
    with database.reading(jobs.engine()) as connection:
        return [dict(row._mapping) for row in connection.execute(text(f"select * from {view} order by id"))]


@asynccontextmanager
async def a_worker() -> AsyncIterator[Any]:
    """A live node that runs what the test says; it gives jobs back when it ends."""
    connected = await jobs.app.internals.connected()
    now = connected.now()
    node = replace(
        a_node(), queues=("crawl",), tasks=("crawl",), started_at=now, beat_at=now, expires_at=now + timedelta(hours=1)
    )
    await connected.store.nodes.register(node)

    async def work(outcome: Outcome | None) -> Claim:
        (claim,) = await connected.store.jobs.claim(node.id, ["crawl"], ["crawl"], 1, connected.now())
        if outcome is not None:
            change = settle(Ended(claim, outcome, claim.claimed_at, connected.now()), Random(1))
            assert await connected.store.jobs.apply([change], connected.now()) == [True]
        return claim

    yield work


async def explained(what: str, *options: str, capsys: pytest.CaptureFixture[str], url: str) -> dict[str, Any]:
    """What `oncue explain` says of the live database."""
    capsys.readouterr()
    code = await asyncio.to_thread(run, ["explain", what, *options, "--json", "--app", APP, "--database-url", url])
    assert code == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


@pytest.mark.contract("QUE-23", "QUE-17")
async def test_crawl_jobs_is_a_view_with_the_origins_columns(crawler: str) -> None:
    assert rows("crawl_jobs") == []
    done, again, running, waiting = [added(name) for name in ("done", "again", "running", "waiting")]
    async with a_worker() as work:
        await jobs.crawl.aenqueue(done)
        await work(Succeeded())
        await jobs.crawl.aenqueue(again)
        await work(Failed("x"))
        await jobs.crawl.aenqueue(running)
        await work(None)
    await jobs.crawl.using(priority=30, delay="1h", max_retries=10, enqueued_by="ada").aenqueue(waiting)
    await jobs.recrawl_stale.aenqueue(NOW)
    found = {row["subreddit_id"]: row for row in rows("crawl_jobs")}
    assert tuple(found[done]) == CRAWL_JOBS
    assert {number: row["status"] for number, row in found.items()} == {
        done: "success", again: "queued", running: "crawling", waiting: "queued",
    }  # fmt: skip
    assert (found[again]["retries"], found[again]["retry_count"], found[again]["max_retries"]) == (1, 1, 3)
    assert found[again]["next_retry_at"] == found[again]["visible_at"] > found[again]["created_at"]
    assert (found[done]["next_retry_at"], found[waiting]["next_retry_at"]) == (None, None)
    assert found[done]["duration_ms"] >= 0
    assert (found[waiting]["last_attempt"], found[running]["last_attempt"] is None) == (None, False)
    assert (found[waiting]["priority"], found[waiting]["max_retries"], found[waiting]["enqueued_by"]) == (30, 10, "ada")
    assert found[done]["enqueued_by"] == "system"


@pytest.mark.contract("QUE-7")
async def test_scheduled_jobs_is_a_view_with_the_origins_columns(crawler: str) -> None:
    number = added("harbour")
    await jobs.app.schedules.create(
        "daily", "@daily", jobs.crawl, {"subreddit_id": number}, description="Daily", priority=20, created_by="ada"
    )
    await jobs.app.schedules.create("gone", "@daily", jobs.crawl, {"subreddit_id": number})
    await jobs.app.schedules.delete("gone")
    (row,) = rows("scheduled_jobs")
    assert tuple(row) == SCHEDULED_JOBS
    wanted = {"name": "daily", "description": "Daily", "subreddit_id": number, "cron_expression": "@daily",
              "enabled": True, "last_run_at": None, "priority": 20, "created_by": "ada"}  # fmt: skip
    assert {name: row[name] for name in wanted} == wanted
    assert row["next_run_at"] > row["created_at"] == row["updated_at"]


def test_the_views_are_made_once_however_many_services_start(crawler: str) -> None:
    for _ in range(2):
        jobs.forget()
        assert rows("crawl_jobs") == rows("scheduled_jobs") == []


# --- the four troubles ------------------------------------------------------------------------------------------------


@pytest.mark.contract("QUE-22")
async def test_not_processing(crawler: str, capsys: pytest.CaptureFixture[str]) -> None:
    receipt = await jobs.crawl.aenqueue(added("harbour"))
    told = await explained(str(receipt.id), capsys=capsys, url=crawler)
    assert "no_node_alive" in [finding["code"] for finding in told["findings"]]
    async with a_worker():
        await jobs.app.queues.pause("crawl")
        told = await explained(str(receipt.id), capsys=capsys, url=crawler)
        assert "paused_queue" in [finding["code"] for finding in told["findings"]]
        assert any("oncue queues resume crawl" in (finding["suggestion"] or "") for finding in told["findings"])


@pytest.mark.contract("QUE-22", "QUE-4")
async def test_not_retrying(crawler: str, capsys: pytest.CaptureFixture[str]) -> None:
    async with a_worker() as work:
        waits = await jobs.crawl.aenqueue(added("busy"))
        await work(Failed("the server answered 500"))
        told = await explained(str(waits.id), capsys=capsys, url=crawler)
        assert told["status"] == "retrying"
        assert re.search(r"retry|tried again", json.dumps(told["findings"]))
        over = await jobs.crawl.using(max_retries=0).aenqueue(added("dead"))
        await work(Failed("the server answered 500"))
        told = await explained(str(over.id), capsys=capsys, url=crawler)
        assert told["status"] == "failed"
        assert f"oncue retry {over.id}" in json.dumps(told["findings"])


@pytest.mark.contract("QUE-22")
async def test_a_schedule_that_does_not_run(crawler: str, capsys: pytest.CaptureFixture[str]) -> None:
    await jobs.app.schedules.create("daily", "@daily", jobs.crawl, {"subreddit_id": added("harbour")})
    told = await explained("daily", capsys=capsys, url=crawler)
    assert "no_leader" in [finding["code"] for finding in told["findings"]]
    held = await jobs.crawl.aenqueue(added("harbour"))
    told = await explained("daily", capsys=capsys, url=crawler)
    assert f"Job {held.id} is not finished and has the key of its jobs" in json.dumps(told["findings"])
    await jobs.app.schedules.toggle("daily", False, changed_by="ada")
    told = await explained("daily", capsys=capsys, url=crawler)
    assert "by ada" in json.dumps(told["findings"])
    assert "oncue schedules enable daily" in json.dumps(told["findings"])


@pytest.mark.contract("QUE-22", "QUE-1")
async def test_a_priority_that_does_not_work(crawler: str, capsys: pytest.CaptureFixture[str]) -> None:
    async with a_worker():
        urgent = await jobs.crawl.using(priority=60).aenqueue(added("urgent"))
        await jobs.crawl.using(priority=90).aenqueue(added("more-urgent"))
        told = await explained(str(urgent.id), capsys=capsys, url=crawler)
        (behind, priority) = [finding for finding in told["findings"] if finding["code"] in ("behind", "priority")]
        assert "It is behind 1 other of queue crawl: 1 of a higher priority." in behind["text"]
        assert "Its priority is 60; " in priority["text"]
        assert "gains 10 every 5m" in priority["text"]


@pytest.mark.contract("QUE-19", "QUE-20", "QUE-22")
def test_the_readme_shows_them() -> None:
    guide = Path(ROOT, "examples/crawler/README.md").read_text("utf-8")
    for words in (
        "not processing", "not retrying", "does not run", "priority does not work", "`oncue explain", "oncue alerts",
        "oncue_queue_depth", "oncue_job_wait_seconds", "OncueJobRunsLong", "crawl_jobs", "scheduled_jobs",
    ):  # fmt: skip
        assert words in guide, words
