"""What becomes of crawls, on a clock that the test moves: a real site, real tables, and oncue's test kit."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import timedelta

import pytest
from aiohttp import web
from community_crawler import communities, jobs
from community_crawler.database import reading, writing
from community_crawler.parsing import Page
from community_crawler.politeness import LONGEST_WAIT
from community_crawler.site.graph import FIRST
from community_crawler.site.server import Manners
from community_crawler.tables import communities as table
from sqlalchemy import Connection, select

from oncue import Conflict, InvalidJob, Job
from oncue.cli import run
from oncue.policy.retry import DEFAULT_POLICY
from oncue.settings import load
from oncue.testing import Kit, use
from tests.examples.conftest import NOW
from tests.examples.crawler.conftest import Serve
from tests.examples.crawler.serving import Served

PATIENCE = round(LONGEST_WAIT) + 1
MANNERS = Manners(crawl_delay=0.0, slow=0.0, patience=PATIENCE, failures=2)
STATES = {
    "fine": "succeeded",
    "slow": "succeeded",
    "broken": "succeeded",
    "busy": "succeeded",
    "shaky": "succeeded",
    "shy": "succeeded",
    "moved": "succeeded",
    "gone": "skipped",
    "dead": "failed",
    "huge": "cancelled",
    "private": "skipped",
}
STATUSES = {
    **dict.fromkeys(("fine", "slow", "broken", "busy", "shaky", "shy"), "known"),
    "moved": "moved",
    "gone": "gone",
    "dead": "failing",
    "huge": "refused",
    "private": "forbidden",
}


@pytest.fixture
def here(serve: Serve) -> Served:
    return serve(60, MANNERS)


@pytest.fixture
def kit(sqlite_url: str) -> Iterator[Kit]:
    """The crawler's jobs in the test kit, its communities in a file."""
    jobs.app.configure(load(environment={}, code={"database_url": sqlite_url}))
    jobs.forget()
    with use(jobs.app, now=NOW) as kit:
        yield kit
    jobs.forget()


async def added(here: Served, name: str = FIRST) -> int:
    return communities.add(jobs.engine(), here.origin, name, await jobs.now())


def statuses() -> dict[str, str]:
    with reading(jobs.engine()) as connection:
        return {row.name: row.status for row in connection.execute(select(table))}


@pytest.mark.contract("QUE-3")
async def test_a_page_and_the_jobs_for_what_it_leads_to_are_written_together(crawler_url: str) -> None:
    """On each store, in the crawler's own transaction: both, or neither."""
    jobs.app.configure(load(environment={}, code={"database_url": crawler_url}))
    jobs.forget()
    assert await asyncio.to_thread(run, ["migrate", "--database-url", crawler_url]) == 0
    found = communities.find(jobs.engine(), communities.add(jobs.engine(), "http://site.example", "here", NOW), NOW)
    assert found is not None

    def killed(connection: Connection, new: Sequence[int]) -> None:
        jobs.enqueue_discovered(connection, new)
        raise RuntimeError("killed")

    page = Page("", "", None, ("a", "b"))
    with pytest.raises(RuntimeError, match="killed"):
        communities.keep(jobs.engine(), found, page, None, NOW, killed)
    assert (statuses(), await jobs.app.jobs.list()) == ({"here": "new"}, [])
    assert communities.keep(jobs.engine(), found, page, None, NOW, jobs.enqueue_discovered) == 2
    assert statuses() == {"here": "known", "a": "new", "b": "new"}
    numbers = [communities.id_of(jobs.engine(), found.origin, name) for name in ("a", "b")]
    assert sorted(job.args["subreddit_id"] for job in await jobs.app.jobs.list()) == numbers
    await jobs.app.aclose()
    jobs.forget()


@pytest.mark.contract("QUE-3", "QUE-4", "QUE-8")
async def test_a_whole_site_is_crawled_and_every_page_ends_as_it_should(kit: Kit, here: Served) -> None:
    await jobs.request(await added(here))
    await kit.aelapse("30m")
    site = here.site.communities
    assert statuses() == {name: STATUSES[one.behaviour] for name, one in site.items()}

    numbers = {communities.id_of(jobs.engine(), here.origin, name): name for name in site}
    crawls: dict[str, list[Job]] = defaultdict(list)
    for job in kit.jobs(jobs.crawl):
        crawls[site[numbers[job.args["subreddit_id"]]].behaviour].append(job)
    assert Counter(len(found) for found in crawls.values()) == Counter(
        Counter(one.behaviour for one in site.values()).values()
    ), "one job for each community"
    assert {behaviour: {job.state for job in found} for behaviour, found in crawls.items()} == {
        behaviour: {state} for behaviour, state in STATES.items()
    }
    assert {job.retry_count for job in crawls["dead"]} == {3}
    assert {job.retry_count for job in crawls["shaky"] + crawls["busy"]} == {2}
    assert {job.retry_count for job in crawls["shy"]} == {0}, "patience costs no retry"
    assert {job.reason for job in crawls["private"]} == {"robots.txt asks to leave it alone"}
    assert {job.priority for found in crawls.values() for job in found} == {0, 60}
    told = here.site.watch
    assert (told.forbidden, max(told.served.values())) == (0, 1)


