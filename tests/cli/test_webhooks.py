"""Webhooks in the shell: making, changing and looking at them, on each back end."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from oncue.cli.actor import actor
from oncue.webhooks import sign, verify
from tests.cli.conftest import HOOKS, Shell, on_database

URL = "https://shop.example/hook"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NEWER = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
SIMPLE = ["webhooks", "add", "orders", "--url", URL]


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch, database_url: str) -> str:
    """A database on each back end, without an application."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    return database_url


@pytest.fixture
def sqlite_hooks(monkeypatch: pytest.MonkeyPatch, sqlite_url: str) -> str:
    monkeypatch.setenv("DATABASE_URL", sqlite_url)
    return sqlite_url


def stored_secrets(url: str, name: str = "orders") -> tuple[str, ...]:
    async def read(app):  # type: ignore[no-untyped-def]
        return (await app.webhooks.get(name)).secrets

    found: tuple[str, ...] = on_database(url, read)
    return found


# --- looking --------------------------------------------------------------------------------------------------------


def test_an_empty_list_says_what_to_do_next(oncue: Shell, hooks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    oncue("migrate")
    assert "There are no webhooks yet." in oncue("webhooks").out
    assert "oncue webhooks add NAME --url URL" in oncue("webhooks").out
    assert oncue("webhooks", "--json").json == []
    assert "There are no executions yet." in oncue("webhooks", "executions").out
    assert oncue("webhooks", "executions", "--json").json == []
    monkeypatch.setenv("ONCUE_APP", HOOKS)
    assert oncue("webhooks").out == (
        "The application declares nightly, orders: the next worker that starts makes it so.\n"
    )
    assert oncue("schedules").out.startswith("The application declares nightly:")


def test_what_is_not_there_is_not_found(oncue: Shell, hooks: str) -> None:
    oncue("migrate")
    for typed in (
        ["show", "x"], ["edit", "x", "--timeout", "5s"], ["remove", "x"], ["enable", "x"], ["disable", "x"],
        ["pause", "x"], ["resume", "x"], ["deliver", "x"], ["executions", "x"], ["execution", "7"], ["retry", "7"],
        ["test", "x"], ["rehearse", "x"],
    ):  # fmt: skip
        answer = oncue("webhooks", *typed)
        assert answer.code == 3, (typed, answer.err)


@pytest.mark.usefixtures("no_sqlite_file")
def test_a_look_at_the_wrong_folder_makes_no_database(oncue: Shell, sqlite_hooks: str) -> None:
    for typed in ([], ["show", "x"], ["executions"], ["test", "x"], ["rehearse", "x"], ["remove", "x"]):
        answer = oncue("webhooks", *typed)
        assert answer.code == 3, typed
        assert "no database" in answer.err
    assert not list(Path().glob("*.db"))


def test_a_list_goes_on_after_a_name(oncue: Shell, sqlite_hooks: str) -> None:
    for name in "abc":
        oncue("webhooks", "add", name, "--url", URL)
    assert "There may be more: --after b" in oncue("webhooks", "--limit", "2").out
    assert [one["name"] for one in oncue("webhooks", "--after", "b", "--json").json] == ["c"]
    assert "No webhook comes after that name." in oncue("webhooks", "--after", "z").out


# --- making and changing --------------------------------------------------------------------------------------------


@pytest.mark.contract("HOOK-2", "HOOK-4", "HOOK-19")
def test_making_one_with_everything(oncue: Shell, hooks: str) -> None:
    answer = oncue(
        *SIMPLE, "--method", "put", "--header", "X-Shop: 7", "-H", "Authorization: env:ONCUE_SECRET_TOKEN",
        "--content-type", "text/plain", "--body", "order {{payload.order}}", "--timeout", "10s", "--secret", SECRET,
        "--secret", "env:ONCUE_SECRET_ORDERS", "--retry", "5s, 1m", "--redirects", "2", "--ca", "own.pem",
        "--certificate", "client.pem", "--description", "orders that were paid", "--disabled", "--json",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    made = answer.json
    assert (made["method"], made["content_type"], made["body"]) == ("PUT", "text/plain", "order {{payload.order}}")
    assert made["headers"] == {"X-Shop": "(hidden)", "Authorization": "env:ONCUE_SECRET_TOKEN"}
    assert (made["timeout"], made["retry"], made["redirects"]) == (10.0, [5.0, 60.0], 2)
    assert (made["ca"], made["certificate"], made["description"]) == ("own.pem", "client.pem", "orders that were paid")
    assert made["secrets"][1] == "env:ONCUE_SECRET_ORDERS"
    assert (made["enabled"], made["reason"], made["created_by"]) == (False, "by_hand", actor())
    assert oncue("webhooks", "--json").json == [made]
    everything = oncue("webhooks", "show", "orders")
    shown = everything.out + oncue("webhooks", "show", "orders", "--json").out + oncue("audit-log", "--json").out
    assert SECRET not in shown + answer.out
    assert SECRET[8:20] not in shown
    for text in ("PUT https://shop.example/hook", "X-Shop: (hidden)", "at most 2 are followed", "5s, 1m", "own.pem"):
        assert text in everything.out


def test_the_next_step_is_told(oncue: Shell, sqlite_hooks: str) -> None:
    assert oncue(*SIMPLE).out == ("webhook orders is made.\n`oncue webhooks test orders` sends it one request now.\n")
    assert oncue(*SIMPLE).code == 1, "the name is taken"
    assert "`oncue webhooks deliver orders` makes one" in oncue("webhooks", "show", "orders").out
    assert "none: its requests are not signed" in oncue("webhooks", "show", "orders").out


@pytest.mark.contract("HOOK-4")
@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["--timeout", "61s"], "timeout: expected 1 to 60 seconds"),
        (["--timeout", "soon"], "--timeout"),
        (["--retry", "30s,soon"], "--retry"),
        (["--retry", ""], "--retry"),
        (["--header", "Authorization Bearer hunter2"], "header 1: expected 'Name: value'"),
        (["--header", "Host: x"], "headers: Host"),
        (["--header", "A: hunter2", "--header", "a: y"], "a is there twice"),
        (["--secret", "hunter2"], "secrets: secret 1: expected `whsec_`"),
        (["--secret", "env:DATABASE_URL"], "secrets: secret 1"),
        (["--method", "BREW"], "method: expected one of"),
        (["--redirects", "9"], "redirects: expected"),
        (["--body", "{{nonsense}}"], "body: "),
        (["--body", "x", "--body-file", "y"], "either --body or --body-file"),
        (["--body-file", "nowhere.txt"], "--body-file"),
        (["--ca", "../etc/passwd"], "ca: expected the name of a file"),
        (["--url", "http://127.0.0.1/"], "url: http://127.0.0.1:80 is a loopback address"),
        (["--url", "ftp://shop.example/"], "url: expected a URL that begins with https://"),
    ],
)
def test_what_is_wrong_is_named_and_no_secret_repeated(
    oncue: Shell, sqlite_hooks: str, typed: list[str], said: str
) -> None:
    answer = oncue(*SIMPLE, *typed)
    assert answer.code == 2, answer.err
    assert said in " ".join(answer.err.split())
    assert "hunter2" not in answer.err


