"""Jobs over HTTP: stats, listings, one in full, and changing their fate."""

from __future__ import annotations

import dataclasses
import json
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from oncue import Oncue
from oncue.application.worker import new_node
from oncue.model import Progress, ToldDetails
from oncue.policy import lifecycle
from oncue.server.api.pages import LARGEST_PAGE
from tests.app.watching import Watcher
from tests.server.conftest import Api
from tests.store.scene import a_batch
from tests.turns import measured_turns

JOBS = "/api/admin/jobs"


async def enqueued(app: Oncue, *numbers: int, **options: Any) -> list[int]:
    return [receipt.id for receipt in await app.find("add").using(**options).aenqueue_many(numbers)]


async def claimed(app: Oncue) -> int:
    """A job in the middle of its attempt, on a node of its own."""
    connected = await app.internals.connected()
    node = dataclasses.replace(
        new_node(app.internals, connected.now(), None), expires_at=connected.now() + timedelta(hours=1)
    )
    await connected.store.nodes.register(node)
    claims = await connected.store.jobs.claim(node.id, ["default"], ["add"], 1, connected.now())
    return claims[0].id


@pytest.mark.contract("QUE-10")
async def test_stats(api: Api) -> None:
    empty = await api.get(f"{JOBS}/stats")
    assert {empty[name] for name in ("queued", "running", "failed", "completed")} == {0}
    await enqueued(api.app, 1, 2, 3)
    await enqueued(api.app, 4, delay="1h")
    await claimed(api.app)
    await api.app.jobs.set_status((await enqueued(api.app, 5))[0], "failed")
    for _ in range(2):
        await api.app.jobs.set_status((await enqueued(api.app, 6))[0], "success")
    stats = await api.get(f"{JOBS}/stats")
    assert [stats[name] for name in ("queued", "running", "failed", "completed")] == [3, 1, 1, 2]


@pytest.mark.contract("QUE-11", "QUE-17", "QUE-23")
async def test_listing(api: Api) -> None:
    first = await enqueued(api.app, *range(5), priority=7)
    later = await enqueued(api.app, 9, delay="1h", key="nine", queue="mail")
    await api.app.jobs.set_status(first[0], "success")
    running = await claimed(api.app)
    page = await api.get(JOBS)
    assert [job["id"] for job in page["jobs"]] == sorted([*first, *later], reverse=True)
    assert page["next"] is None
    shown = page["jobs"][-2]
    wanted = {
        "id", "target", "status", "priority", "last_attempt", "duration_ms", "enqueued_by", "created_at", "updated_at",
        "visible_at", "retry_count", "max_retries", "next_retry_at",
    }  # fmt: skip
    assert wanted <= set(shown)
    assert (shown["target"], shown["priority"], shown["enqueued_by"]) == ("add", 7, "system")

    async def ids(query: str) -> list[int]:
        return [job["id"] for job in (await api.get(f"{JOBS}?{query}"))["jobs"]]

    assert await ids("status=success") == await ids("status=succeeded") == [first[0]]
    assert await ids("status=crawling") == await ids("status=RUNNING") == [running]
    assert set(later) < set(await ids("status=queued")), "as the stats count"
    assert await ids("status=scheduled") == await ids("queue=mail") == await ids("key=nine") == later
    assert sorted(await ids("status=success,crawling&status=scheduled")) == sorted([first[0], running, *later])
    assert await ids("status=queued&limit=2") == await ids("status=queued&limit=2&offset=0")
    assert await ids("task=add&queue=default&limit=2&offset=1") == sorted(first, reverse=True)[1:3]
    assert await ids("task=boom") == await ids("group=seven") == []
    of_seven = await enqueued(api.app, 10, group="seven")
    assert await ids("group=seven") == await ids("group=seven&status=queued&queue=default&task=add") == of_seven
    assert await ids("group=seven&status=failed") == await ids("group=seven&key=nine") == []
    assert await ids("status=&limit=100&offset=0") == await ids("limit=100&offset=0"), "the contract's own words"
    for wrong in ("lost", "queued,", " "):
        reply = await api("GET", f"{JOBS}?status={wrong}")
        assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, "status"), wrong
        assert "crawling" in reply.json()["detail"]


