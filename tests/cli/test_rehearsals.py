"""`oncue webhooks rehearse` and `test`, and the attempts of real deliveries as the shell shows them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from oncue import Oncue
from oncue.model import TERMINAL
from oncue.webhooks import verify
from tests.cli.conftest import HOOKS, Shell

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
LONG_LADDER = ",".join(["10s"] * 6)


class Receiver:
    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.url = ""
        self.echo = ""
        """The header that it sends back."""


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A server on this machine that answers as the test says, and 200 otherwise."""
    made = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.got.append((self.path, dict(self.headers.items()), body))
            self.send_response(made.statuses.pop(0) if made.statuses else 200)
            self.send_header("Retry-After", "7")
            self.end_headers()
            self.wfile.write(b"thank \x1byou" + self.headers.get(made.echo, "").encode())

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        made.url = f"http://127.0.0.1:{server.server_port}/hook?key=7"
        monkeypatch.setenv("ONCUE_WEBHOOKS_ALLOW", f"127.0.0.1/32:{server.server_port}")
        yield made
        server.shutdown()
        thread.join()


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch, database_url: str) -> str:
    monkeypatch.setenv("DATABASE_URL", database_url)
    return database_url


@pytest.fixture
def sqlite_hooks(monkeypatch: pytest.MonkeyPatch, sqlite_url: str) -> str:
    monkeypatch.setenv("DATABASE_URL", sqlite_url)
    return sqlite_url


def work_off(url: str) -> None:
    async def work() -> None:
        app = Oncue(url)
        async with app.worker():
            while not all(job.state in TERMINAL for job in await app.jobs.list()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await app.aclose()

    asyncio.run(work())


# --- rehearsals -----------------------------------------------------------------------------------------------------


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch, sqlite_url: str) -> None:
    """An application that declares webhooks, and no database."""
    monkeypatch.setenv("ONCUE_APP", HOOKS)
    monkeypatch.setenv("DATABASE_URL", sqlite_url)


def at(answer: Any) -> list[float]:
    return [step["at"] for step in answer.json["attempt_list"]]


@pytest.mark.contract("HOOK-2", "HOOK-3")
@pytest.mark.usefixtures("sqlite_hooks")
def test_the_ladder_of_the_contract(oncue: Shell) -> None:
    oncue("webhooks", "add", "plain", "--url", "https://shop.example/")
    answer = oncue("webhooks", "rehearse", "plain", "--status", "500", "--json")
    assert at(answer) == [0, 30, 150, 750]
    assert answer.json["status"] == "failed"
    shown = oncue("webhooks", "rehearse", "plain").out
    assert "as the database has it: retries after 30s, 2m, 10m" in shown
    for text in ("+0s", "+30s", "+2m30s", "+12m30s", "again in 30s", "last attempt", "ends as failed after 4 attempts"):
        assert text in shown
    assert oncue("jobs", "--json").json == [], "the database has no part in it"


@pytest.mark.contract("HOOK-3", "HOOK-4")
@pytest.mark.usefixtures("declared")
@pytest.mark.usefixtures("no_sqlite_file")
def test_a_webhook_of_the_code_needs_no_database(oncue: Shell) -> None:
    answer = oncue("webhooks", "rehearse", "orders", "--status", "timeout,network,204", "--json")
    assert answer.code == 0, answer.err
    assert at(answer) == [0, 30 + 10, 30 + 10 + 60], "a time-out takes 30 s, and the step counts from its end"
    assert [step["decision"] for step in answer.json["attempt_list"]] == ["retry", "retry", "delivered"]
    assert answer.json["status"] == "delivered"
    assert answer.err == ""
    assert not list(Path().glob("*.db"))


