"""Webhooks, deliveries and executions over HTTP, on each back end. No answer, log line or row of a kept request has a
secret in it."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from oncue import Oncue
from oncue.model import KeptRequest
from oncue.server.mounting import mountable
from oncue.webhooks.transport import NotSent, Request, Response
from tests.app.watching import Watcher
from tests.server.conftest import HERE, Api, MakeApi, a_token, bearer
from tests.store.scene import query
from tests.store.test_views import drop_views

HOOKS, BARE, SENT = "/api/admin/webhooks", "/api/admin/deliveries", "/api/admin/executions"
PLANS, JOBS = "/api/admin/scheduled-jobs", "/api/admin/jobs"
PASSWORD, KEY = "Bearer t0p-s3cret", "whsec_" + "bm90IGZvciB5b3VyIGV5ZXMg" * 2
HIDDEN = ("t0p-s3cret", KEY.removeprefix("whsec_"))
ORDERS = {
    "name": "orders", "url": "https://shop.example/hooks/orders", "headers": {"Authorization": PASSWORD},
    "secrets": [KEY],
}  # fmt: skip


class Scripted:
    """A way out that gives these answers, one after the other; the last one again and again."""

    def __init__(self, answers: Sequence[int | NotSent], echo: str = "") -> None:
        self._answers = list(answers)
        self._echo = echo
        self.sent: list[Request] = []

    async def send(self, request: Request) -> Response:
        self.sent.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, NotSent):
            raise answer
        return Response(answer, {}, f"said {answer}{self._echo}", answer == 200, 0.034, "198.51.100.7", 0)

    async def close(self) -> None: ...


async def delivered(app: Oncue, *ids: int, answers: Sequence[int | NotSent] = (200,), echo: str = "") -> Scripted:
    """Have a worker send these deliveries to their end."""
    transport, watcher = Scripted(answers, echo), Watcher(app)
    app.override({"queues": "default,webhooks"})
    with app.internals.delivering_through(transport):
        async with app.worker():
            await watcher.ended(ids)
    return transport


async def made(api: Api, **fields: Any) -> dict[str, Any]:
    reply = await api("POST", HOOKS, {**ORDERS, **fields})
    assert reply.status_code == 201, reply.text
    found: dict[str, Any] = reply.json()
    return found


async def sent(api: Api, name: str = "orders", **body: Any) -> dict[str, Any]:
    reply = await api("POST", f"{HOOKS}/{quote(name, safe='')}/deliveries", body)
    assert reply.status_code == 201, reply.text
    found: dict[str, Any] = reply.json()
    return found


async def attempts_in_view(app: Oncue) -> list[str]:
    """The attempts as an operator sees them by SQL."""
    store = (await app.internals.connected()).store
    await store.create_views()
    rows = await query(store, "select id from delivery_attempts order by execution_id, attempt")
    await drop_views(store)
    return [str(row[0]) for row in rows]


# --- the noun -------------------------------------------------------------------------------------------------------


@pytest.mark.contract("HOOK-2", "HOOK-4")
async def test_a_webhook_from_its_making_to_its_end(api: Api) -> None:
    reply = await api("POST", HOOKS, {**ORDERS, "timeout": "10s", "description": "paid orders"})
    assert (reply.status_code, reply.headers["Location"]) == (201, f"{HOOKS}/orders")
    webhook = reply.json()
    assert (webhook["timeout"], webhook["retry"], webhook["method"]) == (10.0, [30.0, 120.0, 600.0], "POST")
    assert (webhook["created_by"], webhook["declared_by"], webhook["version"]) == ("local", None, 1)
    assert (await api("POST", HOOKS, ORDERS)).status_code == 409
    shown = await api.get(f"{HOOKS}/orders")
    assert shown.pop("endpoint")["limit"] == 10
    assert shown == webhook == (await api.get(HOOKS))["webhooks"][0]
    changed = (await api("PUT", f"{HOOKS}/orders", {"body": '{"a": {{payload}}}', "retry": [1, "2m"]})).json()
    assert (changed["body"], changed["retry"], changed["version"]) == ('{"a": {{payload}}}', [1.0, 120.0], 2)
    assert (changed["headers"], changed["timeout"]) == ({"Authorization": "(hidden)"}, 10.0), "the rest stays"
    assert (await api("PUT", f"{HOOKS}/orders", {"body": None, "timeout": None})).json()["body"] is None
    assert (await api("PUT", f"{HOOKS}/orders", {})).json()["version"] == 3, "nothing was asked for"
    off = (await api("POST", f"{HOOKS}/orders/toggle", {"enabled": False})).json()
    assert (off["enabled"], off["reason"]) == (False, "by_hand")
    assert (await api("PUT", f"{HOOKS}/orders", {"enabled": True})).json()["enabled"]
    gone = await api("DELETE", f"{HOOKS}/orders")
    assert (gone.status_code, gone.json()["name"]) == (200, "orders")
    for method, path, body in (
        ("GET", "", None), ("PUT", "", {"timeout": 5}), ("DELETE", "", None), ("GET", "/executions", None),
        ("POST", "/toggle", {"enabled": True}), ("POST", "/pause", None), ("POST", "/resume", None),
        ("POST", "/deliveries", {"payload": 1}),
    ):  # fmt: skip
        assert (await api(method, f"{HOOKS}/orders{path}", body)).status_code == 404, path
    again = await made(api)
    assert (again["id"], again["deleted_at"] is not None) == (webhook["id"], True)


async def test_what_code_declares_is_only_enabled_and_disabled(api: Api) -> None:
    api.app.webhook("declared", url="https://shop.example/")
    async with api.app.worker():
        pass
    assert (await api.get(f"{HOOKS}/declared"))["declared_by"] is not None
    assert (await api("PUT", f"{HOOKS}/declared", {"timeout": 5})).status_code == 409
    assert (await api("PUT", f"{HOOKS}/declared", {"enabled": False})).json()["enabled"] is False


async def test_listings_go_on_by_name(api: Api) -> None:
    names = ["a", "a/b", "b", "ü"]
    for name in names:
        await made(api, name=name)
    found, link = [], f"{HOOKS}?limit=1"
    while link:
        page = await api.get(link)
        found += [webhook["name"] for webhook in page["webhooks"]]
        link = page["next"]
    assert found == names


@pytest.mark.parametrize("name", ["a/b", "a/pause", "a/deliveries", "a%2Fb", "Ünïcode ßlash/é", "7th", "..%2F.."])
async def test_any_name_is_addressed(api: Api, name: str) -> None:
    reply = await api("POST", HOOKS, {**ORDERS, "name": name})
    place = f"{HOOKS}/{quote(name, safe='')}"
    assert reply.headers["Location"] == place
    assert (await api.get(place))["name"] == name
    assert (await api("PUT", place, {"timeout": 5})).json()["name"] == name
    assert (await api("POST", f"{place}/pause")).json()["endpoint"]["paused_until"].startswith("9999")
    assert (await api("POST", f"{place}/resume")).json()["endpoint"]["paused_until"] is None
    number = (await sent(api, name))["id"]
    assert [one["number"] for one in (await api.get(f"{place}/executions"))["executions"]] == [number]
    assert (await api("DELETE", place)).json()["name"] == name


async def test_pauses_with_an_end(api: Api) -> None:
    await made(api)
    paused = await api("POST", f"{HOOKS}/orders/pause", {"until": "2130-01-01T00:00:00Z"})
    assert paused.json()["endpoint"]["paused_until"] == "2130-01-01T00:00:00Z"
    assert (await api("POST", f"{HOOKS}/orders/pause", {"for": "10m"})).json()["endpoint"]["paused_until"] < "2130"
    for body, field in (({"for": "soon"}, "for"), ({"until": "2001-01-01T00:00:00Z"}, "until"), ({"by": 1}, "by")):
        refused = await api("POST", f"{HOOKS}/orders/pause", body)
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, field)


# --- what is refused ------------------------------------------------------------------------------------------------

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"name": "a://b"}, "name"), ({"name": "a\nb"}, "name"), ({"name": ""}, "name"), ({"name": "x" * 300}, "name"),
    ({"url": None}, "url"), ({"url": 7}, "url"), ({"url": "ftp://shop.example/t0p-s3cret"}, "url"),
    ({"url": "https://user:t0p-s3cret@shop.example/"}, "url"), ({"url": "https://shop.example/\r\nt0p-s3cret"}, "url"),
    ({"url": "http://169.254.169.254/t0p-s3cret"}, "url"), ({"url": "http://[::ffff:10.0.0.7]/"}, "url"),
    ({"url": "http://localhost/?t0p-s3cret"}, "url"), ({"url": ["https://shop.example/t0p-s3cret"]}, "url"),
    ({"headers": {"X": f"a\r\n{PASSWORD}"}}, "headers"), ({"headers": {"X\r\nY": PASSWORD}}, "headers"),
    ({"headers": {PASSWORD: "x"}}, "headers"), ({"headers": PASSWORD}, "headers"), ({"headers": [PASSWORD]}, "headers"),
    ({"headers": {"X": ["t0p-s3cret"]}}, "headers"), ({"headers": {"Host": PASSWORD}}, "headers"),
    ({"headers": {"X": "(hidden)"}}, "headers"), ({"headers": {f"X-{n}": PASSWORD for n in range(60)}}, "headers"),
    ({"headers": {"X": "env:DATABASE_URL"}}, "headers"), ({"secrets": [f"{KEY}!"]}, "secrets"),
    ({"secrets": "t0p-s3cret"}, "secrets"), ({"secrets": {"a": KEY}}, "secrets"), ({"secrets": [KEY] * 6}, "secrets"),
    ({"secrets": ["(hidden) 66c02a1e"]}, "secrets"), ({"secrets": "env:HOME"}, "secrets"),
    ({"timeout": 0.5}, "timeout"), ({"timeout": 61}, "timeout"), ({"timeout": "t0p-s3cret"}, "timeout"),
    ({"retry": 0}, "retry"), ({"retry": ["soon"]}, "retry"), ({"redirects": 6}, "redirects"),
    ({"method": "BREW"}, "method"), ({"content_type": "no\r\nthing"}, "content_type"), ({"body": "{{nope}}"}, "body"),
    ({"ca": "../../etc/passwd"}, "ca"), ({"certificate": "/etc/passwd"}, "certificate"), ({"secret": KEY}, "secret"),
]  # fmt: skip


@pytest.mark.contract("HOOK-4", "HOOK-19")
async def test_every_complaint_names_the_field_and_repeats_no_secret(
    make_api: MakeApi, sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    api = make_api(sqlite_url)
    await made(api)
    with caplog.at_level(logging.DEBUG):
        for fields, field in REFUSED:
            for method, path, body in (
                ("POST", HOOKS, {**ORDERS, "name": "other", **fields}),
                *([] if "name" in fields or fields == {"url": None} else [("PUT", f"{HOOKS}/orders", fields)]),
            ):
                reply = await api(method, path, body)
                assert reply.status_code == 422, (fields, reply.text)
                assert reply.json()["errors"][0]["field"].partition(".")[0] == field, (fields, reply.text)
                assert not [secret for secret in HIDDEN if secret in reply.text and fields != {"timeout": "t0p-s3cret"}]
    assert not [secret for secret in HIDDEN if secret in caplog.text]
    assert [webhook["name"] for webhook in (await api.get(HOOKS))["webhooks"]] == ["orders"]
    assert (await api.get(f"{HOOKS}/orders"))["version"] == 1


async def test_a_huge_body_is_refused(make_api: MakeApi, sqlite_url: str) -> None:
    api = make_api(sqlite_url)
    await made(api)
    large = await api("POST", f"{HOOKS}/orders/deliveries", {"payload": "x" * 300_000})
    assert (large.status_code, large.json()["errors"][0]["field"]) == (422, "payload")
    assert (await api("POST", f"{HOOKS}/orders/deliveries", {"payload": "x" * 1_100_000})).status_code == 413
    template = await api("PUT", f"{HOOKS}/orders", {"body": json.dumps("x" * 70_000)})
    assert (template.status_code, template.json()["errors"][0]["field"]) == (422, "body")


# --- secrets --------------------------------------------------------------------------------------------------------


@pytest.mark.contract("HOOK-19")
async def test_no_answer_and_nothing_that_is_kept_tells_a_secret(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    key, texts = {"Idempotency-Key": "once"}, []
    with caplog.at_level(logging.DEBUG):
        for _ in range(2):
            reply = await api("POST", HOOKS, ORDERS, headers=key)
            texts.append(reply.text)
        assert reply.headers["Idempotency-Replayed"] == "true"
        texts.append((await api("PUT", f"{HOOKS}/orders", {"secrets": [KEY, "env:ONCUE_SECRET_NEW"]})).text)
        uid = (await sent(api, payload={"order": 7}))["uid"]
        for path in (HOOKS, f"{HOOKS}/orders", f"{HOOKS}/orders/executions", SENT, f"{SENT}/{uid}", f"{JOBS}/{uid}",
                     "/api/admin/audit-log"):  # fmt: skip
            texts.append((await api("GET", path)).text)
        texts.append((await api("DELETE", f"{HOOKS}/orders")).text)
        texts.append((await api("GET", "/api/admin/audit-log")).text)
    connected = await api.app.internals.connected()
    kept = await connected.store.requests.begin("local", "once", KeptRequest("another", connected.now(), ()))
    assert kept is not None
    for text in (*texts, kept.answer or "", caplog.text):
        assert not [secret for secret in HIDDEN if secret in text]
    assert '"env:ONCUE_SECRET_NEW"' in texts[2], "a reference is no secret"


@pytest.mark.contract("HOOK-19")
async def test_an_endpoint_that_sends_back_what_it_got_tells_no_secret(
    make_api: MakeApi, sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    api = make_api(sqlite_url)
    await made(api, headers={"Authorization": PASSWORD, "X-Stage": "test"})
    number = (await sent(api))["id"]
    with caplog.at_level(logging.DEBUG):
        echo = f" to {{Authorization: {PASSWORD}}}; in this test t0p-s3cret is no good"
        await delivered(api.app, number, answers=[401], echo=echo)
    for path in (f"{SENT}/{number}", SENT, f"{JOBS}/{number}"):
        text = (await api("GET", path)).text
        assert "t0p-s3cret" not in text
        assert "said 401 to {Authorization: (hidden)}; in this test (hidden) is no good" in text
    assert "t0p-s3cret" not in caplog.text


# --- deliveries -----------------------------------------------------------------------------------------------------


async def test_a_delivery_is_written_once_under_its_idempotency_key(api: Api) -> None:
    await made(api)
    body, key = {"payload": {"order": 7}, "delay": "1h", "priority": 60}, {"Idempotency-Key": "seven"}
    first, second = [await api("POST", f"{HOOKS}/orders/deliveries", body, headers=key) for _ in range(2)]
    assert (first.status_code, first.text) == (second.status_code, second.text)
    receipt = first.json()
    assert first.headers["Location"] == f"{SENT}/{receipt['uid']}"
    (job,) = await api.app.webhooks.executions()
    assert (job.id, job.group, job.queue, job.priority, job.state) == (
        receipt["id"], "orders", "webhooks", 60, "scheduled",
    )  # fmt: skip
    assert (job.enqueued_by, job.args) == ("local", {"webhook": "orders", "payload": {"order": 7}})


async def test_a_held_key_answers_with_the_delivery_that_has_it(api: Api) -> None:
    await made(api)
    first = await sent(api, key="seven")
    again = await api("POST", f"{HOOKS}/orders/deliveries", {"key": "seven"})
    assert (again.status_code, again.json()) == (200, {**first, "created": False})


@pytest.mark.contract("HOOK-19")
async def test_a_token_that_may_only_enqueue_delivers_to_webhooks_alone(make_api: MakeApi, sqlite_url: str) -> None:
    api = make_api(sqlite_url)
    await made(api)
    enqueues, operates = bearer(await a_token(api.app, "enqueue")), bearer(await a_token(api.app, "operate"))
    to_webhook, to_url = f"{HOOKS}/orders/deliveries", {"url": "https://shop.example/other", "payload": 7}
    assert (await api("POST", to_webhook, {}, headers=enqueues)).status_code == 201
    assert (await api("POST", to_webhook, {}, headers=operates)).status_code == 403
    assert (await api("POST", BARE, to_url, headers=enqueues)).status_code == 403
    assert (await api("POST", BARE, to_url, headers=operates)).status_code == 201
    assert (await api("POST", f"{HOOKS}/nowhere/deliveries", {}, headers=enqueues)).status_code == 404
    for body in ({"task": "oncue.deliver", "args": {"url": "https://shop.example/"}}, {"task": "oncue.ping"}):
        one = await api("POST", JOBS, body, headers=enqueues)
        many = await api("POST", f"{JOBS}/bulk", {"jobs": [{"task": "add", "args": {"a": 1}}, body]}, headers=enqueues)
        assert [reply.status_code for reply in (one, many)] == [422, 422]
        fields = [reply.json()["errors"][0]["field"] for reply in (one, many)]
        assert fields == ["task", "jobs.1.task"]
        assert "/api/admin/webhooks/NAME/deliveries" in one.text
    assert len(await api.app.jobs.list()) == 2


@pytest.mark.contract("HOOK-19")
async def test_a_bare_url_is_guarded_and_carries_no_secret(make_api: MakeApi, sqlite_url: str) -> None:
    api = make_api(sqlite_url)
    for fields, field in (
        ({"url": "http://127.0.0.1/t0p-s3cret"}, "url"), ({"headers": {"Authorization": PASSWORD}}, "headers"),
        ({"secrets": [KEY]}, "secrets"), ({"timeout": 90}, "timeout"), ({"at": "2500-01-01T00:00:00Z"}, "at"),
        ({"delay": "1h", "at": "2030-01-01T00:00:00Z"}, "at"), ({"name": "x"}, "name"), ({"key": ""}, "key"),
        ({"method": "GET", "payload": 7}, "payload"), ({"priority": 101}, "priority"),
    ):  # fmt: skip
        reply = await api("POST", BARE, {"url": "https://shop.example/", **fields})
        assert (reply.status_code, reply.json()["errors"][0]["field"]) in ((422, field), (422, "delay")), reply.text
        assert not [secret for secret in HIDDEN if secret in reply.text]
    references = {"headers": {"X-Key": "env:ONCUE_SECRET_KEY"}, "secrets": "env:ONCUE_SECRET_KEY"}
    reply = await api("POST", BARE, {"url": "https://shop.example/a?b=c", "payload": 7, **references})
    execution = await api.get(f"{SENT}/{reply.json()['uid']}")
    assert (execution["webhook"], execution["url"], execution["payload"]) == (None, "https://shop.example/a?b=c", 7)


# --- executions -----------------------------------------------------------------------------------------------------


@pytest.mark.contract("HOOK-3", "HOOK-16", "HOOK-22")
async def test_an_execution_with_its_attempts(api: Api) -> None:
    await made(api, retry=[0.0, 0.0])
    receipt = await sent(api, payload={"order": 7})
    answers = (503, NotSent("timeout", "https://shop.example:443: no answer within 30 s"), 200)
    transport = await delivered(api.app, receipt["id"], answers=answers)
    found = await api.get(f"{SENT}/{receipt['uid']}")
    assert found == await api.get(f"{SENT}/{receipt['id']}")
    assert (found["id"], found["status"], found["state"], found["attempts"]) == (
        receipt["uid"], "delivered", "succeeded", 3,
    )  # fmt: skip
    assert {request.headers["webhook-id"] for request in transport.sent} == {found["id"]}, "the same in every attempt"
    assert found["next_attempt_at"] is None
    told = ("attempt", "status_code", "error", "failed", "excerpt", "address", "truncated")
    assert [tuple(attempt[name] for name in told) for attempt in found["attempt_list"]] == [
        (1, 503, "HTTP 503: said 503", None, "said 503", "198.51.100.7", False),
        (2, None, "https://shop.example:443: no answer within 30 s", "timeout", None, None, False),
        (3, 200, None, None, "said 200", "198.51.100.7", True),
    ]
    assert [attempt["ms"] for attempt in found["attempt_list"]][::2] == [34, 34]
    for attempt in found["attempt_list"]:
        assert found["created_at"] <= attempt["started_at"] <= attempt["finished_at"]
    assert [attempt["id"] for attempt in found["attempt_list"]] == await attempts_in_view(api.app)
    assert {k: v for k, v in found.items() if k not in ("payload", "attempt_list")} == (await api.get(SENT))[
        "executions"
    ][0]


@pytest.mark.contract("HOOK-16", "HOOK-22")
async def test_statuses_are_those_of_the_contract(api: Api) -> None:
    await made(api)
    ids = [(await sent(api, payload=number))["id"] for number in range(4)]
    await api("PUT", f"{JOBS}/{ids[0]}/status", {"status": "succeeded"})
    await api("PUT", f"{JOBS}/{ids[1]}/status", {"status": "failed"})
    await api("POST", f"{JOBS}/{ids[2]}/cancel")
    found = (await api.get(f"{HOOKS}/orders/executions"))["executions"]
    assert [(one["number"], one["status"], one["state"], one["reason"]) for one in reversed(found)] == [
        (ids[0], "delivered", "succeeded", "by_hand"), (ids[1], "failed", "failed", "by_hand"),
        (ids[2], "failed", "cancelled", "cancelled"), (ids[3], "emitted", "queued", None),
    ]  # fmt: skip
    assert found[0]["next_attempt_at"] == found[0]["created_at"] == found[0]["scheduled_at"]
    for path in (SENT, f"{HOOKS}/orders/executions"):
        for status, expected in (("delivered", ids[:1]), ("failed", ids[1:3]), ("emitted", ids[3:])):
            found, link = [], f"{path}?status={status}&limit=1"
            while link:
                page = await api.get(link)
                found += [one["number"] for one in page["executions"]]
                link = page["next"]
            assert found == expected[::-1], "the filter goes along from page to page"
        refused = await api("GET", f"{path}?status=lost")
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "status")


async def test_pages_of_executions(api: Api) -> None:
    await made(api)
    await made(api, name="other")
    ids = [(await sent(api, "other" if number == 2 else "orders"))["id"] for number in range(5)]
    for path, expected in ((f"{HOOKS}/orders/executions", [*ids[:2], *ids[3:]]), (SENT, ids)):
        found, link = [], f"{path}?limit=2"
        while link:
            page = await api.get(link)
            found += [one["number"] for one in page["executions"]]
            link = page["next"]
        assert found == expected[::-1]


async def test_a_large_payload_is_not_read_for_a_listing(make_api: MakeApi, sqlite_url: str) -> None:
    api = make_api(sqlite_url)
    await api("POST", BARE, {"url": "https://shop.example/a?b=c", "payload": "x" * 5000})
    (listed,) = (await api.get(SENT))["executions"]
    assert listed["url"] == "https://shop.example:443", "the origin is left"
    assert (await api.get(f"{SENT}/{listed['id']}"))["url"] == "https://shop.example/a?b=c"


async def test_other_jobs_are_no_executions(make_api: MakeApi, sqlite_url: str) -> None:
    api = make_api(sqlite_url)
    job = (await api("POST", JOBS, {"task": "add", "args": {"a": 1}})).json()
    assert (await api.get(SENT))["executions"] == []
    for ref in (job["id"], job["uid"], 99, "x"):
        assert (await api("GET", f"{SENT}/{ref}")).status_code == 404
        assert (await api("POST", f"{SENT}/{ref}/retry")).status_code == 404


@pytest.mark.contract("HOOK-10")
async def test_a_retry_is_a_new_execution(api: Api) -> None:
    await made(api)
    receipt = await sent(api, payload={"order": 7}, key="seven", priority=9)
    assert (await api("POST", f"{SENT}/{receipt['uid']}/retry")).status_code == 409, "it has not ended"
    await delivered(api.app, receipt["id"], answers=[404])
    ended = await api.get(f"{SENT}/{receipt['uid']}")
    reply = await api("POST", f"{SENT}/{receipt['uid']}/retry")
    again = reply.json()
    assert (reply.status_code, reply.headers["Location"]) == (201, f"{SENT}/{again['id']}")
    assert (again["retry_of"], again["status"], again["attempts"]) == (receipt["id"], "emitted", 0)
    assert await api.get(f"{SENT}/{receipt['uid']}") == ended, "what has ended stays as it is"
    held = await api("POST", f"{SENT}/{receipt['uid']}/retry")
    assert (held.status_code, held.json()["job_id"]) == (409, again["number"]), "its key is held"
    await delivered(api.app, again["number"])
    third = await api("POST", f"{SENT}/{again['id']}/retry")
    assert third.status_code == 201, "one that was delivered may be sent once more"
    lines = (await api.get("/api/admin/audit-log", params={"subject": f"job:{receipt['id']}"}))["entries"]
    assert [(line["action"], line["after"]) for line in lines] == [("job.retry", {"retried_as": again["number"]})]


# --- schedules ------------------------------------------------------------------------------------------------------


async def test_a_schedule_delivers_to_a_webhook(api: Api) -> None:
    await made(api)
    await made(api, name="other", retry=["5s"])
    plan = {"name": "stock", "cron_expression": "*/5 * * * *", "webhook": "orders", "args": {"payload": {"n": 1}}}
    reply = await api("POST", PLANS, plan)
    schedule = reply.json()
    assert (reply.status_code, schedule["webhook"], schedule["task"], schedule["queue"]) == (
        201, "orders", "oncue.deliver", "webhooks",
    )  # fmt: skip
    assert (schedule["args"], schedule["max_instances"], schedule["max_retries"]) == (
        {"webhook": "orders", "payload": {"n": 1}}, 100, 3,
    )  # fmt: skip
    assert schedule["grace"] == 86_400.0, "a delivery may start late"
    assert (await api("DELETE", f"{HOOKS}/orders")).status_code == 409
    changed = (await api("PUT", f"{PLANS}/stock", {"args": {"payload": 2}})).json()
    assert changed["args"] == {"webhook": "orders", "payload": 2}
    changed = (await api("PUT", f"{PLANS}/stock", {"webhook": "other"})).json()
    assert (changed["webhook"], changed["args"], changed["max_retries"]) == (
        "other", {"webhook": "other", "payload": 2}, 1,
    )  # fmt: skip
    slot = (await api("POST", f"{PLANS}/stock/trigger")).json()
    (execution,) = (await api.get(f"{HOOKS}/other/executions"))["executions"]
    assert (execution["number"], execution["schedule"], execution["scheduled_at"]) == (
        slot["job_id"], "stock", slot["scheduled_for"],
    )  # fmt: skip
    (job,) = await api.app.webhooks.executions("other")
    assert (job.group, job.max_retries, job.queue) == ("other", 1, "webhooks")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"queue": "mail"}, "queue"), ({"max_retries": 2}, "max_retries"), ({"webhook": "nowhere"}, "webhook"),
        ({"task": "add"}, "task"), ({"args": {"url": "http://10.0.0.7/"}}, "args"),
        ({"webhook": None, "task": "oncue.deliver"}, "task"), ({"webhook": None}, "task"),
    ],
)  # fmt: skip
async def test_what_a_schedule_of_a_webhook_cannot_say(
    make_api: MakeApi, sqlite_url: str, fields: dict[str, Any], field: str
) -> None:
    api = make_api(sqlite_url)
    await made(api)
    plan = {"name": "stock", "cron_expression": "*/5 * * * *", "webhook": "orders"}
    refused = await api("POST", PLANS, {**plan, **fields})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, field), refused.text
    await api("POST", PLANS, plan)
    await api("POST", PLANS, {"name": "sums", "cron_expression": "@daily", "task": "add", "args": {"a": 1}})
    if fields != {"webhook": None}:
        changed = await api("PUT", f"{PLANS}/stock", fields)
        assert (changed.status_code, changed.json()["errors"][0]["field"]) == (422, field), changed.text
    moved = await api("PUT", f"{PLANS}/sums", {"webhook": "orders"})
    assert (moved.status_code, moved.json()["errors"][0]["field"]) == (422, "webhook")
    assert (await api.get(f"{PLANS}/stock"))["args"] == {"webhook": "orders"}


async def test_a_repeated_delivery_of_a_schedule_keeps_its_slot(api: Api) -> None:
    await made(api)
    await api("POST", PLANS, {"name": "stock", "cron_expression": "*/5 * * * *", "webhook": "orders"})
    number = (await api("POST", f"{PLANS}/stock/trigger")).json()["job_id"]
    await delivered(api.app, number)
    first = await api.get(f"{SENT}/{number}")
    again = [(await api("POST", f"{SENT}/{number}/retry")).json() for _ in range(2)]
    assert {(one["schedule"], one["scheduled_at"], one["retry_of"]) for one in again} == {
        ("stock", first["scheduled_at"], number)
    }
    await delivered(api.app, *(one["number"] for one in again))
    assert (await api("POST", f"{SENT}/{number}/retry")).status_code == 201, "whether or not one of them was delivered"
    assert await api.get(f"{SENT}/{number}") == first


async def test_mounted_elsewhere_a_location_leads_to_the_execution(api: Api) -> None:
    await made(api)
    outer = Starlette(routes=[Mount("/in/here", mountable(api.app, require_token=False))])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url=HERE) as client:
        reply = await client.post(f"/in/here{HOOKS}/orders/deliveries", json={"payload": 7})
        assert (await client.get(reply.headers["Location"])).json()["payload"] == 7