async def test_page_by_page(api: Api) -> None:
    made = await enqueued(api.app, *range(7))
    where, seen = f"{JOBS}?status=queued&limit=3&offset=0", []
    while where is not None:
        reply = await api("GET", where)
        body = reply.json()
        seen += [job["id"] for job in body["jobs"]]
        where = body["next"]
        assert reply.headers.get("link") == (None if where is None else f'<{where}>; rel="next"')
        made += await enqueued(api.app, 99)  # whoever comes meanwhile is newer, and does not move the pages
    assert seen == sorted(made[:7], reverse=True)
    for query in ("limit=0", "limit=1001", "limit=x", "limit=9e99", "offset=-1", "offset=100001", "before=0", "limit="):
        reply = await api("GET", f"{JOBS}?{query}")
        assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, query.partition("=")[0]), query
    assert (await api.get(f"{JOBS}?before={2**63 - 1}&limit=1"))["jobs"][0]["id"] == made[-1]


@pytest.mark.contract("HOOK-22", "QUE-23", "QUE-22")
async def test_one_job_in_full(api: Api) -> None:
    (failed,) = [receipt.id for receipt in await api.app.find("boom").aenqueue_many([("ouch",)])]
    async with api.app.worker():  # serves `default` only
        waiting = await api.get(f"{JOBS}/{failed}")
        assert waiting["explanation"]["findings"][0]["code"]
        assert (waiting["status"], waiting["attempt_list"]) == ("queued", [])
    api.app.configure(api.app.settings.overridden({"queues": "mail"}))
    watcher = Watcher(api.app)
    async with api.app.worker() as node:
        await watcher.ended([failed])
    job = await api.get(f"{JOBS}/{failed}")
    assert (job["status"], job["attempts"], job["args"]) == ("failed", 1, {"text": "ouch"})
    (attempt,) = job["attempt_list"]
    assert (attempt["outcome"], "ValueError: ouch" in attempt["error"]) == ("failed", True)
    assert attempt["worker"] == job["worker"] == node.node.name
    assert job["explanation"]["status"] == "failed"
    assert (await api.get(f"{JOBS}/{job['uid']}"))["id"] == failed


async def test_progress_is_seen_while_it_runs(api: Api) -> None:
    await enqueued(api.app, 1)
    job_id, connected = await claimed(api.app), await api.app.internals.connected()
    assert (await api.get(f"{JOBS}/{job_id}"))["progress"] is None
    claim_no = (await api.app.jobs.get(job_id)).claim_no
    await connected.store.jobs.report_progress([Progress(job_id, claim_no, 0.4, "page 4 of 10", connected.now())])
    job = await api.get(f"{JOBS}/{job_id}")
    assert (job["progress"], job["progress_note"]) == (0.4, "page 4 of 10")


async def test_details_are_seen_while_it_runs_and_with_its_attempts(api: Api) -> None:
    await enqueued(api.app, 1)
    job_id, connected = await claimed(api.app), await api.app.internals.connected()
    assert (await api.get(f"{JOBS}/{job_id}"))["details"] is None
    claim_no = (await api.app.jobs.get(job_id)).claim_no
    await connected.store.jobs.report_details([ToldDetails(job_id, claim_no, '{"status":200}')])
    assert (await api.get(f"{JOBS}/{job_id}"))["details"] == {"status": 200}
    (claim,) = await connected.store.jobs.running([job_id])
    now = connected.now()
    failed = lifecycle.Ended(claim, lifecycle.Failed("no"), now, now, None, '{"status":500}')
    await connected.store.jobs.apply([lifecycle.settle(failed, Random(1))], now)
    job = await api.get(f"{JOBS}/{job_id}")
    assert (job["details"], job["attempt_list"][0]["details"]) == ({"status": 500}, {"status": 500})


NOBODY = ["0", "99", "-1", "9" * 30, "1e3", "x", "01a1e082-5345-8112-8000-000000000001", "١", "%00", "%ff", "bulk"]


async def test_a_job_that_is_not_there(api: Api) -> None:
    await enqueued(api.app, 1)  # its uid is another one
    calls = [
        ("GET", "", None), ("PUT", "/status", {"status": "failed"}), ("PUT", "/priority", {"priority": 1}),
        ("POST", "/boost", {"boost": 1}), ("POST", "/retry", None), ("POST", "/cancel", None),
    ]  # fmt: skip
    for method, verb, body in calls:
        for ref in NOBODY if verb not in ("/status", "/retry") else NOBODY[:-1]:
            assert (await api(method, f"{JOBS}/{ref}{verb}", body)).status_code == 404, (method, ref, verb)