@pytest.mark.contract("HOOK-3")
@pytest.mark.usefixtures("declared")
@pytest.mark.parametrize(
    ("asked", "second", "why"),
    [
        ("120", 120, "Retry-After asks for 2m; the longer one counts"),
        ("5", 10, "Retry-After asks for 5s; the longer one counts"),
        ("7200", 3600, "Retry-After asks for more than 1h, and is capped there"),
        ("3600", 3600, "Retry-After asks for 1h; the longer one counts"),
        ("soon", 10, "Retry-After cannot be read"),
    ],
)
def test_retry_after(oncue: Shell, asked: str, second: float, why: str) -> None:
    answer = oncue("webhooks", "rehearse", "orders", "--status", "429,404", "--retry-after", asked, "--json")
    first, last = answer.json["attempt_list"]
    assert (first["at"], last["at"], last["decision"]) == (0, second, "failed")
    assert why in first["why"]
    assert "no retry helps" in last["why"]


@pytest.mark.contract("HOOK-3", "HOOK-19")
@pytest.mark.usefixtures("declared")
@pytest.mark.parametrize(
    ("status", "why"),
    [("302", "a redirect that is not followed"), ("410", "no retry helps"), ("refused", "the egress guard")],
)
def test_what_fails_at_once(oncue: Shell, status: str, why: str) -> None:
    (only,) = oncue("webhooks", "rehearse", "orders", "--status", status, "--json").json["attempt_list"]
    assert only["decision"] == "failed"
    assert why in only["why"]


