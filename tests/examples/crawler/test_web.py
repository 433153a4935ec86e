"""crawler-web: the page, and oncue's API in the crawler's words, with oncue's own doorkeeper."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import httpx
import pytest
from community_crawler import communities, jobs, settings
from community_crawler.communities import Target, add, find, keep, keep_failure
from community_crawler.database import writing
from community_crawler.parsing import Page
from community_crawler.tables import communities as table
from community_crawler.tables import links, sites
from community_crawler.web import views
from community_crawler.web.app import create
from community_crawler.web.words import WORDS, outward
from fastapi import FastAPI

from oncue.model import Cancelled, Failed, Skipped, Succeeded
from oncue.policy.lifecycle import Ended, settle
from oncue.settings import load
from tests.examples.conftest import NOW
from tests.store.scene import a_node

ORIGIN = "http://site.example"
LOCAL = "http://127.0.0.1:8000"
DAILY = {
    "name": "daily-askreddit",
    "description": "Daily crawl of AskReddit",
    "subreddit_id": 1,
    "cron_expression": "@daily",
    "enabled": True,
    "priority": 10,
    "max_retries": 5,
}


@pytest.fixture
def _configured(sqlite_url: str) -> Iterator[None]:
    jobs.app.configure(load(environment={}, code={"database_url": sqlite_url}))
    jobs.forget()
    yield
    jobs.forget()


@pytest.fixture(scope="module")
def application() -> FastAPI:
    """Made once: describing the whole API takes longer than most of the tests."""
    return create(on_loopback=True)


@pytest.fixture
def web(_configured: None, application: FastAPI) -> httpx.AsyncClient:
    """The web application as a browser on this machine sees it."""
    return client(application)


def client(application: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url=LOCAL)


def target(name: str) -> Target:
    found = find(jobs.engine(), add(jobs.engine(), ORIGIN, name, NOW), NOW)
    assert found is not None
    return found


def kept(name: str, *names: str, title: str = "") -> Target:
    here = target(name)
    keep(jobs.engine(), here, Page(title or f"About {name}", "", 5, names), None, NOW, lambda connection, new: None)
    return here


def graph_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="graph-data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    document: dict[str, Any] = json.loads(found[1])
    return document


async def test_an_empty_page_says_how_to_begin(web: httpx.AsyncClient) -> None:
    answer = await web.get("/")
    assert answer.status_code == 200
    assert "Nothing yet" in answer.text
    assert graph_of(answer.text) == {"nodes": [], "links": []}
    assert (await web.get("/static/crawler.js")).status_code == 200


async def test_the_page_shows_the_graph_a_table_and_what_went_wrong(web: httpx.AsyncClient) -> None:
    kept("a", "b", "c")
    kept("b", "c", title="</script><script>alert(1)</script>")
    keep_failure(jobs.engine(), target("d"), 500, "the server answered <500>", NOW)
    page = (await web.get("/")).text
    graph = graph_of(page)
    assert {node["name"]: node["links"] for node in graph["nodes"]} == {"b": 1, "c": 2}
    assert len(graph["links"]) == 1
    assert page.index(">c</a>") < page.index(">b</a>") < page.index(">a</a>")
    assert "the server answered &lt;500&gt;" in page
    assert "<script>alert" not in page
    progress = (await web.get("/progress")).json()
    assert progress == {**dict.fromkeys(communities.STATUSES, 0), "new": 1, "known": 2, "failing": 1, "links": 3}
    assert (await web.get("/graph")).json() == graph
    found = (await web.get("/", params={"search": "ABOUT a"})).text
    assert (">a</a>" in found, ">c</a>" in found) == (True, False)
    assert "no community with “%”" in (await web.get("/", params={"search": "%"})).text


async def test_ten_thousand_communities_are_shown_page_by_page(web: httpx.AsyncClient) -> None:
    size = 10_000
    add(jobs.engine(), ORIGIN, "n1", NOW)
    with writing(jobs.engine()) as connection:
        site = connection.scalar(sites.select())
        row = {"site_id": site, "status": "known", "title": "", "description": "", "discovered_at": NOW}
        connection.execute(table.insert(), [{**row, "id": n, "name": f"n{n}"} for n in range(2, size + 1)])
        edges = [{"source_id": n, "target_id": n // 10 + 1} for n in range(1, size + 1)]
        connection.execute(links.insert(), edges)
    page = (await web.get("/")).text
    assert page.count("<tr>") == 1 + views.ROWS
    assert len(graph_of(page)["nodes"]) == views.BIGGEST
    assert ">9,999</dd>" in page
    last = (await web.get("/", params={"page": size // views.ROWS})).text
    assert (f">n{size}</a>" in last, ">more</a>" in last, ">earlier</a>" in last) == (True, False, True)
    assert (await web.get("/", params={"page": 0})).status_code == 422


@pytest.mark.contract("QUE-16")
async def test_schedules_are_made_and_changed_by_subreddit_id(web: httpx.AsyncClient) -> None:
    kept("askreddit", "other")
    made = await web.post("/api/admin/scheduled-jobs", json=DAILY)
    assert made.status_code == 201, made.text
    record = made.json()
    assert {name: record[name] for name in DAILY} == DAILY
    assert (record["task"], record["args"]) == ("crawl", {"subreddit_id": 1})
    path = f"/api/admin/scheduled-jobs/{record['id']}"
    changed = (await web.put(path, json={"cron_expression": "@hourly", "priority": 20})).json()
    assert (changed["subreddit_id"], changed["cron_expression"], changed["priority"]) == (1, "@hourly", 20)
    assert (await web.put(path, json={"subreddit_id": 2})).json()["subreddit_id"] == 2
    assert [one["subreddit_id"] for one in (await web.get("/api/admin/scheduled-jobs")).json()["scheduled_jobs"]] == [2]
    generic = {"name": "stale", "cron_expression": "@daily", "task": "recrawl_stale"}
    assert (await web.post("/api/admin/scheduled-jobs", json=generic)).json()["subreddit_id"] is None


@pytest.mark.contract("QUE-16")
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({**DAILY, "subreddit_id": 9}, "subreddit_id"),
        ({**DAILY, "subreddit_id": "1"}, "subreddit_id"),
        ({**DAILY, "subreddit_id": True}, "subreddit_id"),
        ({**DAILY, "subreddit_id": 2**63}, "subreddit_id"),
        ({**DAILY, "subreddit_id": None}, "subreddit_id"),
        ({**DAILY, "task": "crawl"}, "subreddit_id"),
        ({"name": "daily", "cron_expression": "@daily"}, "subreddit_id"),
        ({**DAILY, "cron_expression": "@never"}, "cron_expression"),
        ({**DAILY, "priority": 101}, "priority"),
    ],
)
async def test_a_schedule_that_makes_no_sense_is_refused_by_its_field(
    body: dict[str, object], field: str, web: httpx.AsyncClient
) -> None:
    kept("askreddit")
    answer = await web.post("/api/admin/scheduled-jobs", json=body)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert (answer.json()["errors"][0]["field"], answer.json()["instance"]) == (field, "/api/admin/scheduled-jobs")
    assert (await web.get("/api/admin/scheduled-jobs")).json()["scheduled_jobs"] == []


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"null", b"[" * 100_000, b'"' + b"x" * 2_000_000 + b'"'])
async def test_what_is_no_document_is_left_for_oncue_to_refuse(body: bytes, web: httpx.AsyncClient) -> None:
    for path in ("/api/admin/scheduled-jobs", "/api/crawl"):
        answer = await web.post(path, content=body)
        assert answer.status_code in (400, 413, 422), answer.text
        assert answer.json()["detail"]
        assert answer.json()["instance"] == path


@pytest.mark.contract("QUE-1", "QUE-3", "QUE-17")
async def test_a_person_asks_for_a_crawl_by_name_or_number(web: httpx.AsyncClient) -> None:
    kept("askreddit")
    for body, options in (({"subreddit_id": 1}, {}), ({"name": "not-known-yet"}, {"priority": 60, "max_retries": 10})):
        asked = await web.post("/api/crawl", json={**body, **options})
        assert (asked.status_code, asked.json()["created"]) == (201, True)
        number = asked.json()["subreddit_id"]
        job = (await web.get(asked.headers["location"])).json()
        assert (job["task"], job["args"], job["subreddit_id"]) == ("crawl", {"subreddit_id": number}, number)
        assert (job["priority"], job["max_retries"]) == (options.get("priority", 0), options.get("max_retries", 3))
        assert (job["queue"], job["enqueued_by"], job["status"]) == ("crawl", "local", "queued")
    assert (await web.get("/progress")).json()["new"] == 1
    for body, field in (
        ({}, "subreddit_id"),
        ({"subreddit_id": 7}, "subreddit_id"),
        ({"subreddit_id": 1, "name": "askreddit"}, "subreddit_id"),
        ({"name": "../etc"}, "name"),
        ({"subreddit_id": 1, "priority": 101}, "priority"),
        ({"subreddit_id": 1, "max_retries": -1}, "max_retries"),
        ({"subreddit_id": 1, "key": "mine"}, "key"),
    ):
        refused = await web.post("/api/crawl", json=body)
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, field)
        assert refused.json()["instance"] == "/api/crawl"


@pytest.mark.contract("QUE-3", "QUE-17")
async def test_a_duplicate_is_told_which_crawl_stands_and_makes_it_as_urgent(web: httpx.AsyncClient) -> None:
    number = kept("askreddit").id
    first = (await web.post("/api/crawl", json={"subreddit_id": number})).json()
    again = await web.post("/api/crawl", json={"subreddit_id": number, "priority": 60})
    assert (again.status_code, again.json()) == (200, {**first, "created": False})
    path = again.headers["location"]
    assert (await web.get(path)).json()["priority"] == 60
    await web.post("/api/crawl", json={"subreddit_id": number, "priority": 20})
    assert (await web.get(path)).json()["priority"] == 60
    plain = {"task": "crawl", "args": {"subreddit_id": number}}
    assert (await web.post("/api/admin/jobs", json=plain)).json()["id"] == first["id"]
    made = await web.post("/api/admin/scheduled-jobs", json={**DAILY, "subreddit_id": number})
    held = await web.post(f"/api/admin/scheduled-jobs/{made.json()['id']}/trigger", json={})
    assert (held.status_code, held.json()["job_id"]) == (409, first["id"])


async def in_every_state() -> dict[str, int]:
    """Crawls in every state that there is; the id of the one in each."""
    found: dict[str, int] = {}
    connected = await jobs.app.internals.connected()
    now = connected.now()
    node = replace(a_node(), started_at=now, beat_at=now, expires_at=now + timedelta(hours=1))
    await connected.store.nodes.register(node)
    outcomes = {"succeeded": Succeeded(), "failed": Failed("x", final=True), "retrying": Failed("x"),
                "cancelled": Cancelled(), "skipped": Skipped("gone"), "running": None}  # fmt: skip
    for state, outcome in outcomes.items():
        receipt = await jobs.crawl.aenqueue(kept(state).id)
        (claim,) = await connected.store.jobs.claim(node.id, ["crawl"], ["crawl"], 1, connected.now())
        if outcome is not None:
            change = settle(Ended(claim, outcome, claim.claimed_at, connected.now()), Random(1))
            assert await connected.store.jobs.apply([change], connected.now()) == [True]
        found[state] = receipt.id
    found["scheduled"] = (await jobs.crawl.using(delay="1h").aenqueue(kept("scheduled").id)).id
    found["queued"] = (await jobs.crawl.aenqueue(kept("queued").id)).id
    await connected.store.counters.fold(1000)
    return found


@pytest.mark.contract("QUE-10", "QUE-11", "QUE-17")
async def test_the_crawler_answers_in_its_own_words(web: httpx.AsyncClient) -> None:
    ids = await in_every_state()
    await jobs.recrawl_stale.using(delay="1h").aenqueue(NOW)
    words = {**{state: state for state in ids}, **WORDS}
    for state, job_id in ids.items():
        shown = (await web.get(f"/api/admin/jobs/{job_id}")).json()
        assert (shown["status"], shown["explanation"]["status"]) == (words[state], words[state])
        assert "succeeded" not in [attempt["outcome"] for attempt in shown["attempt_list"]]
    stats = (await web.get("/api/admin/jobs/stats")).json()
    counted = {"queued": 3, "running": 1, "crawling": 1, "failed": 1, "completed": 1, "success": 1, "cancelled": 1,
               "skipped": 1}  # fmt: skip
    assert {name: stats[name] for name in counted} == counted, "the helper that looks for what is stale is no crawl"
    for status in ("queued", "crawling", "success", "failed", "cancelled", "skipped"):
        listed = (await web.get("/api/admin/jobs", params={"status": status})).json()["jobs"]
        assert ([job["status"] for job in listed], len(listed)) == ([status] * len(listed), stats[status])
    assert len((await web.get("/api/admin/jobs")).json()["jobs"]) == len(ids)
    assert len((await web.get("/api/admin/jobs?task=recrawl_stale")).json()["jobs"]) == 1


@pytest.mark.contract("QUE-12", "QUE-17")
async def test_errors_are_in_the_crawlers_words_too(web: httpx.AsyncClient) -> None:
    assert (await web.get("/api/admin/jobs/stats")).json()["queued"] == 0, "before the first crawl"
    ids = await in_every_state()
    expected = "expected one of queued, crawling, success, failed, cancelled, skipped, not 'lost'"
    for refused in (
        await web.get("/api/admin/jobs?status=lost"),
        await web.put(f"/api/admin/jobs/{ids['queued']}/status", json={"status": "lost"}),
        await web.put("/api/admin/jobs/bulk/status", json={"job_ids": [ids["queued"]], "status": "lost"}),
    ):
        assert (refused.status_code, refused.json()["errors"][0]) == (422, {"field": "status", "message": expected})
    for state in ("queued", "running", "succeeded"):
        refused = await web.put(f"/api/admin/jobs/{ids[state]}/status", json={"status": "crawling"})
        assert refused.status_code == 409
        assert not re.search(r"\b(running|succeeded|scheduled|retrying)\b", refused.json()["detail"])
    told = await web.put("/api/admin/jobs/bulk/status", json={"job_ids": [ids["succeeded"]], "status": "crawling"})
    (result,) = told.json()["results"]
    assert (result["outcome"], result["status"]) == ("conflict", "success")
    assert not re.search(r"\b(running|succeeded)\b", result["message"])


async def test_whoever_comes_in_is_up_to_oncue(web: httpx.AsyncClient) -> None:
    """Open to this machine until there is a token, but not to web pages of others; elsewhere a token is needed."""
    kept("askreddit")
    elsewhere = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    assert (await web.post("/api/crawl", json={"name": "a"}, headers=elsewhere)).status_code == 403
    world = client(create(on_loopback=False))
    assert (await world.post("/api/crawl", json={"name": "a"})).status_code == 401
    assert (await world.get("/health")).status_code == 200

    _, secret = await jobs.app.tokens.create("reader", ["read"])
    _, other = await jobs.app.tokens.create("asker", ["enqueue"])
    again = client(create(on_loopback=True))
    for token, asking, listing in ((None, 401, 401), (secret, 403, 200), (other, 201, 403), (other + "x", 401, 401)):
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        for door in (again, world):
            asked = await door.post("/api/crawl", json={"name": "a"}, headers=headers)
            assert asked.status_code in ((200, 201) if asking == 201 else (asking,))
            if asking != 201:
                refused = await door.post("/api/crawl", json={"name": "never-added"}, headers=headers)
                assert refused.status_code == asking
            assert (await door.get("/api/admin/jobs", headers=headers)).status_code == listing
            assert (await door.post("/api/admin/scheduled-jobs", json=DAILY, headers=headers)).status_code in (
                401,
                403,
            )
    (written,) = await jobs.app.jobs.list()
    assert written.enqueued_by.startswith("token:asker")
    assert communities.id_of(jobs.engine(), settings.load().site, "never-added") is None
    assert (await world.get("/")).status_code == 200


def test_records_of_every_shape_have_their_subreddit_id() -> None:
    record = {"id": 1, "args": {"subreddit_id": 7}}
    assert outward(record)["subreddit_id"] == 7
    assert outward({"jobs": [record, {"args": {}}], "next": None})["jobs"][0]["subreddit_id"] == 7
    assert outward({"jobs": [{"args": {}}]}) == {"jobs": [{"args": {}, "subreddit_id": None}]}
    assert outward({"queued": 1}) == {"queued": 1}