@pytest.mark.contract("QUE-4")
async def test_what_fails_is_tried_again_after_a_minute_give_or_take(kit: Kit, here: Served) -> None:
    """By oncue's own policy; unless the page says when."""
    shaky, busy = [await added(here, here.some(kind).name) for kind in ("shaky", "busy")]
    job = await kit.aperform(jobs.crawl, shaky)
    assert (job.state, job.max_retries) == ("retrying", 3)
    assert 48 <= (job.visible_at - NOW).total_seconds() <= 72
    assert job.error is not None
    assert "the server answered 500" in job.error
    job = await kit.aperform(jobs.crawl, busy)
    assert (job.state, job.visible_at - NOW) == ("retrying", timedelta(seconds=PATIENCE))
    assert jobs.crawl.options(None).retry == DEFAULT_POLICY


@pytest.mark.contract("QUE-9")
async def test_a_crawl_that_takes_a_quarter_of_an_hour_is_cut_off_and_put_back(kit: Kit, here: Served) -> None:
    """RESET_CRAWLING_AFTER_MIN."""

    async def takes_for_ever(request: web.Request) -> web.StreamResponse:
        kit.clock.advance("15m1s")
        return web.Response(text="<title>At last</title>", content_type="text/html")

    here.answer("/r/harbour", takes_for_ever)
    job = await kit.aperform(jobs.crawl, await added(here))
    assert (job.state, job.retry_count, job.max_runtime) == ("retrying", 1, 900)
    assert job.error == "timed out: cut off after 900 s"


async def test_a_site_that_says_too_many_requests_is_left_alone_by_every_crawl(kit: Kit, here: Served) -> None:
    here.site.watch.clock = lambda: kit.clock.now().timestamp()
    shy, fine = await added(here, here.some("shy").name), await added(here)
    job = await kit.aperform(jobs.crawl, shy)
    assert (job.state, job.visible_at) == ("scheduled", NOW + timedelta(seconds=PATIENCE))
    asked = here.site.watch.requests
    other = await kit.aperform(jobs.crawl, fine)
    assert (other.state, other.visible_at) == ("scheduled", NOW + timedelta(seconds=PATIENCE))
    assert here.site.watch.requests == asked
    await kit.aelapse(f"{3 * PATIENCE}s")
    assert {kit.job(one).state for one in (job, other)} == {"succeeded"}
    assert here.site.watch.too_early == 0


async def test_a_page_that_wants_patience_for_ever_is_given_up_in_the_end(kit: Kit, here: Served) -> None:
    here.say("/r/harbour", status=429, headers={"Retry-After": str(PATIENCE)})
    job = await kit.aperform(jobs.crawl, await added(here))
    await kit.aelapse("1h")
    job = kit.job(job)
    assert (job.state, job.attempt, job.retry_count) == ("failed", jobs.MOST_SNOOZES + 4, 3)


@pytest.mark.parametrize(
    ("answer", "state", "status"),
    [
        ({"status": 403}, "skipped", "forbidden"),
        ({"status": 418}, "cancelled", "refused"),
        ({"content_type": "application/pdf"}, "cancelled", "refused"),
        ({"status": 302, "headers": {"Location": "https://elsewhere.example/r/harbour"}}, "skipped", "refused"),
        ({"status": 302, "headers": {"Location": "/r/harbour"}}, "skipped", "refused"),
        ({"status": 503}, "retrying", "failing"),
        ({"status": 429}, "scheduled", "new"),
    ],
)
async def test_what_else_a_server_may_answer(
    answer: dict[str, object], state: str, status: str, kit: Kit, here: Served
) -> None:
    here.say("/r/harbour", **answer)
    job = await kit.aperform(jobs.crawl, await added(here))
    assert (job.state, statuses()[FIRST]) == (state, status)


@pytest.mark.parametrize(
    ("answer", "state", "asked"),
    [
        ({"text": "User-agent: community-crawler\nDisallow: /"}, "skipped", 0),
        ({"status": 404}, "succeeded", 1),
        ({"status": 500}, "retrying", 0),
        ({"status": 301, "headers": {"Location": "/elsewhere"}}, "retrying", 0),
        ({"text": "x" * 600_000}, "cancelled", 0),
    ],
)
async def test_without_leave_of_robots_txt_nothing_is_fetched(
    answer: dict[str, object], state: str, asked: int, kit: Kit, here: Served
) -> None:
    here.say("/robots.txt", **answer)
    job = await kit.aperform(jobs.crawl, await added(here))
    assert (job.state, here.site.watch.requests) == (state, asked)