def test_secrets_and_bodies_come_from_elsewhere(
    oncue: Shell, sqlite_hooks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{NEWER}\n{SECRET}\n"))
    Path("body.json").write_text('{"order": {{payload.order}}}')
    made = oncue(*SIMPLE, "--secret", "-", "--body-file", "body.json", "--json").json
    assert stored_secrets(sqlite_hooks) == (NEWER, SECRET)
    assert made["body"] == '{"order": {{payload.order}}}'
    assert oncue("webhooks", "add", "other", "--url", URL, "--secret", "-").code == 2, "there is nothing more"
    assert "history" in " ".join(oncue("webhooks", "add", "--help").out.split())


@pytest.mark.contract("HOOK-19")
def test_changing_one_keeps_what_is_not_given(oncue: Shell, hooks: str) -> None:
    oncue(*SIMPLE, "--header", "X-Shop: 7", "--header", "X-Other: 8", "--ca", "own.pem", "--body", "{}")
    changed = oncue(
        "webhooks", "edit", "orders", "--url", "https://new.example/", "--header", "x-shop: 9", "--remove-header",
        "X-OTHER", "--ca", "none", "--no-body", "--retry", "1s",
    )  # fmt: skip
    assert changed.out == "webhook orders is changed.\n"
    shown = oncue("webhooks", "show", "orders", "--json").json
    assert (shown["url"], shown["ca"], shown["body"], shown["retry"]) == ("https://new.example/", None, None, [1.0])
    assert list(shown["headers"]) == ["x-shop"]
    assert shown["version"] == 2
    again = oncue("webhooks", "edit", "orders", "--url", "https://new.example/")
    assert again.out == "webhook orders is as it was: nothing was changed.\n"
    assert oncue("webhooks", "edit", "orders").code == 2, "nothing is given"
    assert oncue("webhooks", "edit", "orders", "--remove-header", "X-Gone").code == 2
    assert oncue("webhooks", "edit", "orders", "--body", "{}", "--no-body").code == 2


@pytest.mark.contract("HOOK-19")
def test_a_secret_is_replaced_without_a_gap(oncue: Shell, sqlite_hooks: str) -> None:
    """Add the new one, hand it to the receiver, then drop the old one by its fingerprint."""
    oncue(*SIMPLE, "--secret", SECRET)
    fingerprint = oncue("webhooks", "show", "orders", "--json").json["secrets"][0].split()[-1]
    oncue("webhooks", "edit", "orders", "--add-secret", NEWER)
    assert stored_secrets(sqlite_hooks) == (NEWER, SECRET)
    assert oncue("webhooks", "edit", "orders", "--drop-secret", "00000000").code == 2
    assert oncue("webhooks", "edit", "orders", "--drop-secret", fingerprint).code == 0
    assert stored_secrets(sqlite_hooks) == (NEWER,)
    oncue("webhooks", "edit", "orders", "--secret", "env:ONCUE_SECRET_ORDERS")
    assert stored_secrets(sqlite_hooks) == ("env:ONCUE_SECRET_ORDERS",)
    again = oncue("webhooks", "edit", "orders", "--add-secret", "env:ONCUE_SECRET_ORDERS")
    assert "nothing was changed" in again.out, "the same secret twice would sign twice"
    assert stored_secrets(sqlite_hooks) == ("env:ONCUE_SECRET_ORDERS",)


def test_words_of_the_shell_for_mistakes_in_the_shell(oncue: Shell, sqlite_hooks: str) -> None:
    oncue(*SIMPLE)
    nothing = oncue("webhooks", "edit", "orders")
    assert (nothing.code, "expected what to change, such as --url or --timeout" in nothing.err) == (2, True)
    for verb in ("execution", "retry"):
        odd, gone = oncue("webhooks", verb, "seven"), oncue("webhooks", verb, "99")
        assert (odd.code, "UID: expected the number of an execution or its uid" in odd.err) == (2, True), odd.err
        assert (gone.code, "there is no execution 99" in gone.err) == (3, True), gone.err


def test_an_application_of_webhooks_alone_is_one(
    oncue: Shell, sqlite_hooks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCUE_APP", "tests.cli.hooks:app")
    told = {check["name"]: (check["status"], check["detail"]) for check in oncue("doctor", "--json").json["checks"]}
    assert told["application"] == ("ok", "tests.cli.hooks:app declares 2 webhooks")


def test_the_help_names_the_commands_that_there_are(oncue: Shell) -> None:
    """The first sentence is what `oncue --help` shows."""
    told = " ".join(re.sub(r"[│╭╰─╮╯]", " ", oncue("webhooks", "--help").out).split())
    named = re.findall(r"`(\w+)`", told.partition("Options")[0])
    assert named
    assert [name for name in named if oncue("webhooks", name, "--help").code] == []


def test_enabling_disabling_pausing_resuming_deleting(oncue: Shell, hooks: str) -> None:
    oncue(*SIMPLE)
    assert oncue("webhooks", "disable", "orders").out == (
        "webhook orders is disabled.\n"
        "It is disabled: its deliveries are skipped until `oncue webhooks enable orders`.\n"
    )
    assert "disabled: by_hand" in oncue("webhooks").out
    assert oncue("webhooks", "enable", "orders").out == "webhook orders is enabled.\n"
    assert oncue("webhooks", "enable", "orders").out == "webhook orders was enabled already.\n"
    assert "until `oncue webhooks resume orders`" in oncue("webhooks", "pause", "orders").out
    assert "paused" in oncue("webhooks").out
    assert oncue("webhooks", "resume", "orders").out == "webhook orders is resumed: what waits is sent\n"
    assert "is paused for 10m: " in oncue("webhooks", "pause", "orders", "--for", "10m").out
    assert "paused, opens in 10" in oncue("webhooks").out
    assert oncue("webhooks", "show", "orders", "--json").json["endpoint"]["paused_until"] is not None
    assert oncue("webhooks", "pause", "orders", "--until", "2999-01-01T00:00:00Z", "--json").json["paused"] is True
    assert oncue("webhooks", "pause", "orders", "--for", "1m", "--until", "2999-01-01T00:00:00Z").code == 2
    assert "webhook orders is deleted." in oncue("webhooks", "remove", "orders").out
    assert oncue("webhooks", "show", "orders").code == 3
    actions = [entry["action"] for entry in oncue("audit-log", "--subject", "webhook:orders", "--json").json]
    assert actions == ["webhook.delete", "webhook.toggle", "webhook.toggle", "webhook.create"]


def test_an_open_circuit_breaker_is_told(oncue: Shell, sqlite_hooks: str) -> None:
    oncue(*SIMPLE)

    async def trip(app):  # type: ignore[no-untyped-def]
        connected = await app.internals.connected()
        now = connected.now()
        assert await connected.store.groups.trip("webhooks", "orders", 0, 1, now.replace(year=2999), now)

    on_database(sqlite_hooks, trip)
    assert "circuit breaker open (trip 1), next probe in" in oncue("webhooks").out
    assert "circuit breaker open (trip 1), next probe in" in oncue("queues", "groups", "webhooks").out
    assert oncue("webhooks", "show", "orders", "--json").json["endpoint"]["trips"] == 1
    oncue("webhooks", "pause", "orders")
    assert "paused, circuit breaker open (trip 1)" in oncue("webhooks").out
    doctor = " ".join(oncue("doctor").out.split())
    assert "1 group paused: orders of webhooks" in doctor, "nothing is tried by itself"
    assert "circuit breaker is open" not in doctor
    resumed = oncue("webhooks", "resume", "orders").out
    assert resumed == "webhook orders is resumed: what waits is sent\n"


@pytest.mark.contract("HOOK-19")
def test_a_fresh_secret_signs(oncue: Shell) -> None:
    from datetime import UTC, datetime

    first, second = (oncue("webhooks", "secret").out.strip() for _ in range(2))
    assert first != second
    now = datetime(2030, 1, 1, tzinfo=UTC)
    verify(b"{}", sign(first, "id", now, b"{}"), first, now=now)


# --- schedules ------------------------------------------------------------------------------------------------------


@pytest.mark.contract("HOOK-1")
def test_a_schedule_delivers_to_a_webhook(oncue: Shell, hooks: str) -> None:
    oncue(*SIMPLE, "--retry", "1s,2s")
    answer = oncue("schedules", "add", "hourly", "@hourly", "--webhook", "orders", 'payload={"a": 1}', "--json")
    assert answer.code == 0, answer.err
    made = answer.json
    assert (made["target"], made["args"]) == ("oncue.deliver", {"webhook": "orders", "payload": {"a": 1}})
    assert (made["max_instances"], made["grace"]) == (100, 86400.0)
    assert " webhook orders " in oncue("schedules").out
    oncue("trigger", "hourly")
    (execution,) = oncue("webhooks", "executions", "orders", "--json").json
    assert (execution["webhook"], execution["schedule"], execution["status"]) == ("orders", "hourly", "emitted")
    assert oncue("webhooks", "remove", "orders").code == 1, "the schedule has it as its target"


def test_a_schedule_that_delivers_is_edited_without_an_application(oncue: Shell, sqlite_hooks: str) -> None:
    oncue(*SIMPLE)
    oncue("schedules", "add", "hourly", "@hourly", "--webhook", "orders")
    edited = oncue("schedules", "edit", "hourly", 'payload={"a": 2}', "--expression", "@daily", "--json")
    assert edited.code == 0, edited.err
    assert (edited.json["args"], edited.json["cron_expression"]) == (
        {"webhook": "orders", "payload": {"a": 2}},
        "@daily",
    )
    assert oncue("schedules", "edit", "hourly", "--task", "note").code == 2, "that needs an application"


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        (["--webhook", "gone"], 3),
        (["note", "--webhook", "orders"], 2),
        (["--webhook", "orders", "--max-retries", "3"], 2),
        (["--webhook", "orders", "--queue", "mail"], 2),
        (["--webhook", "orders", "text=x"], 2),
        ([], 2),
    ],
)
def test_a_schedule_has_one_target(oncue: Shell, sqlite_hooks: str, typed: list[str], code: int) -> None:
    oncue(*SIMPLE)
    answer = oncue("schedules", "add", "hourly", "@hourly", *typed)
    assert answer.code == code, answer.err


