"""Queues, nodes, the leader, tokens and the audit log over HTTP."""

from __future__ import annotations

import asyncio

from tests.server.conftest import Api, MakeApi, a_token, bearer
from tests.server.test_health import heard

QUEUES, TOKENS = "/api/admin/queues", "/api/admin/tokens"


async def test_queues(api: Api) -> None:
    assert await api.get(QUEUES) == {"queues": []}
    assert (await api("GET", f"{QUEUES}/mail")).status_code == 404
    await api.app.find("boom").aenqueue_many([(), ()])
    await api.app.find("boom").using(delay="1h").aenqueue()
    (queue,) = (await api.get(QUEUES))["queues"]
    assert (queue["name"], queue["queued"], queue["later"], queue["paused_at"]) == ("mail", 2, 1, None)
    paused = (await api("POST", f"{QUEUES}/mail/pause")).json()
    assert paused["paused_at"] is not None
    assert (await api("POST", f"{QUEUES}/mail/resume", {})).json()["paused_at"] is None
    assert (await api("POST", f"{QUEUES}/night/pause")).json()["name"] == "night", "before its first job"

    async def limited(body: object) -> tuple[object, object]:
        shown = (await api("PUT", f"{QUEUES}/mail/limits", body)).json()
        return shown["global_limit"], shown["node_limit"]

    assert await limited({"global": 50}) == (50, None)
    assert await limited({"per_node": 5}) == (50, 5)
    assert await limited({}) == (50, 5)
    assert await limited({"global": None, "per_node": 7}) == (None, 7)
    assert (await api.get(f"{QUEUES}/mail"))["node_limit"] == 7
    for field in ("global", "per_node"):
        for wrong in (0, -1, 1.5, "5", True, 10**9, []):
            reply = await api("PUT", f"{QUEUES}/mail/limits", {field: wrong})
            assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, field), wrong
    assert (await api("PUT", f"{QUEUES}/mail/limits", {"globally": 5})).status_code == 422
    for name in ("a%20b", "a,b", "%00", "x" * 129, "%0a"):
        for method, verb in (("POST", "pause"), ("POST", "resume"), ("PUT", "limits")):
            assert (await api(method, f"{QUEUES}/{name}/{verb}", {})).status_code == 404, (name, verb)
    assert [queue["name"] for queue in (await api.get(QUEUES))["queues"]] == ["mail", "night"]


async def test_groups_of_a_queue(api: Api) -> None:
    groups = f"{QUEUES}/mail/groups"
    assert await api.get(groups) == {"groups": [], "next": None}
    for name in ("a", "a", "tenant:7", "ü/2"):
        assert (await api("POST", "/api/admin/jobs", {"task": "boom", "group": name})).status_code == 201
    assert (await api.get("/api/admin/jobs?limit=1"))["jobs"][0]["group"] == "ü/2"
    limited = await api("PUT", f"{QUEUES}/mail/limits", {"per_group": 4, "rate": "100/s", "rate_per_group": "10/min"})
    record = limited.json()
    assert (record["group_limit"], record["rate"], record["group_rate"]) == (4, "100/s", "10/min")
    alone = await api("PUT", f"{QUEUES}/mail/limits", {"group": "tenant:7", "per_group": 1, "rate_per_group": None})
    assert alone.json()["group_limit"] == 4, "the queue's own are as they were"
    assert (await api("POST", f"{QUEUES}/mail/pause", {"group": "a", "for": "10m"})).json()["paused_at"] is None
    assert (await api("POST", f"{QUEUES}/mail/pause", {"group": "ü/2"})).status_code == 200
    a, seven, other = (await api.get(groups))["groups"]
    assert (a["queue"], a["name"], a["queued"], a["running"], a["limit"], a["rate"]) == (
        "mail", "a", 2, 0, 4, "10/min",
    )  # fmt: skip
    assert a["paused_until"] is not None
    assert (seven["limit"], seven["paused_until"], seven["has_settings"]) == (1, None, True)
    assert other["paused_until"] == "9999-01-01T00:00:00Z"
    until = "2130-01-31T09:00:00Z"
    assert (await api("POST", f"{QUEUES}/mail/pause", {"group": "ü/2", "until": until})).status_code == 200
    where: str | None = f"{groups}?limit=1"
    seen = []
    while where is not None:
        page = await api.get(where)
        seen += page["groups"]
        where = page["next"]
    assert [(group["name"], group["paused_until"] == until) for group in seen] == [
        ("a", False), ("tenant:7", False), ("ü/2", True),
    ]  # fmt: skip
    assert (await api("POST", f"{QUEUES}/mail/resume", {"group": "a"})).status_code == 200
    assert (await api.get(f"{groups}?limit=1"))["groups"][0]["paused_until"] is None
    new = await api("POST", f"{QUEUES}/unknown/pause", {"group": "a"})
    assert (new.status_code, new.json()["name"]) == (200, "unknown"), "before its first job"


