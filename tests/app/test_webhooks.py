"""Webhooks in code: declared and made by hand, delivered by a real worker to a real server; what an edit changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from standardwebhooks import Webhook as Verifier

from oncue import Conflict, Ladder, Oncue, cron
from oncue.application.webhooks import DeclaredWebhook
from oncue.errors import InvalidSchedule, InvalidWebhook, JobNotFound, WebhookNotFound
from oncue.model import DELIVER, WEBHOOKS_QUEUE, Job
from tests.app.conftest import MakeApp
from tests.webhooks.servers import Got, Server, serving

SECRET, OLD_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
QUICK = Ladder("10ms", "10ms", "10ms")
LOOPBACK = "127.0.0.0/8"


class Receiver:
    """Answers what the test says, the last answer again and again."""

    def __init__(self, *answers: tuple[int, dict[str, str]] | int) -> None:
        self.answers = list(answers) or [200]

    async def __call__(self, got: Got, writer: asyncio.StreamWriter) -> None:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        status, headers = answer if isinstance(answer, tuple) else (answer, {})
        told = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {status} x\r\n{told}Content-Length: 6\r\n\r\nthanks".encode())


@pytest.fixture
def app(make_app: MakeApp, database_url: str) -> Oncue:
    return make_app(database_url, webhooks_allow=LOOPBACK, name="shop", poll_interval="20ms")


@asynccontextmanager
async def receiving(*answers: Any) -> AsyncIterator[Server]:
    async with serving(Receiver(*answers)) as server:
        yield server


async def finished(app: Oncue, job_id: int, until: Callable[[Job], bool] = lambda job: job.finished) -> Job:
    """The job once it is so, while a worker runs."""
    news = asyncio.Event()
    app.internals.telemetry.subscribe(lambda *_: news.set(), "job.stop", "job.retry")
    async with asyncio.timeout(20):
        while not until(job := await app.jobs.get(job_id)):
            await news.wait()
            news.clear()
    return job


async def delivered(app: Oncue, job_id: int) -> Job:
    async with app.worker():
        return await finished(app, job_id)


def declared(app: Oncue, server: Server, **fields: Any) -> DeclaredWebhook:
    return app.webhook("orders", url=server.url("/hook?token=7"), **{"retry": QUICK, **fields})


# --- delivering -----------------------------------------------------------------------------------------------------


@pytest.mark.contract("HOOK-3", "HOOK-19")
async def test_a_delivery_is_posted_signed_and_kept_with_its_answer(app: Oncue) -> None:
    async with receiving() as server:
        orders = declared(app, server, secrets=[SECRET, OLD_SECRET], headers={"X-Shop": "7"})
        receipt = await orders.adeliver({"order": 42})
        job = await delivered(app, receipt.id)
    (got,) = server.got
    assert (job.state, job.task, job.queue, job.group) == ("succeeded", DELIVER, WEBHOOKS_QUEUE, "orders")
    assert got.line == "POST /hook?token=7 HTTP/1.1"
    assert json.loads(got.body) == {"order": 42}
    assert (got.headers["content-type"], got.headers["x-shop"]) == ("application/json", "7")
    assert got.headers["webhook-id"] == str(receipt.uid)
    for secret in (SECRET, OLD_SECRET):
        Verifier(secret).verify(got.body.decode(), got.headers)
    assert job.details is not None
    assert (job.details["status"], job.details["excerpt"], job.details["address"]) == (200, "thanks", "127.0.0.1")


@pytest.mark.contract("HOOK-2", "HOOK-3", "HOOK-19")
async def test_a_failing_endpoint_gets_four_attempts_with_one_id_and_one_body(app: Oncue) -> None:
    async with receiving(500, 429, 503) as server:
        receipt = await declared(app, server).adeliver({"order": 42})
        job = await delivered(app, receipt.id)
    assert (job.state, job.attempt, job.error) == ("failed", 4, "HTTP 503: thanks")
    assert len(server.got) == 4
    assert {got.headers["webhook-id"] for got in server.got} == {str(receipt.uid)}
    assert len({got.body for got in server.got}) == 1
    statuses = [attempt.details and attempt.details["status"] for attempt in await app.jobs.attempts(job.id)]
    assert statuses == [500, 429, 503, 503]


@pytest.mark.contract("HOOK-3")
@pytest.mark.parametrize("status", [302, 400, 404, 410])
async def test_an_answer_that_stays_fails_at_once(app: Oncue, status: int) -> None:
    async with receiving((status, {"Location": "https://elsewhere.example/"})) as server:
        job = await delivered(app, (await declared(app, server).adeliver()).id)
    assert (job.state, job.attempt, len(server.got)) == ("failed", 1, 1)


@pytest.mark.contract("HOOK-3")
async def test_retry_after_is_waited_for_if_it_is_longer_than_the_step(app: Oncue) -> None:
    async with receiving((429, {"Retry-After": "7200"})) as server:
        receipt = await declared(app, server).adeliver()
        async with app.worker():
            job = await finished(app, receipt.id, lambda job: job.state == "retrying")
    (attempt,) = await app.jobs.attempts(job.id)
    assert attempt.finished_at is not None
    assert (job.visible_at - attempt.finished_at).total_seconds() == 3600, "at most an hour"


@pytest.mark.contract("HOOK-3", "HOOK-19")
async def test_a_dead_endpoint_is_tried_again_and_a_forbidden_one_is_not(make_app: MakeApp, database_url: str) -> None:
    app = make_app(database_url, webhooks_allow="127.0.0.1:1", name="shop", poll_interval="20ms")
    dead = await app.adeliver("http://127.0.0.1:1/", {"n": 1}, retry=QUICK)
    forbidden = await app.adeliver("http://127.0.0.2:80/", {"n": 1}, retry=QUICK)
    async with app.worker():
        tried, refused = await finished(app, dead.id), await finished(app, forbidden.id)
    assert (tried.state, tried.attempt, tried.details) == ("failed", 4, {"failed": "network"})
    assert (refused.state, refused.attempt, refused.details) == ("failed", 1, {"failed": "refused"})
    assert "ONCUE_WEBHOOKS_ALLOW" in str(refused.error)
    assert (tried.group, refused.group) == ("http://127.0.0.1:1", "http://127.0.0.2:80")


async def test_a_bare_url_gets_its_payload_with_references_only(app: Oncue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCUE_SECRET_TOKEN", "Bearer abc")
    async with receiving() as server:
        url = server.url("/x")
        receipt = await app.adeliver(url, {"n": 1}, headers={"Authorization": "env:ONCUE_SECRET_TOKEN"}, method="PUT")
        job = await delivered(app, receipt.id)
    (got,) = server.got
    assert (got.line, got.headers["authorization"]) == ("PUT /x HTTP/1.1", "Bearer abc")
    assert job.args == {"url": url, "payload": {"n": 1}, "headers": {"Authorization": "env:ONCUE_SECRET_TOKEN"}}
    for fields in ({"headers": {"Authorization": "Bearer abc"}}, {"secrets": [SECRET]}):
        with pytest.raises(InvalidWebhook, match="a job shows its arguments") as refused:
            await app.adeliver(url, **fields)
        assert "abc" not in str(refused.value)


async def test_a_missing_variable_is_tried_again(app: Oncue) -> None:
    """Another worker may have it."""
    async with receiving() as server:
        receipt = await declared(app, server, secrets="env:ONCUE_SECRET_NOWHERE").adeliver()
        job = await delivered(app, receipt.id)
    assert (job.state, job.attempt, server.got) == ("failed", 4, [])
    assert "ONCUE_SECRET_NOWHERE" in str(job.error)


# --- what is read when ----------------------------------------------------------------------------------------------


async def test_an_edit_changes_the_url_of_the_next_attempt_and_not_body_and_ladder(app: Oncue) -> None:
    """URL, headers and secrets are read at each attempt; body and ladder are those of the enqueue."""
    async with receiving(500) as before, receiving() as after:
        await app.webhooks.create("orders", url=before.url(), body='{"v":1,"id":"{{id}}"}', retry=Ladder("2s"))
        receipt = await app.webhooks.deliver("orders", {"n": 1})
        async with app.worker():
            await finished(app, receipt.id, lambda job: job.state == "retrying")
            await app.webhooks.change(
                "orders", url=after.url(), body='{"v":2}', retry=QUICK, headers={"X-New": "1"}, changed_by="eva"
            )
            job = await finished(app, receipt.id)
    (first,), (second,) = before.got, after.got
    assert first.body == second.body == f'{{"v":1,"id":"{receipt.uid}"}}'.encode()
    assert second.headers["x-new"] == "1"
    assert (job.state, job.attempt, job.max_retries) == ("succeeded", 2, 1)
    later = await app.webhooks.deliver("orders", {"n": 2})
    assert (await app.jobs.get(later.id)).max_retries == 3


async def test_deliveries_of_a_deleted_webhook_fail_and_those_of_its_successor_do_not(app: Oncue) -> None:
    async with receiving() as server:
        await app.webhooks.create("orders", url=server.url(), secrets=SECRET)
        receipt = await app.webhooks.deliver("orders")
        await app.webhooks.delete("orders")
        with pytest.raises(WebhookNotFound):
            await app.webhooks.get("orders")
        await app.webhooks.create("orders", url=server.url())
        new = await app.webhooks.deliver("orders")
        async with app.worker():
            old, other = await finished(app, receipt.id), await finished(app, new.id)
    assert (old.state, old.error) == ("failed", "webhook_deleted: the webhook 'orders' was deleted")
    assert (other.state, [got.headers["webhook-id"] for got in server.got]) == ("succeeded", [str(new.uid)])


async def test_deliveries_of_a_disabled_webhook_are_skipped(app: Oncue) -> None:
    async with receiving() as server:
        orders = declared(app, server)
        receipt = await orders.adeliver()
        async with app.worker():
            await finished(app, receipt.id)
            await app.webhooks.toggle("orders", False)
            job = await finished(app, (await orders.adeliver()).id)
        async with app.worker():
            assert not (await app.webhooks.get("orders")).enabled, "the code declares it again, and it stays disabled"
    assert (job.state, job.reason, len(server.got)) == ("skipped", "webhook_disabled", 1)


async def test_a_pause_holds_deliveries_back_until_it_is_over(app: Oncue) -> None:
    async with receiving() as server:
        for name in ("orders", "invoices"):
            await app.webhooks.create(name, url=server.url())
        await app.webhooks.pause("orders")
        receipt, later = await app.webhooks.deliver("orders"), await app.webhooks.deliver("invoices")
        async with app.worker():
            await finished(app, later.id)
            assert (await app.jobs.get(receipt.id)).state == "queued"
            await app.webhooks.resume("orders")
            job = await finished(app, receipt.id)
    assert job.state == "succeeded"


# --- schedules ------------------------------------------------------------------------------------------------------


@pytest.mark.contract("HOOK-1")
async def test_a_schedule_delivers_its_slots(app: Oncue) -> None:
    async with receiving() as server:
        declared(app, server, schedule=cron("@every 1s"), body='{"slot":"{{scheduled_for}}"}')
        async with app.worker():
            async with asyncio.timeout(20):
                while len(server.got) < 2:
                    server.asked.clear()
                    await server.asked.wait()
            schedule = await app.schedules.get("orders")
    assert (schedule.task, schedule.group, schedule.declared_by) == (DELIVER, "orders", "shop")
    assert json.loads(schedule.args) == {"webhook": "orders"}
    slots = [json.loads(got.body)["slot"] for got in server.got]
    assert len(set(slots)) == len(slots)


async def test_an_edit_of_a_webhook_reaches_the_schedules_that_deliver_to_it(app: Oncue) -> None:
    await app.webhooks.create("orders", url="https://shop.example/hook")
    await app.schedules.create("nightly", "0 3 * * *", webhook="orders", args={"payload": {"n": 1}})
    before = await app.schedules.get("nightly")
    await app.webhooks.change("orders", retry=["1s", "2s"], body='{"v":2}')
    after = await app.schedules.get("nightly")
    assert (before.max_retries, after.max_retries) == (3, 2)
    assert '"v' not in before.options
    assert json.loads(after.options)["webhook"]["body"] == '{"v":2}'
    edited = await app.schedules.change("nightly", rule="0 4 * * *")
    assert (edited.group, edited.options, edited.max_retries) == ("orders", after.options, 2)
    with pytest.raises(Conflict, match="is the target of schedule 'nightly'"):
        await app.webhooks.delete("orders")


async def test_a_schedule_has_one_target(app: Oncue) -> None:
    await app.webhooks.create("orders", url="https://shop.example/hook")
    for target in ({}, {"task": DELIVER, "webhook": "orders"}):
        with pytest.raises(InvalidSchedule, match="expected a task or a webhook"):
            await app.schedules.create("nightly", "0 3 * * *", **target)
    with pytest.raises(WebhookNotFound):
        await app.schedules.create("nightly", "0 3 * * *", webhook="nothing")
    with pytest.raises(InvalidSchedule, match="only the payload"):
        await app.schedules.create("nightly", "0 3 * * *", webhook="orders", args={"url": "https://evil.example"})


# --- by hand and in code --------------------------------------------------------------------------------------------


async def test_what_code_declares_is_changed_there(app: Oncue, make_app: MakeApp, database_url: str) -> None:
    app.webhook("orders", url="https://shop.example/one")
    async with app.worker():
        pass
    with pytest.raises(Conflict, match="declared in the code of 'shop'"):
        await app.webhooks.change("orders", url="https://shop.example/two")
    with pytest.raises(Conflict, match="there is a webhook 'orders' already"):
        await app.webhooks.create("orders", url="https://shop.example/two")
    newer = make_app(database_url, name="shop")
    newer.webhook("orders", url="https://shop.example/two", timeout="5s")
    async with newer.worker():
        stored = await newer.webhooks.get("orders")
    assert (stored.url, stored.timeout, stored.version) == ("https://shop.example/two", 5.0, 2)


async def test_what_code_declares_is_deleted_there(app: Oncue, make_app: MakeApp, database_url: str) -> None:
    app.webhook("orders", url="https://shop.example/one")
    app.webhook("nightly", url="https://shop.example/two", schedule=cron("0 3 * * *"))
    async with app.worker():
        pass
    for name in ("orders", "nightly"):
        with pytest.raises(Conflict, match=f"webhook '{name}' is declared in the code of 'shop': remove it there"):
            await app.webhooks.delete(name)
    elsewhere = make_app(database_url, name="shop")  # such as the shell without --app
    with pytest.raises(Conflict, match="target of schedule 'nightly', which is declared in the code of 'shop'"):
        await elsewhere.webhooks.delete("nightly")
    await elsewhere.schedules.toggle("nightly", False)
    for name in ("orders", "nightly"):  # what no code declares any more can be cleared away
        await elsewhere.webhooks.delete(name)
    assert await elsewhere.webhooks.list() == []
    await elsewhere.webhooks.create("orders", url="https://shop.example/three")
    await app.webhooks.delete("orders")  # made by hand, it is in the way of the one that the code declares


async def test_a_payload_that_no_request_would_carry_is_refused(app: Oncue) -> None:
    ping = app.webhook("ping", url="https://shop.example/ping", method="GET")
    with pytest.raises(InvalidWebhook, match="payload: expected none: a GET without a template has no body"):
        await ping.adeliver({"order": 7})
    with pytest.raises(InvalidWebhook, match="payload: expected none: a GET without a template has no body"):
        await app.adeliver("https://shop.example/ping", {"order": 7}, method="GET")
    assert await app.jobs.list() == []
    with_body = app.webhook("search", url="https://shop.example/", method="GET", body="{{payload.order}}")
    assert (await with_body.adeliver({"order": 7})).created


@pytest.mark.parametrize("option", [{"missed": "each"}, {"grace": "1h"}, {"max_instances": 1}])
def test_what_belongs_to_a_schedule_needs_one(app: Oncue, option: dict[str, Any]) -> None:
    (name,) = option
    with pytest.raises(InvalidWebhook, match=f"{name}: only webhooks with a schedule= have one"):
        app.webhook("orders", url="https://shop.example/hook", **option)


async def test_plain_code_inside_a_loop_is_told_of_adeliver(app: Oncue) -> None:
    with pytest.raises(RuntimeError, match="for deliver: `adeliver`"):
        app.webhook("orders", url="https://shop.example/hook").deliver()


async def test_an_execution_that_is_not_there_is_called_so(app: Oncue) -> None:
    with pytest.raises(JobNotFound, match="there is no execution 99"):
        await app.webhooks.execution(99)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"url": "http://169.254.169.254/latest"}, "url: http://169.254.169.254:80 is a link-local address"),
        ({"url": "ftp://shop.example"}, "url: "),
        ({"timeout": "61s"}, "timeout: expected 1 to 60 seconds"),
        ({"timeout": 0.5}, "timeout: expected 1 to 60 seconds"),
        ({"secrets": "whsec_short"}, "secrets: secret 1: expected"),
        ({"secrets": "env:DATABASE_URL"}, "secrets: secret 1: expected"),
        ({"headers": {"X": "a\r\nHost: b"}}, "headers: "),
        ({"body": "{{nothing}}"}, "body: unknown placeholder {{nothing}}"),
        ({"redirects": 9}, "redirects: expected"),
        ({"ca": "../../etc/passwd"}, "ca: expected"),
        ({"wrong": 1}, "wrong: expected one of the fields"),
    ],
)
@pytest.mark.contract("HOOK-4", "HOOK-19")
async def test_bad_input_names_the_field_and_nothing_is_written(app: Oncue, fields: Any, said: str) -> None:
    with pytest.raises(InvalidWebhook) as refused:
        await app.webhooks.create("orders", **{"url": "https://shop.example/hook", **fields})
    assert str(refused.value).startswith(said)
    assert await app.webhooks.list() == []


async def test_the_audit_log_shows_changes_without_secrets(app: Oncue) -> None:
    await app.webhooks.create(
        "orders",
        url="https://shop.example/1",
        secrets=SECRET,
        headers={"Authorization": "Bearer abc"},
        created_by="eva",
    )
    await app.webhooks.change("orders", url="https://shop.example/2", secrets=[OLD_SECRET], changed_by="eva")
    await app.webhooks.toggle("orders", False, changed_by="eva")
    await app.webhooks.delete("orders", changed_by="eva")
    entries = await app.audit_log.list()
    assert [entry.action for entry in entries][::-1] == [
        "webhook.create", "webhook.update", "webhook.toggle", "webhook.delete"
    ]  # fmt: skip
    text = json.dumps([(entry.before, entry.after) for entry in entries])
    assert not [secret for secret in (SECRET, OLD_SECRET, "Bearer") if secret in text]
    assert "https://shop.example/2" in text


# --- the circuit breaker --------------------------------------------------------------------------------------------


@pytest.mark.contract("HOOK-5")
async def test_an_endpoint_that_is_down_is_left_alone_and_others_are_not(make_app: MakeApp, database_url: str) -> None:
    app = make_app(
        database_url, webhooks_allow=LOOPBACK, name="shop", poll_interval="20ms", webhooks_breaker=3, concurrency=4
    )
    async with receiving(500) as down, receiving() as up:
        bad = app.webhook("bad", url=down.url(), retry=Ladder("1h"))
        good = app.webhook("good", url=up.url())
        waiting = [await bad.adeliver({"n": n}) for n in range(100)]
        opened, events = asyncio.Event(), []

        def hear(event: str, measurements: Any, metadata: Any) -> None:
            events.append((metadata["group"], measurements["trips"]))
            opened.set()

        app.internals.telemetry.subscribe(hear, "breaker")
        async with app.worker():
            async with asyncio.timeout(20):
                await opened.wait()
            job = await finished(app, (await good.adeliver()).id)
            states = [(await app.jobs.get(receipt.id)).state for receipt in waiting]
    assert job.state == "succeeded"
    assert events == [("bad", 1)]
    assert states.count("queued") >= 50, "what has not begun waits, uncharged"
    assert len(down.got) <= 50, "three failures, and what the other seats had begun until that was written"


@pytest.mark.contract("HOOK-5")
async def test_deliveries_without_a_group_have_the_breaker_of_their_own_endpoint(
    make_app: MakeApp, database_url: str
) -> None:
    """A leader of an earlier version, and `oncue enqueue oncue.deliver`, make them without one."""
    app = make_app(database_url, webhooks_allow=LOOPBACK, name="shop", poll_interval="20ms", webhooks_breaker=2)
    async with receiving(500) as down, receiving() as up:
        app.webhook("bad", url=down.url(), retry=Ladder("1h"))
        app.webhook("good", url=up.url())
        deliver = app.internals.builtin[DELIVER]
        opened: dict[str, int] = {}
        both = asyncio.Event()

        def hear(event: str, measurements: Any, metadata: Any) -> None:
            opened[metadata["group"]] = measurements["trips"]
            if len(opened) == 2:
                both.set()

        app.internals.telemetry.subscribe(hear, "breaker")
        async with app.worker():
            for _ in range(2):
                await deliver.aenqueue(webhook="bad")
                await deliver.aenqueue(url=down.url("/bare"))
            async with asyncio.timeout(20):
                await both.wait()
            sent = await finished(app, (await deliver.aenqueue(webhook="good")).id)
    assert sent.state == "succeeded"
    assert opened == {"bad": 1, down.url("").rstrip("/"): 1}


async def test_a_key_is_its_endpoints_own(app: Oncue) -> None:
    for name in ("orders", "invoices"):
        await app.webhooks.create(name, url="https://shop.example/hook")
    first, again = [await app.webhooks.deliver("orders", {"n": n}, key="42") for n in (1, 2)]
    other = await app.webhooks.deliver("invoices", key="42")
    assert (first.created, again.created, other.created) == (True, False, True)
    assert (await app.jobs.get(first.id)).key == "orders:42"


async def test_no_key_of_an_endpoint_is_one_of_another(app: Oncue) -> None:
    """A key may come from a user, and names of webhooks may have colons in them."""
    for name in ("a", "a:b", "a%3Ab", "https"):
        await app.webhooks.create(name, url="https://shop.example/")
    made = [
        await app.webhooks.deliver("a", key="b:c"),
        await app.webhooks.deliver("a:b", key="c"),
        await app.webhooks.deliver("a%3Ab", key="c"),
        await app.webhooks.deliver("https", key="//shop.example:443:c"),
        await app.adeliver("https://shop.example/", key="c"),
        await app.webhooks.deliver("a", key=lambda webhook, payload: "d"),
        await app.webhooks.deliver("a:b", key=lambda webhook, payload: "d"),
    ]
    assert all(receipt.created for receipt in made)
    assert not (await app.webhooks.deliver("a:b", key="d")).created