@pytest.mark.contract("QUE-12", "QUE-17")
async def test_status_by_hand(api: Api) -> None:
    (job,) = await enqueued(api.app, 1)

    async def put(status: Any) -> tuple[int, Any]:
        reply = await api("PUT", f"{JOBS}/{job}/status", {"status": status})
        return reply.status_code, reply.json()

    code, body = await put("lost")
    assert (code, body["errors"][0]["field"]) == (422, "status")
    for word in ("queued", "running", "succeeded", "failed", "crawling", "success"):
        assert word in body["errors"][0]["message"]
    assert (await put("crawling"))[0] == 409
    code, body = await put("success")
    assert (code, body["status"], body["reason"]) == (200, "succeeded", "by_hand")
    code, body = await put("failed")
    assert (code, body["type"], body["job_id"]) == (409, "/problems/conflict", job)
    assert (await put("queued"))[1]["status"] == "queued"
    assert await claimed(api.app) == job
    assert (await put("failed"))[1]["status"] == "failed"
    for wrong in (None, 7, True, ["failed"], {}, ""):
        assert (await put(wrong))[0] == 422, wrong
    entries = (await api.get(f"/api/admin/audit-log?subject=job:{job}"))["entries"]
    steps = [(entry["before"]["status"], entry["after"]["status"]) for entry in reversed(entries)]
    assert steps == [("queued", "succeeded"), ("succeeded", "queued"), ("running", "failed")]
    assert {entry["actor"] for entry in entries} == {"local"}


@pytest.mark.contract("QUE-13")
async def test_priority_and_boost(api: Api) -> None:
    (job,) = await enqueued(api.app, 1, priority=40)
    assert (await api("PUT", f"{JOBS}/{job}/priority", {"priority": 30})).json()["priority"] == 30
    assert (await api("POST", f"{JOBS}/{job}/boost", {"boost": 50})).json()["priority"] == 80
    assert (await api("POST", f"{JOBS}/{job}/boost", {"boost": 50})).json()["priority"] == 100
    assert (await api("POST", f"{JOBS}/{job}/boost", {"boost": -100})).json()["priority"] == 0
    assert (await api("POST", f"{JOBS}/{job}/boost")).json()["priority"] == 10
    assert (await api("PUT", f"{JOBS}/{job}/priority", {"priority": 12.0})).json()["priority"] == 12
    for wrong in (101, -1, 1.5, "9", None, True, 10**400):
        reply = await api("PUT", f"{JOBS}/{job}/priority", {"priority": wrong})
        assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, "priority"), wrong
    await api.app.jobs.set_status(job, "failed")
    reply = await api("PUT", f"{JOBS}/{job}/priority", {"priority": 1})
    assert (reply.status_code, reply.json()["job_id"]) == (409, job)


@pytest.mark.contract("QUE-14")
async def test_retry_and_cancel(api: Api) -> None:
    (job,) = await enqueued(api.app, 1, key="one")
    assert (await api("POST", f"{JOBS}/{job}/retry")).status_code == 409
    await api.app.jobs.set_status(job, "failed")
    again = (await api("POST", f"{JOBS}/{job}/retry", {})).json()
    assert (again["id"], again["status"], again["retry_count"]) == (job, "queued", 0)
    assert (await api("POST", f"{JOBS}/{job}/cancel")).json()["status"] == "cancelled"
    assert (await api("POST", f"{JOBS}/{job}/cancel")).status_code == 409
    (holder,) = await enqueued(api.app, 2, key="one")
    refused = await api("POST", f"{JOBS}/{job}/retry")
    assert (refused.status_code, refused.json()["job_id"]) == (409, holder)
    running = await claimed(api.app)
    asked = (await api("POST", f"{JOBS}/{running}/cancel")).json()
    assert (asked["status"], asked["cancel_requested_at"] is not None) == ("running", True)
    reply = await api("POST", f"{JOBS}/{job}/retry", {"force": True})
    assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, "body")