async def test_a_job_of_a_group_says_why_it_waits(api: Api) -> None:
    made = (await api("POST", "/api/admin/jobs", {"task": "boom", "queue": "mail", "group": "tenant:7"})).json()
    await api("POST", f"{QUEUES}/mail/pause", {"group": "tenant:7"})
    explanation = (await api.get(f"/api/admin/jobs/{made['id']}"))["explanation"]
    assert explanation["subject"].endswith("queue mail, group tenant:7)")
    (paused,) = [found for found in explanation["findings"] if found["code"] == "paused_group"]
    assert paused["suggestion"] == "resume it with `oncue queues resume mail --group tenant:7`"


async def test_what_cannot_be_set_for_a_group_names_the_field(api: Api) -> None:
    for verb, body, field in (
        ("limits", {"rate": "fast"}, "rate"), ("limits", {"rate_per_group": 5}, "rate_per_group"),
        ("limits", {"per_group": 0}, "per_group"), ("limits", {"group": "a", "global": 5}, "global"),
        ("limits", {"group": "a", "per_node": None}, "per_node"), ("limits", {"group": "a", "rate": "5/s"}, "rate"),
        ("limits", {"group": " a", "per_group": 1}, "group"), ("limits", {"group": "", "per_group": 1}, "group"),
        ("limits", {"group": 7}, "group"), ("pause", {"until": "2130-01-01T00:00:00Z"}, "until"),
        ("pause", {"for": "10m"}, "for"), ("pause", {"group": "a", "for": "x"}, "for"),
        ("pause", {"group": "a", "until": "2000-01-01T00:00:00Z"}, "until"),
        ("pause", {"group": "a", "until": "tomorrow"}, "until"), ("pause", {"group": "x" * 129}, "group"),
        ("pause", {"group": "a", "for": "1m", "until": "2130-01-01T00:00:00Z"}, "until"),
        ("pause", {"for_": "10m"}, "for_"), ("resume", {"group": "\t"}, "group"), ("resume", {"for": "10m"}, "for"),
    ):  # fmt: skip
        reply = await api("PUT" if verb == "limits" else "POST", f"{QUEUES}/mail/{verb}", body)
        assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, field), reply.text
    both = await api("POST", f"{QUEUES}/mail/pause", {"group": "a", "for": "1m", "until": "2130-01-01T00:00:00Z"})
    assert "for_" not in both.text, "requests spell it `for`"
    reply = await api("POST", "/api/admin/jobs", {"task": "boom", "group": "a\n"})
    assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, "group")
    assert (await api("GET", f"{QUEUES}/a,b/groups")).status_code == 404
    assert await api.get(QUEUES) == {"queues": []}
    assert await api.get(f"{QUEUES}/mail/groups") == {"groups": [], "next": None}


async def test_nodes_and_leader(api: Api) -> None:
    assert await api.get("/api/admin/nodes") == {"nodes": []}
    assert (await api.get("/api/admin/leader"))["name"] is None
    elected = heard(api.app, "leader.elected")
    async with api.app.worker() as node:
        await asyncio.wait_for(elected.wait(), 60)
        (shown,) = (await api.get("/api/admin/nodes"))["nodes"]
        assert (shown["id"], shown["alive"], shown["holds"]) == (str(node.node.id), True, ["leader"])
        assert set(shown["tasks"]) == {"add", "boom", "crawl", "report", "oncue.deliver", "oncue.ping"}
        leader = await api.get("/api/admin/leader")
        assert (leader["name"], leader["id"], leader["epoch"]) == (node.node.name, str(node.node.id), 1)
    assert (await api.get("/api/admin/leader"))["none_since"] is not None


