"""What is refused is raised as the Python API raises it; what a client must not tell, it does not tell."""

from __future__ import annotations

import subprocess
import sys
import traceback
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from oncue import (
    ApiError,
    Client,
    ConfigError,
    Conflict,
    InvalidJob,
    InvalidSchedule,
    InvalidWebhook,
    JobNotFound,
    NewJob,
    NotAllowed,
    OncueError,
    ScheduleNotFound,
    UnknownTask,
    Unreachable,
    WebhookNotFound,
    cron,
)
from oncue.client import reading
from oncue.errors import TokenNotFound
from oncue.records.jobs import JobRecord
from oncue.records.nodes import LeaderRecord
from oncue.server.api import AccessMode
from tests.client.conftest import Aside, Shop, Site
from tests.client.proxy import Proxy
from tests.server.conftest import a_shop

SECRET = "oncue_abcdefgh_" + "s3cret" * 7 + "!"


def test_refusals_are_those_of_the_python_api(client: Client) -> None:
    first = client.enqueue("add", {"a": 1}, key="one", delay="1h").id
    client.jobs.cancel(first)
    holder = client.enqueue("add", {"a": 1}, key="one", delay="1h").id

    def refused(kind: type[OncueError], verb: Callable[..., Any], *args: Any, **options: Any) -> Any:
        with pytest.raises(kind) as caught:
            verb(*args, **options)
        assert type(caught.value) is kind
        return caught.value

    assert refused(InvalidJob, client.enqueue, "add", {"a": "x"}).field == "args.a"
    assert refused(InvalidJob, client.enqueue, "add", {"a": object()}).field == "args"
    assert refused(InvalidJob, client.enqueue, "add", {"a": 1}, at=datetime(2040, 1, 1)).field == "at"
    assert refused(InvalidJob, client.enqueue, "add", {"a": 1}, idempotency_key="a b").field == "idempotency_key"
    error = refused(InvalidJob, client.enqueue, "add", {"a": 1}, priority=500)
    assert (error.field, str(error)) == ("priority", "priority: expected at most 100, not 500")
    assert error.__notes__ == ["POST /api/admin/jobs was answered with 422"]
    rows = [NewJob("add", {"a": 1}), NewJob("add", {"a": 1}, priority=-1, max_retries=-1)]
    error = refused(InvalidJob, client.enqueue_many, rows)
    assert (error.field, "(and 1 more)" in str(error)) == ("jobs.1.priority", True)
    refused(UnknownTask, client.enqueue, "subtract")
    refused(UnknownTask, client.schedules.create, "s", "@daily", "subtract")
    refused(JobNotFound, client.jobs.get, 99)
    refused(JobNotFound, client.jobs.cancel, 99)
    refused(ScheduleNotFound, client.schedules.audit, "nightly")
    refused(TokenNotFound, client.tokens.revoke, "nobody")
    assert refused(Conflict, client.jobs.retry, first).job_id == holder
    error = refused(InvalidSchedule, client.schedules.create, "s", "0 3 * * 8-9", "report")
    assert (error.field, error.position) == ("expression", 9)
    assert refused(InvalidSchedule, client.schedules.create, "s", "@daily", "report", grace="soon").field == "grace"
    assert refused(InvalidJob, client.schedules.create, "s", "@daily", "report", priority=101).field == "priority"
    client.schedules.create("s", "@daily", "report")
    assert refused(InvalidSchedule, client.schedules.backfill, "s", "now", "-1d").field == "start"
    refused(Conflict, client.schedules.create, "s", "@daily", "report")
    assert refused(InvalidJob, client.queues.limit, "mail", globally=0).field == "globally"
    assert refused(InvalidJob, client.queues.pause, "mail", for_="10m").field == "for_"
    assert refused(InvalidJob, client.jobs.list, "failed").field == "states"
    missing = refused(ApiError, client.queues.get, "nowhere")
    assert (missing.status, missing.title) == (404, "There is no such thing")
    refused(WebhookNotFound, client.webhooks.get, "orders")
    refused(WebhookNotFound, client.webhooks.deliver, "orders", 7)
    refused(WebhookNotFound, client.webhooks.executions, "orders")
    refused(JobNotFound, client.webhooks.execution, 99)
    refused(JobNotFound, client.webhooks.retry, first)
    error = refused(InvalidWebhook, client.webhooks.create, "orders", url="http://10.0.0.7/")
    assert error.field == "url"
    client.webhooks.create("orders", url="https://shop.example/")
    refused(Conflict, client.webhooks.create, "orders", url="https://shop.example/")
    assert refused(InvalidWebhook, client.webhooks.change, "orders", headers={"X": "a\nb"}).field == "headers"
    assert refused(InvalidWebhook, client.webhooks.change, "orders", retry=["30s"] * 21).field == "retry"
    assert refused(InvalidWebhook, client.webhooks.deliver, "orders", "x" * 300_000).field == "payload"
    assert refused(InvalidJob, client.webhooks.deliver, "orders", priority=500).field == "priority"
    assert refused(InvalidJob, client.webhooks.pause, "orders", for_="soon").field == "for_"
    assert refused(InvalidWebhook, client.deliver, "https://shop.example/", timeout=90).field == "timeout"
    assert refused(InvalidJob, client.enqueue, "oncue.deliver", {"url": "https://shop.example/"}).field == "task"
    assert refused(InvalidSchedule, client.schedules.create, "t", "@daily", webhook="nowhere").field == "webhook"
    client.enqueue("add", {"a": 1}, idempotency_key="mine")
    assert refused(ApiError, client.enqueue, "add", {"a": 2}, idempotency_key="mine").status == 422