@pytest.mark.contract("QUE-3", "QUE-21")
async def test_what_a_person_asks_for_goes_first_and_is_not_done_twice(kit: Kit, here: Served) -> None:
    here.say("/r/harbour", '<a href="/r/ferries"> <a href="/r/bridges">')
    assert (await kit.aperform(jobs.crawl, await added(here))).state == "succeeded"
    await jobs.request(await added(here))
    ferries, bridges = [job for job in kit.jobs(jobs.crawl) if job.key in (jobs.key_of(2), jobs.key_of(3))]
    assert (ferries.priority, bridges.priority) == (0, 0)
    receipt = await jobs.request(bridges.args["subreddit_id"])
    assert (receipt.id, receipt.created) == (bridges.id, False)
    assert kit.job(bridges).priority == 60
    await jobs.request(bridges.args["subreddit_id"], 20, "schedule")
    assert kit.job(bridges).priority == 60
    assert await kit.adrain() == {"succeeded": 1, "skipped": 2}
    assert kit.job(bridges).started_at <= kit.job(ferries).started_at  # type: ignore[operator]
    assert (await jobs.request(bridges.args["subreddit_id"])).created


@pytest.mark.contract("QUE-3", "QUE-4", "QUE-16", "QUE-21")
async def test_a_schedule_crawls_at_its_own_priority_what_nobody_crawls_already(kit: Kit, here: Served) -> None:
    harbour, other = await added(here), await added(here, here.some("dead").name)
    for number, name in ((harbour, "daily-harbour"), (other, "daily-other")):
        options = {"subreddit_id": number}
        made = await jobs.app.schedules.create(name, "@daily", jobs.crawl, options, priority=30, max_retries=10)
        assert made.key == jobs.key_of(number)
    waiting = await kit.aperform(jobs.crawl, other)
    assert waiting.state == "retrying"
    kit.clock.advance_to(NOW.replace(hour=0) + timedelta(days=1, seconds=-1))
    await kit.aelapse("1s")
    (asked,) = [job for job in kit.jobs(jobs.crawl) if job.key == jobs.key_of(harbour)]
    assert (asked.priority, asked.max_retries) == (30, 10)
    assert (asked.enqueued_by, asked.state) == ("schedule", "succeeded")
    assert [job.id for job in kit.jobs(jobs.crawl) if job.key == jobs.key_of(other)] == [waiting.id]
    (slot,) = await jobs.app.schedules.latest_slots("daily-other")
    assert (slot.verdict, slot.reason, slot.blocked_by) == ("skipped", "key_held", waiting.id)


@pytest.mark.contract("QUE-3")
async def test_a_community_has_one_unfinished_crawl_by_any_way_in(kit: Kit, here: Served) -> None:
    number = await added(here)
    stands = await jobs.crawl.aenqueue(number)
    with writing(jobs.engine()) as connection:
        jobs.enqueue_discovered(connection, [number])
    assert not (await jobs.request(number)).created
    assert not any(receipt.created for receipt in await jobs.crawl.aenqueue_many([number, number]))
    await jobs.app.schedules.create("now", "@every 1s", jobs.crawl, {"subreddit_id": number})
    with pytest.raises(Conflict, match=f"job {stands.id} is not finished and has the key"):
        await jobs.app.schedules.run_now("now")
    with pytest.raises(InvalidJob, match="key: expected none"):
        jobs.crawl.using(key="another")
    assert [job.id for job in kit.jobs(jobs.crawl)] == [stands.id]


@pytest.mark.contract("QUE-18", "QUE-21")
async def test_what_was_not_refreshed_for_a_month_is_crawled_again(kit: Kit, here: Served) -> None:
    """STALE_DAYS, looked for every six hours; a page that has not changed costs a 304."""
    (schedule,) = await jobs.app.schedules.list()
    assert (schedule.name, schedule.expression) == ("recrawl_stale", "@every 6h")
    for name in ("a", "b"):
        here.say(f"/r/{name}", "a page", headers={"ETag": '"1"'})
        assert (await kit.aperform(jobs.crawl, await added(here, name))).state == "succeeded"
    here.answer("/r/b", _unchanged)
    await kit.aelapse("30d")
    assert len(here.asked) == 2
    await kit.aelapse("6h")
    assert [request.headers.get("If-None-Match") for request in here.asked] == [None, None, '"1"', '"1"']
    again = [job for job in kit.jobs(jobs.crawl) if job.enqueued_by == "recrawl_stale"]
    assert [(job.state, job.priority) for job in again] == [("succeeded", 10)] * 2
    assert statuses() == {"a": "known", "b": "known"}
    await kit.aelapse("1d")
    assert len(here.asked) == 4, "a page that has not changed is fresh again too"


async def _unchanged(request: web.Request) -> web.StreamResponse:
    return web.Response(status=304)