@pytest.mark.usefixtures("sqlite_hooks")
def test_the_circuit_breaker_holds_the_next_attempt_back(oncue: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    oncue("webhooks", "add", "long", "--url", "https://shop.example/", "--retry", LONG_LADDER)
    answer = oncue("webhooks", "rehearse", "long", "--json")
    assert at(answer) == [0, 10, 20, 30, 40, 70, 130], "open for 30 s after five failures, then for a minute"
    assert "the circuit breaker opened" in answer.json["attempt_list"][4]["why"]
    assert "the circuit breaker" not in answer.json["attempt_list"][3]["why"]
    monkeypatch.setenv("ONCUE_WEBHOOKS_BREAKER", "0")
    assert at(oncue("webhooks", "rehearse", "long", "--json")) == [0, 10, 20, 30, 40, 50, 60]


@pytest.mark.usefixtures("sqlite_hooks")
def test_a_ladder_of_years_is_climbed_in_a_moment(oncue: Shell) -> None:
    oncue("webhooks", "add", "patient", "--url", "https://shop.example/", "--retry", "3650d,3650d")
    assert at(oncue("webhooks", "rehearse", "patient", "--json")) == [0, 3650 * 86400, 2 * 3650 * 86400]


@pytest.mark.usefixtures("declared")
def test_what_is_no_answer_is_refused(oncue: Shell) -> None:
    for wrong in ("", "99", "600", "late", "500,,200", ",".join(["500"] * 101)):
        answer = oncue("webhooks", "rehearse", "orders", "--status", wrong)
        assert answer.code == 2, wrong
        assert "--status" in answer.err


# --- one request, now -----------------------------------------------------------------------------------------------


@pytest.mark.contract("HOOK-19")
def test_a_test_delivery_shows_request_and_response(oncue: Shell, hooks: str, receiver: Receiver) -> None:
    oncue(
        "webhooks", "add", "orders", "--url", receiver.url, "--secret", SECRET,
        "--header", "Authorization: Bearer x7",
    )  # fmt: skip
    answer = oncue("webhooks", "test", "orders", "--payload", '{"order": 7}')
    assert answer.code == 0, answer.err
    ((path, headers, body),) = receiver.got
    assert (path, body, headers["Authorization"]) == ("/hook?key=7", b'{"order":7}', "Bearer x7")
    verify(body, headers, SECRET)
    for text in (
        f"POST {receiver.url}", "Authorization: (hidden)", "webhook-signature: (1 signature)", '{"order":7}',
        "delivered", "HTTP 200 from 127.0.0.1 in", r"thank \x1byou",
    ):  # fmt: skip
        assert text in answer.out
    assert "x7" not in answer.out
    assert headers["webhook-signature"] not in answer.out
    assert oncue("jobs", "--json").json == [], "nothing is written"
    machine = oncue("webhooks", "test", "orders", "--json").json
    assert (machine["outcome"], machine["request"]["signed"], machine["response"]["status"]) == ("delivered", True, 200)


@pytest.mark.contract("HOOK-19")
def test_a_test_delivery_to_an_endpoint_that_sends_headers_back_tells_no_secret(
    oncue: Shell, sqlite_hooks: str, receiver: Receiver
) -> None:
    add = ("webhooks", "add", "echo", "--url", receiver.url, "--header", "Authorization: Bearer t0p-s3cret")
    assert oncue(*add).code == 0
    receiver.echo = "Authorization"
    for more in ((), ("--json",)):
        shown = oncue("webhooks", "test", "echo", *more)
        assert shown.code == 0
        assert "t0p-s3cret" not in shown.out
        assert "you(hidden)" in shown.out


@pytest.mark.contract("HOOK-3")
def test_exit_code_4_if_it_was_not_delivered(oncue: Shell, sqlite_hooks: str, receiver: Receiver) -> None:
    oncue("webhooks", "add", "orders", "--url", receiver.url, "--disabled")
    receiver.statuses = [503, 404, 503]
    answer = oncue("webhooks", "test", "orders")
    assert answer.code == 4
    for text in ("not signed", "is disabled", "a worker would try again", "HTTP 503", "retry-after: 7"):
        assert text in answer.out
    answer = oncue("webhooks", "test", "orders")
    assert answer.code == 4
    assert "a worker would not try again" in answer.out
    assert oncue("webhooks", "test", "orders", "--json").code == 4


@pytest.mark.contract("HOOK-19")
def test_the_egress_guard_and_missing_secrets_hold_here_too(
    oncue: Shell, sqlite_hooks: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    oncue("webhooks", "add", "orders", "--url", receiver.url)
    oncue("webhooks", "add", "secret", "--url", receiver.url, "--secret", "env:ONCUE_SECRET_GONE")
    missing = oncue("webhooks", "test", "secret")
    assert missing.code == 2
    assert "ONCUE_SECRET_GONE" in missing.err
    monkeypatch.delenv("ONCUE_WEBHOOKS_ALLOW")
    refused = oncue("webhooks", "test", "orders", "--json")
    assert refused.code == 4
    assert refused.json["failed"] == "refused"
    assert receiver.got == []


@pytest.mark.usefixtures("declared")
def test_a_get_takes_no_payload(oncue: Shell) -> None:
    oncue("webhooks", "add", "ping", "--url", "https://shop.example/", "--method", "GET")
    answer = oncue("webhooks", "test", "ping", "--payload", "1")
    assert answer.code == 2
    assert "a GET has no body" in answer.err


# --- real deliveries ------------------------------------------------------------------------------------------------


@pytest.mark.contract("HOOK-9", "HOOK-10", "HOOK-16", "HOOK-22")
def test_attempts_are_shown_one_by_one_and_a_retry_is_a_new_execution(
    oncue: Shell, hooks: str, receiver: Receiver
) -> None:
    oncue("webhooks", "add", "orders", "--url", receiver.url, "--retry", "10ms")
    receiver.statuses = [404]
    made = oncue("webhooks", "deliver", "orders", "--payload", "1", "--json").json
    assert oncue("webhooks", "retry", made["id"]).code == 1, "it has not ended"
    work_off(hooks)
    shown = oncue("webhooks", "execution", made["id"], "--json").json
    (attempt,) = shown["attempt_list"]
    assert (shown["status"], attempt["status_code"], attempt["address"]) == ("failed", 404, "127.0.0.1")
    text = oncue("webhooks", "execution", made["id"]).out
    for part in ("failed", "404", "127.0.0.1", r"thank \x1byou"):
        assert part in text
    again = oncue("webhooks", "retry", made["id"], "--json").json
    assert (again["retry_of"], again["status"]) == (made["number"], "emitted")
    assert again["id"] != made["id"]
    work_off(hooks)
    statuses = {one["id"]: one["status"] for one in oncue("webhooks", "executions", "orders", "--json").json}
    assert statuses == {made["id"]: "failed", again["id"]: "delivered"}
    assert [headers["webhook-id"] for _, headers, _ in receiver.got] == [made["id"], again["id"]]
    assert "a retry of number" in oncue("webhooks", "retry", made["id"]).out
    assert "delivered" in oncue("webhooks", "show", "orders").out
