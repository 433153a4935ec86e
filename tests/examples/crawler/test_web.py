"""crawler-web: the page, and oncue's API in the crawler's words, with oncue's own doorkeeper."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from community_crawler import communities, jobs
from community_crawler.communities import Target, add, find, keep, keep_failure
from community_crawler.database import writing
from community_crawler.parsing import Page
from community_crawler.tables import communities as table
from community_crawler.tables import links, sites
from community_crawler.web import views
from community_crawler.web.app import create
from community_crawler.web.translation import outward
from fastapi import FastAPI

from oncue.settings import load
from tests.examples.conftest import NOW

ORIGIN = "http://site.example"
LOCAL = "http://127.0.0.1:8000"
DAILY = {
    "name": "daily-askreddit",
    "description": "Daily crawl of AskReddit",
    "subreddit_id": 1,
    "cron_expression": "@daily",
    "enabled": True,
    "priority": 10,
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
    assert (record["task"], record["args"]) == ("request_crawl", {"subreddit_id": 1})
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


async def test_a_person_asks_for_a_crawl_by_name_or_number(web: httpx.AsyncClient) -> None:
    kept("askreddit")
    for body in ({"subreddit_id": 1}, {"name": "not-known-yet"}):
        asked = await web.post("/api/crawl", json=body)
        assert (asked.status_code, asked.json()["created"]) == (201, True)
        job = (await web.get(asked.headers["location"])).json()
        assert (job["task"], job["args"], job["priority"]) == ("request_crawl", body, 60)
        assert (job["queue"], job["enqueued_by"], job["subreddit_id"]) == ("crawl", "local", body.get("subreddit_id"))
    for body, field in (
        ({}, "subreddit_id"),
        ({"subreddit_id": 7}, "subreddit_id"),
        ({"subreddit_id": 1, "name": "askreddit"}, "subreddit_id"),
        ({"name": "../etc"}, "name"),
        ({"name": "a", "priority": 100}, "priority"),
    ):
        refused = await web.post("/api/crawl", json=body)
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, field)
        assert refused.json()["instance"] == "/api/crawl"


async def test_whoever_comes_in_is_up_to_oncue(web: httpx.AsyncClient) -> None:
    """Open to this machine until there is a token, but not to web pages of others; elsewhere a token is needed."""
    kept("askreddit")
    elsewhere = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    assert (await web.post("/api/crawl", json={"name": "a"}, headers=elsewhere)).status_code == 403
    world = client(create(on_loopback=False))
    assert (await world.post("/api/crawl", json={"name": "a"})).status_code == 401
    assert (await world.get("/health")).status_code == 200

    _, secret = await jobs.app.create_token("reader", ["read"])
    _, other = await jobs.app.create_token("asker", ["enqueue"])
    again = client(create(on_loopback=True))
    for token, asking, listing in ((None, 401, 401), (secret, 403, 200), (other, 201, 403), (other + "x", 401, 401)):
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        for door in (again, world):
            assert (await door.post("/api/crawl", json={"name": "a"}, headers=headers)).status_code == asking
            assert (await door.get("/api/admin/jobs", headers=headers)).status_code == listing
            assert (await door.post("/api/admin/scheduled-jobs", json=DAILY, headers=headers)).status_code in (
                401,
                403,
            )
    written = await jobs.app.jobs()
    assert [job.enqueued_by.startswith("token:asker") for job in written] == [True, True]
    assert (await world.get("/")).status_code == 200


def test_records_of_every_shape_have_their_subreddit_id() -> None:
    record = {"id": 1, "args": {"subreddit_id": 7}}
    assert outward(record)["subreddit_id"] == 7
    assert outward({"jobs": [record, {"args": {}}], "next": None})["jobs"][0]["subreddit_id"] == 7
    assert outward({"jobs": [{"args": {}}]}) == {"jobs": [{"args": {}, "subreddit_id": None}]}
    assert outward({"queued": 1}) == {"queued": 1}