def test_tokens(shop: Shop, aside: Aside, sqlite_url: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(shop.url) as client:
        _, text = client.tokens.create("ci", ["enqueue"])
        with pytest.raises(NotAllowed) as caught:
            client.jobs.stats()
        assert (caught.value.status, caught.value.needed_scope) == (401, None)
        assert "oncue token create" in str(caught.value)
    monkeypatch.setenv("ONCUE_URL", shop.url)
    monkeypatch.setenv("ONCUE_TOKEN", text + "\n")
    with Client() as holder:
        assert holder.enqueue("add", {"a": 1}).created
        with pytest.raises(NotAllowed) as caught:
            holder.jobs.stats()
        assert (caught.value.status, caught.value.needed_scope) == (403, "read")
        assert text not in "".join(traceback.format_exception(caught.value)) + repr(holder)
    strict = Shop(aside, a_shop(sqlite_url, tmp_path), AccessMode.TOKEN)
    with Client(strict.url, token="") as stranger:
        assert stranger.health() == "ok"
        with pytest.raises(NotAllowed):
            stranger.ready()


def told(error: BaseException) -> str:
    """Everything that a curious error report tells, with what variables hold."""
    return "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())


def test_a_secret_is_not_repeated(shop: Shop, make_proxy: Callable[[str], Proxy]) -> None:
    proxy = make_proxy(shop.url)
    with Client(proxy.url, token=SECRET, patience=0) as client:
        with pytest.raises(NotAllowed) as caught:
            client.jobs.stats()
        proxy.swallow = 1
        with pytest.raises(Unreachable) as lost:
            client.jobs.stats()
        assert any(SECRET in head for head in proxy.heads)
        everything = told(caught.value) + told(lost.value) + repr(client)
    assert "s3cret" not in everything.replace(repr(SECRET), ""), "but for the test's own variable"
    for token in (f"{SECRET}\r\nX: y", f"{SECRET} ", "schlüssel"):
        with pytest.raises(ConfigError) as refused:
            Client(shop.url, token=f"{token}…")
        assert "s3cret" not in str(refused.value)
    with pytest.raises(ConfigError) as refused:
        Client("https://user:s3cret@jobs.example")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["", "jobs.example", "ftp://jobs.example", "http://", "http://x:port", "http://x?a=b", f"http://{64 * 'a'}"]
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(ConfigError, match="url: expected"):
        Client(url)


def test_addresses_and_seconds() -> None:
    assert repr(Client("https://jobs.example/oncue/")) == "<Client of https://jobs.example/oncue>"
    assert repr(Client("http://[::1]:8080")) == "<Client of http://[::1]:8080>"
    with pytest.raises(ConfigError, match="expected the address of an oncue server, here or in ONCUE_URL"):
        Client()
    with pytest.raises(ConfigError, match="timeout: expected"):
        Client("http://x", timeout=-1)


@pytest.mark.parametrize(
    ("answer", "status", "says"),
    [
        (HTMLResponse("<h1>It works!</h1>"), 200, "is this the address of an oncue server?"),
        (JSONResponse(["a"]), 200, "is this the address of an oncue server?"),
        (JSONResponse({"queued": 1}), 200, "Stats: running: expected, and not there"),
        (HTMLResponse("<h1>no\nsuch page</h1>", 404), 404, "not an answer of oncue: <h1>no such page</h1>"),
        (RedirectResponse("https://elsewhere.example/", 308), 308, "it leads to https://elsewhere.example/"),
        (Response(b"\xff", 500), 500, "not an answer of oncue"),
    ],
)
def test_somebody_else_answers(aside: Aside, answer: Response, status: int, says: str) -> None:
    with Client(Site(aside, answer).url) as client, pytest.raises(ApiError) as caught:
        client.jobs.stats()
    assert (caught.value.status, says in str(caught.value)) == (status, True), str(caught.value)


def test_newer_and_older_servers(client: Client) -> None:
    """What is not known is left out, what may be absent is None; states that nobody has heard of are told."""
    client.enqueue("add", {"a": 1})
    (job,) = client.jobs.list()
    document = {
        "id": 1, "uid": str(job.uid), "task": "add", "queue": "default", "priority": 0, "status": "dreaming",
        "args": {}, "enqueued_by": "me", "created_at": "2030-01-01T00:00:00Z", "updated_at": "2030-01-01T00:00:00Z",
        "visible_at": "2030-01-01T00:00:00Z", "max_retries": 3, "retry_count": 0, "attempts": 0, "colour": "red",
    }  # fmt: skip
    read = reading.record(JobRecord)(document)
    assert (read.state, read.finished, read.progress, read.crashes) == ("dreaming", False, None, 0)
    assert reading.record(LeaderRecord)({"name": None}).none_since is None
    with pytest.raises(reading.Unreadable, match="JobRecord: created_at: "):
        reading.record(JobRecord)({**document, "created_at": "soon"})
    with pytest.raises(reading.Unreadable, match="JobRecord: task: expected, and not there"):
        reading.record(JobRecord)({name: value for name, value in document.items() if name != "task"})


def test_a_client_brings_nothing_along() -> None:
    """Whoever talks to oncue over HTTP needs neither its web framework nor its database drivers."""
    code = (
        "import sys; from oncue import AsyncClient, Client, InvalidJob; Client('http://x'); AsyncClient('http://x');"
        "print({'fastapi', 'starlette', 'uvicorn', 'asyncpg', 'pydantic', 'sqlite3', 'typer', 'httpx', 'oncue.store',"
        "'oncue.engine', 'oncue.app'} & set(sys.modules))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout == "set()\n"


@pytest.mark.contract("SLOT-11")
def test_a_task_that_keeps_to_its_slots_is_refused(client: Client, shop: Shop) -> None:
    shop.app.task(name="brief", delivery="at_most_once", schedule=cron("0 0 1 1 *"))(lambda: None)
    for place, verb in (
        ("task", lambda: client.enqueue("brief")),
        ("jobs.0.task", lambda: client.enqueue_many([NewJob("brief")])),
    ):
        with pytest.raises(InvalidJob, match="`oncue trigger brief`") as refused:
            verb()
        assert refused.value.field == place