@pytest.mark.contract("QUE-15", "QUE-17")
async def test_many_at_once(api: Api) -> None:
    first, second, third = await enqueued(api.app, 1, 2, 3)
    uid = str((await api.app.jobs.get(second)).uid)
    await api.app.jobs.cancel(third)
    body = (await api("PUT", f"{JOBS}/bulk/status", {"job_ids": [first, uid, third, 99], "status": "success"})).json()
    told = [(result["id"], result["outcome"], result["status"]) for result in body["results"]]
    assert told == [
        (first, "changed", "succeeded"), (uid, "changed", "succeeded"), (third, "conflict", "cancelled"),
        (99, "not_found", None),
    ]  # fmt: skip
    assert body["changed"] == 2
    body = (await api("POST", f"{JOBS}/bulk/retry", {"job_ids": [third, first, third, 99]})).json()
    assert [(r["id"], r["outcome"]) for r in body["results"]] == [
        (third, "changed"),
        (first, "changed"),
        (99, "not_found"),
    ]
    for wrong in ([], [0], ["x"], [True], [1.5], None, "1", list(range(1, 1002)), [2**63]):
        for method, verb in (("PUT", "status"), ("POST", "retry")):
            sent = {"job_ids": wrong, **({"status": "failed"} if verb == "status" else {})}
            reply = await api(method, f"{JOBS}/bulk/{verb}", sent)
            assert reply.status_code == 422, (wrong, verb)
            assert reply.json()["errors"][0]["field"].startswith("job_ids"), reply.json()
    assert (await api("PUT", f"{JOBS}/bulk/status", {"job_ids": [first], "status": "x"})).status_code == 422


# --- size -----------------------------------------------------------------------------------------------------------

LARGE = "x" * 250_000


async def put_large(api: Api, count: int) -> list[int]:
    """Jobs with arguments of 250 KB, in one write."""
    connection = await api.app.internals.connected()
    ids = await connection.ids(count)
    batch = a_batch(count, task="boom", queue="mail", created_at=connection.now())
    args = [json.dumps({"text": LARGE})] * count
    await connection.store.jobs.enqueue([batch._replace(ids=ids, args=args)])
    return ids


async def test_a_listing_leaves_large_arguments_out_unless_it_is_asked_for_them(api: Api) -> None:
    (large,) = await put_large(api, 1)
    await enqueued(api.app, 1)
    small, short = (await api.get("/api/admin/jobs"))["jobs"]
    assert (small["args"], small["shortened"]) == ({"a": 1}, {})
    assert (short["args"], short["shortened"]) == ({}, {"args": len(json.dumps({"text": LARGE}))})
    whole = (await api.get("/api/admin/jobs", params={"whole": "true"}))["jobs"][1]
    assert (whole["args"], whole["shortened"]) == ({"text": LARGE}, {})
    refused = await api("GET", "/api/admin/jobs?whole=maybe")
    assert refused.json()["detail"] == "whole: expected true or false, not 'maybe'"
    assert (await api.get(f"/api/admin/jobs/{large}"))["args"] == {"text": LARGE}


async def test_a_page_of_large_jobs_ends_early_and_the_next_goes_on_from_there(api: Api) -> None:
    ids = await put_large(api, 40)
    path, seen, pages = "/api/admin/jobs?whole=true&limit=1000&status=queued", [], 0
    while path:
        reply = await api("GET", path)
        assert len(reply.content) <= LARGEST_PAGE + 1000
        page = reply.json()
        seen += [job["id"] for job in page["jobs"]]
        assert all(job["args"] == {"text": LARGE} for job in page["jobs"])
        path, pages = page["next"], pages + 1
    assert (seen, pages) == (sorted(ids, reverse=True), 2)


async def test_a_thousand_large_jobs_are_a_small_page_and_hold_nobody_up(api: Api) -> None:
    await put_large(api, 200)
    await enqueued(api.app, *range(1000))
    with measured_turns() as turns:
        reply = await api.client.get("/api/admin/jobs", params={"limit": 1000})
        large = await api.client.get("/api/admin/jobs", params={"queue": "mail", "limit": 1000})
    assert len(reply.json()["jobs"]) == 1000
    assert len(large.json()["jobs"]) == 200
    assert len(large.content) < 300_000
    assert turns.longest < 0.1


async def test_jobs_are_listed_by_address_and_by_when_they_were_made(api: Api) -> None:
    (here,), (there,) = await enqueued(api.app, 1), await enqueued(api.app, 1, address="node:beta")

    async def ids(query: str) -> list[int]:
        return [job["id"] for job in (await api.get(f"{JOBS}?{query}"))["jobs"]]

    assert await ids("address=node:beta") == [there]
    assert await ids("since=-1h") == [there, here]
    assert await ids("until=-1h") == []
    refused = await api("GET", f"{JOBS}?since=yesterday")
    assert refused.json()["detail"].startswith("since: expected an instant")
