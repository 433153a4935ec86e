"""The doctor: what is found, what to do about it, and the exit code."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from oncue import Oncue
from oncue.doctor import checks, cluster, webhooks
from oncue.doctor.findings import Snapshot
from oncue.model import PARKED, HeldBack, Job, Lease, Queue, Token, Webhook
from oncue.settings import Settings
from oncue.store import SqliteStore
from tests.cli.conftest import Shell, on_database
from tests.store.scene import NOW, a_node, put, see

QUIET = Snapshot(now=NOW, nodes=[], queues=[], waiting=[], running=[], stranded=0, overdue=0)


def found(answer: Any) -> dict[str, str]:
    return {check["name"]: check["status"] for check in answer.json["checks"]}


def test_a_healthy_system(oncue: Shell, shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 51, 3))

    async def join(app: Oncue) -> None:
        connection = await app.internals.connected()
        now = connection.now()
        node = a_node(started_at=now, expires_at=now + timedelta(minutes=1))
        await connection.store.nodes.register(replace(node, queues=("default",), tasks=("add",)))

    on_database(shop, join)
    oncue("enqueue", "add", "a=1")
    answer = oncue("doctor", "--json")
    assert answer.code == 0
    wrong = {name: status for name, status in found(answer).items() if status != "ok" and name != "sqlite"}
    assert wrong == {}
    assert answer.json["settings"]["app"]["origin"] == "ONCUE_APP"
    assert oncue("doctor", "--all").out.count("default") > 10


def test_jobs_that_nobody_serves_fail_the_check(oncue: Shell, shop: str) -> None:
    oncue("enqueue", "add", "a=1", "--queue", "mail")
    answer = oncue("doctor", "--json")
    assert answer.code == 4
    assert answer.json["ok"] is False
    assert found(answer)["queues"] == "fail"
    shown = oncue("doctor")
    assert shown.code == 4
    assert "no live node serves mail (1 job)" in shown.out
    assert "oncue worker --queues mail" in shown.out


def test_an_unreachable_database_fails_the_check(oncue: Shell) -> None:
    answer = oncue("doctor", "--json", "--database-url", "postgresql://ada:s3cr3t@127.0.0.1:1/shop")
    assert answer.code == 4
    assert found(answer)["database"] == "fail"
    assert "s3cr3t" not in answer.out
    assert answer.json["settings"]["database_url"]["value"] == "postgresql://ada:***@127.0.0.1:1/shop"


def test_an_unmigrated_database_fails_the_check(oncue: Shell, empty_postgres: str) -> None:
    answer = oncue("doctor", "--json", "--database-url", empty_postgres)
    assert answer.code == 4
    assert found(answer)["schema"] == "fail"


@pytest.mark.usefixtures("no_sqlite_file")
def test_it_makes_no_database(oncue: Shell, sqlite_url: str) -> None:
    answer = oncue("doctor", "--json", "--database-url", sqlite_url)
    assert (answer.code, found(answer)["database"]) == (0, "warn")
    assert not Path(sqlite_url.removeprefix("sqlite:///")).exists()


@pytest.mark.usefixtures("no_sqlite_file")
def test_a_log_without_its_file_fails_the_check(oncue: Shell, sqlite_url: str) -> None:
    Path(sqlite_url.removeprefix("sqlite:///") + "-wal").write_bytes(b"jobs")
    answer = oncue("doctor", "--json", "--database-url", sqlite_url)
    assert (answer.code, found(answer)["file"]) == (4, "fail")
    assert "put the file back" in answer.out


def test_old_sqlite_is_warned_about() -> None:
    assert checks.sqlite_version((3, 51, 2)).status == "warn"
    assert checks.sqlite_version((3, 51, 3)).status == "ok"


@pytest.mark.parametrize(("seconds", "status"), [(0.5, "ok"), (-1.5, "ok"), (3, "warn"), (-86400, "warn")])
def test_clocks(seconds: float, status: str) -> None:
    assert checks.clock_difference(NOW + timedelta(seconds=seconds), NOW).status == status


def a_queue(name: str, *, queued: int = 0, paused_at: datetime | None = None) -> Queue:
    return Queue(name, paused_at, queued, 0, 0, 0, 0, 0, 0)


@pytest.fixture
def a_job(sqlite_store: SqliteStore, runner: asyncio.Runner) -> Job:
    async def made() -> Job:
        (job_id,) = await put(sqlite_store)
        return await see(sqlite_store, job_id)

    return runner.run(made())


def test_nodes_queues_and_tasks(a_job: Job) -> None:
    alive = replace(a_node(), queues=("default",), tasks=("send",))
    silent = replace(alive, name="beta", expires_at=NOW)
    assert checks.live_nodes(QUIET).status == "warn"
    assert checks.live_nodes(replace(QUIET, nodes=[alive])).status == "ok"
    assert checks.live_nodes(replace(QUIET, nodes=[alive, silent])).status == "warn"
    served = replace(QUIET, nodes=[alive], queues=[a_queue("default", queued=1)], waiting=[a_job])
    assert checks.unserved_queues(served).status == "ok"
    assert checks.unserved_queues(replace(served, queues=[a_queue("mail", queued=1)])).status == "fail"
    assert checks.unknown_tasks(served).status == "ok"
    unknown = checks.unknown_tasks(replace(served, waiting=[replace(a_job, task="gone")]))
    assert (unknown.status, unknown.detail) == ("fail", "no live node knows gone")
    assert checks.paused_queues(replace(QUIET, queues=[a_queue("mail", paused_at=NOW)])).status == "warn"


def test_stuck_things(a_job: Job) -> None:
    assert [check.status for check in checks.stuck(QUIET)] == ["ok"]
    assert [check.status for check in checks.stuck(replace(QUIET, stranded=2))] == ["fail"]
    assert [check.status for check in checks.stuck(replace(QUIET, stranded=2, nodes=[a_node()]))] == ["warn"]
    assert [check.status for check in checks.stuck(replace(QUIET, overdue=1))] == ["fail"]
    deaf = replace(a_job, state="running", cancel_requested_at=NOW - timedelta(minutes=2))
    assert [check.status for check in checks.stuck(replace(QUIET, running=[deaf]))] == ["warn"]
    old = replace(a_job, created_at=NOW - timedelta(hours=3), visible_at=NOW - timedelta(hours=2))
    (starving,) = checks.stuck(replace(QUIET, waiting=[old]))
    assert (starving.status, starving.detail) == ("warn", "1 job due for over an hour, the oldest for 2.0 h")


def test_who_leads() -> None:
    lease = Lease("leader", a_node().id, "alpha", 3, NOW, NOW, NOW + timedelta(seconds=15))
    soon, late = NOW + timedelta(minutes=5), NOW - timedelta(minutes=2)
    led, over = replace(QUIET, leader=lease), replace(QUIET, leader=replace(lease, expires_at=NOW))
    assert checks.leader(QUIET).status == checks.leader(led).status == "ok"
    assert checks.leader(replace(led, next_run=soon)).detail == "alpha leads; the next slot or day comes in 5.0 min"
    assert checks.leader(replace(over, next_run=soon)).status == "warn"
    found = checks.leader(replace(QUIET, next_run=late))
    assert (found.status, found.detail) == (
        "fail", "no node leads: a slot, or the day of a window's subject, has been due for 2.0 min",
    )  # fmt: skip
    behind = checks.leader(replace(led, next_run=late))
    assert (behind.status, behind.advice) == ("warn", checks.LATE_ADVICE)


def test_tokens_that_are_there_and_that_soon_are_not() -> None:
    lasting = Token("aaaaaaaa", "shop", "", ("read",), "ada", NOW)
    short = replace(lasting, id="bbbbbbbb", name="script", expires_at=NOW + timedelta(days=30))
    revoked = replace(lasting, revoked_at=NOW)

    def found(*tokens: Token) -> tuple[str, str]:
        check = checks.tokens(replace(QUIET, tokens=tokens))
        return check.status, check.detail

    assert found()[0] == "ok"
    assert "open on a loopback address" in found()[1]
    assert found(lasting, revoked) == ("ok", "1 token valid")
    assert found(lasting, short) == ("ok", "2 tokens valid; script (bbbbbbbb) is the next to expire, in 30.0 d")
    assert found(lasting, replace(short, expires_at=NOW + timedelta(days=6)))[0] == "warn"
    assert found(revoked, replace(short, expires_at=NOW)) == (
        "warn", "none of 2 tokens is valid: no request can use the API",
    )  # fmt: skip


def test_sessions_that_would_wait_for_ever_are_warned_about_with_the_way_to_change_it(
    oncue: Shell, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(oncue("doctor", "--json", "--database-url", postgres_url))["locks"] == "ok"
    monkeypatch.setenv("ONCUE_PG_PREPARE", "false")  # behind a pooler
    answer = oncue("doctor", "--json", "--database-url", postgres_url)
    (check,) = [check for check in answer.json["checks"] if check["name"] == "locks"]
    assert check["status"] == "warn"
    assert """alter role "postgres" set lock_timeout = '2s'""" in check["advice"]
    assert """alter role "postgres" set idle_in_transaction_session_timeout = '15s'""" in check["advice"]
    assert not checks.pooler(found=False)
    assert "ONCUE_PG_PREPARE=false" in str(checks.pooler(found=True)[0].advice)
    assert checks.session_limits("o", 2000, 0).detail.count("no ") == 1


# --- webhooks -------------------------------------------------------------------------------------------------------


def a_webhook(name: str = "orders", **fields: Any) -> Webhook:
    made = Webhook(
        1, name, "", "https://shop.example/hook", "POST", {}, "application/json", None, 30.0, (), "{}", 0, None, None,
        True, None, None, 1, "tests", NOW, NOW,
    )  # fmt: skip
    return replace(made, **fields)


def about_webhooks(
    snapshot: Snapshot, environ: dict[str, str] | None = None, **settings: Any
) -> dict[str, tuple[str, str]]:
    answers = webhooks.checked(snapshot, Settings(**settings), environ or {})
    return {check.name: (check.status, f"{check.detail} -> {check.advice}") for check in answers}


@pytest.mark.contract("HOOK-18")
def test_webhooks_that_no_worker_serves() -> None:
    deliver = replace(a_node(), queues=("default", "webhooks"), expires_at=NOW + timedelta(minutes=1))
    assert about_webhooks(QUIET) == {}, "there are none"
    alone = replace(QUIET, webhooks=(a_webhook(),))
    status, text = about_webhooks(alone)["webhooks"]
    assert (status, "no live node serves webhooks" in text) == ("warn", True)
    waiting = replace(alone, queues=[a_queue("webhooks", queued=3)])
    status, text = about_webhooks(waiting)["webhooks"]
    assert (status, "1 webhook, 3 deliveries waiting" in text) == ("fail", True)
    served = replace(waiting, nodes=[deliver])
    assert about_webhooks(served)["webhooks"][0] == "ok"


@pytest.mark.contract("WIN-17")
def test_a_webhook_for_alerts_that_is_not_there() -> None:
    told = about_webhooks(QUIET, alert_webhook="pager")["alerts"]
    assert told == (
        "warn", "warnings are not delivered: the webhook pager does not exist -> "
        "`oncue webhooks add pager --url URL`, or name another one in ONCUE_ALERT_WEBHOOK",
    )  # fmt: skip
    disabled = replace(QUIET, alert_webhook=a_webhook("pager", enabled=False))
    assert "the webhook pager is disabled" in about_webhooks(disabled, alert_webhook="pager")["alerts"][1]
    there = replace(QUIET, alert_webhook=a_webhook("pager"))
    assert "alerts" not in about_webhooks(there, alert_webhook="pager")
    assert "alerts" not in about_webhooks(QUIET, alert_webhook="https://pager.example/x")


def test_the_doctor_looks_for_the_webhook_of_alerts(oncue: Shell, shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCUE_ALERT_WEBHOOK", "pager")
    oncue("enqueue", "add", "a=1")
    assert found(oncue("doctor", "--json"))["alerts"] == "warn"
    assert oncue("webhooks", "add", "pager", "--url", "https://pager.example/x").code == 0
    assert "alerts" not in found(oncue("doctor", "--json"))


def test_variables_and_files_that_webhooks_need() -> None:
    snapshot = replace(
        QUIET,
        webhooks=(
            a_webhook(secrets=("env:ONCUE_SECRET_A", "whsec_hidden"), headers={"X": "env:ONCUE_SECRET_B"}),
            a_webhook("bank", ca="bank.pem", certificate="us.pem"),
        ),
    )
    told = about_webhooks(snapshot, {"ONCUE_SECRET_A": "whsec_x"})
    assert "ONCUE_SECRET_B (orders)" in told["secrets"][1]
    assert "ONCUE_SECRET_A" not in told["secrets"][1]
    assert "whsec" not in str(told)
    assert "ONCUE_WEBHOOKS_TLS_DIR is not set: bank.pem (bank), us.pem (bank)" in told["tls"][1]
    assert "secrets" not in about_webhooks(snapshot, {"ONCUE_SECRET_A": "x", "ONCUE_SECRET_B": "y"})


@pytest.mark.contract("HOOK-19")
def test_the_directory_of_tls_files(tmp_path: Path) -> None:
    snapshot = replace(QUIET, webhooks=(a_webhook("bank", ca="bank.pem"),))
    assert about_webhooks(snapshot, webhooks_tls_dir=str(tmp_path / "absent"))["tls"][0] == "fail"
    assert "not in" in about_webhooks(snapshot, webhooks_tls_dir=str(tmp_path))["tls"][1]
    (tmp_path / "bank.pem").write_text("a certificate")
    assert "tls" not in about_webhooks(snapshot, webhooks_tls_dir=str(tmp_path))


@pytest.mark.contract("HOOK-19")
@pytest.mark.parametrize(
    ("allow", "warned"),
    [
        ("10.1.0.0/16", ""), ("10.1.2.3:8443", ""), ("127.0.0.1:9000", "loopback (127.0.0.1/32, port 9000)"),
        ("::1", "loopback"), ("169.254.169.254", "link-local"), ("0.0.0.0/0", "loopback"), ("fe80::/10", "link-local"),
    ],
)  # fmt: skip
def test_exceptions_that_hardly_any_webhook_needs(allow: str, warned: str) -> None:
    told = about_webhooks(QUIET, webhooks_allow=allow)
    assert bool(told) == bool(warned)
    assert not warned or warned in told["egress"][1]


def test_open_breakers_and_paused_groups() -> None:
    orders = HeldBack("webhooks", "orders", 3, NOW + timedelta(minutes=2))
    probing = HeldBack("webhooks", "bank", 1, NOW - timedelta(seconds=1))
    held = HeldBack("mail", "tenant:7", 0, PARKED)
    snapshot = replace(QUIET, held_back=(orders, probing, held))
    status, text = about_webhooks(snapshot)["breakers"]
    assert status == "warn"
    assert text.startswith("2 circuit breakers are open, deliveries wait: orders (trip 3, next probe in ")
    assert "bank (trip 1, a probe may go out)" in text
    paused = checks.paused_queues(snapshot)
    assert (paused.status, paused.detail) == ("warn", "1 group paused: tenant:7 of mail")
    many = replace(QUIET, held_back=tuple(held._replace(name=f"t{number}") for number in range(9)))
    assert checks.paused_queues(many).detail.endswith("t4 of mail and 4 more")


def test_the_doctor_sees_webhooks_and_takes_secrets_for_no_settings(
    oncue: Shell, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCUE_SECRET_ORDERS", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    monkeypatch.setenv("ONCUE_REDIS_URL", "redis://me:hunter2@cache:6379/0")

    async def make(app: Oncue) -> None:
        await app.webhooks.create("orders", url="https://shop.example/hook", secrets="env:ONCUE_SECRET_OTHER")
        now = (await app.internals.connected()).now()
        store = (await app.internals.connected()).store
        await store.groups.trip("webhooks", "orders", 0, 1, now + timedelta(minutes=5), now)

    on_database(shop, make)
    answer = oncue("doctor", "--json")
    told = found(answer)
    assert (told["webhooks"], told["secrets"], told["breakers"]) == ("warn", "warn", "warn")
    assert "environment" not in told
    assert "ONCUE_SECRET_OTHER (orders)" in answer.out
    assert "hunter2" not in answer.out + oncue("doctor", "--all").out


@pytest.mark.contract("CLUS-12", "CLUS-15")
def test_cluster_jobs_that_no_leader_decides(a_job: Job) -> None:
    assert cluster.checked(QUIET) == []
    job = replace(a_job, address="cluster", queue="cluster", visible_at=NOW)
    (check,) = cluster.checked(replace(QUIET, waiting=[job]))
    assert (check.status, check.detail) == ("fail", f"no node leads, and 1 cluster job waiting: {job.id}")
    (check,) = cluster.checked(replace(QUIET, waiting=[job], nodes=[a_node()]))
    assert check.status == "warn"
    led = Lease("leader", a_node().id, "alpha", 1, NOW, NOW, NOW + timedelta(seconds=9))
    assert [check.status for check in cluster.checked(replace(QUIET, waiting=[job], leader=led))] == ["ok"]
    later = replace(job, visible_at=NOW + timedelta(hours=1))
    assert cluster.checked(replace(QUIET, waiting=[later])) == []


def test_what_holds_up_the_queue_of_cluster_jobs() -> None:
    nodes = [replace(a_node(name), queues=("cluster",)) for name in ("alpha", "beta")]

    def details(**fields: Any) -> list[str]:
        queue = replace(a_queue("cluster"), **fields)
        return [check.detail for check in cluster.checked(replace(QUIET, nodes=nodes, queues=[queue]))]

    assert details() == details(global_limit=2) == []
    assert "1 job of the queue cluster may run at once, and 2 nodes serve it" in details(global_limit=1)[0]
    assert "the queue cluster is paused" in details(paused_at=NOW)[0]
    assert "begins 1/s jobs at most" in details(rate="1/s")[0]