async def test_tokens(api: Api) -> None:
    root = bearer(await a_token(api.app, "admin"))
    wanted = {"name": "ci", "scopes": ["enqueue", "read"], "expires": "90d"}
    reply = await api("POST", TOKENS, wanted, headers=root)
    made = reply.json()
    assert (reply.status_code, reply.headers["location"]) == (201, f"{TOKENS}/{made['id']}")
    assert (made["scopes"], made["expires_at"] is not None) == (["read", "enqueue"], True)
    job = {"task": "add", "args": {"a": 1}}
    assert (await api("POST", "/api/admin/jobs", job, headers=bearer(made["token"]))).status_code == 201
    shown = (await api.get(TOKENS, headers=root))["tokens"][-1]
    assert (shown["id"], shown["last_used_at"] is not None) == (made["id"], True)
    assert "token" not in shown
    assert "digest" not in str(shown)
    gone = await api("DELETE", f"{TOKENS}/{made['id']}", headers=root)
    assert (gone.status_code, gone.json()["revoked_at"] is not None) == (200, True)
    assert (await api("POST", "/api/admin/jobs", job, headers=bearer(made["token"]))).status_code == 401
    assert (await api("DELETE", f"{TOKENS}/{made['id']}", headers=root)).status_code == 409
    assert (await api("DELETE", f"{TOKENS}/nobody", headers=root)).status_code == 404
    for terms, field in (
        ({"scopes": []}, "scopes"), ({"scopes": ["root"]}, "scopes.0"), ({"scopes": "admin"}, "scopes"),
        ({"name": ""}, "name"), ({"name": "\t"}, "name"), ({"expires": "0s"}, "expires"), ({"expires": "x"}, "expires"),
        ({"expires": []}, "expires"), ({"digest": "x"}, "digest"),
    ):  # fmt: skip
        reply = await api("POST", TOKENS, {**wanted, **terms}, headers=root)
        assert (reply.status_code, reply.json()["errors"][0]["field"]) == (422, field), reply.text


async def test_the_audit_log(api: Api) -> None:
    operator = bearer(await a_token(api.app, "operate"))
    for name in "abcde":
        await api("POST", f"{QUEUES}/{name}/pause", headers=operator)
    await api("POST", f"{QUEUES}/a/pause", headers=operator)  # changes nothing, and is not in the log
    log = (await api.get("/api/admin/audit-log?limit=1000", headers=operator))["entries"]
    assert [entry["subject"] for entry in log[:5]] == [f"queue:{name}" for name in "edcba"]
    assert (log[0]["before"], log[0]["after"]) == ({"paused": False}, {"paused": True})
    assert log[0]["actor"].startswith("token:operate#")
    assert log[-1]["action"] == "token.create"
    where, seen = "/api/admin/audit-log?limit=2", []
    while where is not None:
        page = await api.get(where, headers=operator)
        seen += page["entries"]
        where = page["next"]
    assert seen == log

    async def subjects(**query: str) -> list[str]:
        page = await api.get("/api/admin/audit-log", params=query, headers=operator)
        return [entry["subject"] for entry in page["entries"]]

    assert await subjects(subject="queue:c") == ["queue:c"]
    assert len(await subjects(actor=log[0]["actor"])) == 5
    assert await subjects(actor="nobody") == []


async def test_a_caller_without_the_tasks_can_still_operate(make_api: MakeApi, sqlite_url: str) -> None:
    """`oncue serve` without an application: there is nothing to enqueue, and everything else works."""
    api = make_api(sqlite_url)
    job_id = (await api.app.find("add").aenqueue(1)).id
    api.app.internals.tasks.clear()
    reply = await api("POST", "/api/admin/jobs", {"task": "add", "args": {"a": 1}})
    assert (reply.status_code, reply.json()["type"]) == (422, "/problems/unknown-task")
    assert (await api("POST", f"/api/admin/jobs/{job_id}/cancel")).status_code == 200