# --- deliveries -----------------------------------------------------------------------------------------------------


@pytest.mark.contract("HOOK-16", "HOOK-22")
def test_deliveries_and_their_executions(oncue: Shell, hooks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    oncue(*SIMPLE)
    first = oncue("webhooks", "deliver", "orders", "--payload", '{"order": 7}', "--json").json
    assert first["created"] is True
    monkeypatch.setattr("sys.stdin", io.StringIO('["from stdin"]'))
    second = oncue("webhooks", "deliver", "orders", "--payload", "-", "--delay", "1h", "--key", "k", "--json").json
    same = oncue("webhooks", "deliver", "orders", "--key", "k", "--json").json
    assert (same["id"], same["created"]) == (second["id"], False)
    assert "nothing written" in oncue("webhooks", "deliver", "orders", "--key", "k").out
    Path("payload.json").write_text("[1]")
    bare = oncue("webhooks", "deliver", "--url", "https://other.example/in", "--payload-file", "payload.json").out
    assert "is made: `oncue webhooks execution" in bare
    listed = oncue("webhooks", "executions", "--json").json
    assert [(one["webhook"], one["url"]) for one in listed] == [
        (None, "https://other.example/in"), ("orders", None), ("orders", None),
    ]  # fmt: skip
    assert [one["id"] for one in oncue("webhooks", "executions", "orders", "--json").json] == [
        second["id"], first["id"],
    ]  # fmt: skip
    assert len(oncue("webhooks", "executions", "https://other.example/else", "--json").json) == 1
    assert len(oncue("webhooks", "executions", "--status", "emitted", "--json").json) == 3
    assert oncue("webhooks", "executions", "--status", "delivered", "--json").json == []
    assert "No execution matches." in oncue("webhooks", "executions", "--status", "failed").out
    assert oncue("webhooks", "executions", "--status", "lost").code == 2
    shown = oncue("webhooks", "execution", first["id"], "--json").json
    assert (shown["payload"], shown["attempt_list"], shown["status"]) == ({"order": 7}, [], "emitted")
    assert "No attempt has started." in oncue("webhooks", "execution", str(first["number"])).out
    assert "orders" in oncue("webhooks", "executions").out
    assert "There may be more: --before" in oncue("webhooks", "executions", "--limit", "1").out


def test_how_a_delivery_is_asked_for(oncue: Shell, sqlite_hooks: str) -> None:
    oncue(*SIMPLE)
    for typed in (
        [], ["orders", "--url", URL], ["orders", "--header", "A: b"], ["orders", "--payload", "{"],
        ["orders", "--payload", "1", "--payload-file", "x"], ["--url", URL, "--secret", SECRET],
        ["--url", URL, "--header", "Authorization: Bearer hunter2"], ["orders", "--delay", "soon"],
    ):  # fmt: skip
        answer = oncue("webhooks", "deliver", *typed)
        assert answer.code == 2, (typed, answer.err)
        assert "hunter2" not in answer.err
    assert oncue("webhooks", "executions", "--json").json == []


def test_what_code_declares_is_delivered_before_a_worker_has_started(
    oncue: Shell, sqlite_hooks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    oncue("migrate")
    monkeypatch.setenv("ONCUE_APP", HOOKS)
    assert oncue("webhooks", "deliver", "orders", "--payload", "1").code == 0
    assert oncue("webhooks", "executions", "orders", "--json").json[0]["webhook"] == "orders"


def test_a_job_that_is_no_delivery_is_no_execution(oncue: Shell, sqlite_shop: str) -> None:
    oncue("enqueue", "add", "a=1")
    for verb in ("execution", "retry"):
        answer = oncue("webhooks", verb, "1")
        assert answer.code == 3
        assert "no execution" in answer.err
    assert oncue("webhooks", "execution", "what").code == 2


def test_the_json_of_a_listing_is_that_of_the_api(oncue: Shell, sqlite_hooks: str) -> None:
    oncue(*SIMPLE)
    shown = oncue("webhooks", "show", "orders", "--json").json
    assert json.dumps(shown)
    assert shown.keys() - oncue("webhooks", "--json").json[0].keys() == {"endpoint", "execution_list"}


@pytest.mark.contract("HOOK-2")
def test_a_webhook_without_retries(hooks: str, oncue: Shell) -> None:
    oncue("webhooks", "add", "once", "--url", URL, "--retry", "none")
    assert oncue("webhooks", "show", "once", "--json").json["retry"] == []
    assert "none" in oncue("webhooks", "show", "once").out
