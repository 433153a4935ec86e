"""`oncue serve` answers and does nothing else; `oncue run` answers and works."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import urllib.error
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from oncue import Oncue
from oncue.server import address
from oncue.server.address import CannotListen, ListenAddress
from tests import postgres
from tests.cli.conftest import SHOP, Process, Shell, Start, on_database
from tests.cli.test_worker import enqueue, free_address, get, job, make_database


def ready(where: str) -> tuple[int, dict[str, Any]]:
    status, body = get(where, "/health/ready")
    return status, json.loads(body)


def until_ready(process: Process, where: str) -> dict[str, Any]:
    """What a process tells once it is ready; the database may be slow to answer."""
    found: tuple[int, dict[str, Any]] = process.until(lambda: told if (told := ready(where))[0] == 200 else None)
    return found[1]


def add_schedule(url: str) -> None:
    async def added(app: Oncue) -> None:
        from tests.cli.shop import app as shop

        app.internals.tasks.update(shop.tasks)
        await app.schedules.create("every second", "* * * * * *", "add", {"a": 1})

    on_database(url, added)


async def due_since(app: Oncue) -> datetime | None:
    """The slot that nobody has decided, once there is one."""
    schedule = await app.schedules.get("every second")
    assert schedule.next_run_at is not None
    return schedule.next_run_at if schedule.next_run_at < await app.now() else None


@pytest.mark.contract("SLOT-1")
def test_web_processes_run_neither_a_scheduler_nor_a_job(tmp_path: Path, database_url: str) -> None:
    add_schedule(database_url)
    waiting = enqueue(database_url, "add", a=1)
    places, webs = [free_address() for _ in range(2)], []
    try:
        for number, where in enumerate(places):
            folder = tmp_path / str(number)
            folder.mkdir()
            webs.append(Process(folder, database_url, "serve", "--http", where))
        for web, where in zip(webs, places, strict=True):
            web.says("http: listening on")
            until_ready(web, where)
        webs[0].until(lambda: on_database(database_url, due_since))
        body = until_ready(webs[0], places[0])
        assert (body["status"], body["leader"]) == ("ready", {"name": None, "none_since": None})
        assert (body["backlog"]["queued"], "node" in body) == (1, False)
        assert "oncue_is_leader 0.0" in get(places[1], "/metrics")[1]
        for web in webs:
            web.process.send_signal(signal.SIGTERM)
        assert [web.ends() for web in webs] == [0, 0]
    finally:
        for web in webs:
            web.close()
    assert job(database_url, waiting).state == "queued"
    assert on_database(database_url, lambda app: app.schedules.latest_slots("every second")) == []
    assert on_database(database_url, lambda app: app.nodes.list()) == []


@pytest.mark.contract("HOOK-7")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_good_order(start: Start, sqlite_url: str, number: signal.Signals) -> None:
    where = free_address()
    web = start(sqlite_url, "serve", "--http", where)
    web.says("http: listening on")
    web.process.send_signal(number)
    assert web.ends() == 0
    assert "stopped" in web.said
    with pytest.raises(urllib.error.URLError):
        get(where, "/health")


def test_it_needs_no_application(start: Start, sqlite_url: str) -> None:
    where = free_address()
    web = start(sqlite_url, "serve", ONCUE_APP="", HTTP_ADDR=where)
    web.says("http: listening on")
    assert get(where, "/health") == (200, '{"status":"ok"}')
    until_ready(web, where)


@pytest.mark.contract("HOOK-12", "HOOK-14")
def test_it_waits_for_its_database(start: Start, runner: asyncio.Runner) -> None:
    server = postgres.start(os.getpid())
    url = server.url("outage")
    runner.run(make_database(server, url))
    server.control("stop", "-m", "immediate")
    where = free_address()
    web = start(url, "serve", "--http", where)
    web.says("http: listening on")
    status, body = ready(where)
    assert (status, body["status"]) == (503, "database_unavailable")
    assert "PostgreSQL does not answer" in body["database"]["error"]
    assert get(where, "/health") == (200, '{"status":"ok"}')
    server.control("start")
    web.until(lambda: ready(where)[0] == 200)
    server.control("stop", "-m", "immediate")
    web.until(lambda: ready(where)[0] == 503)
    assert get(where, "/health")[0] == 200
    server.control("start")
    web.until(lambda: ready(where)[0] == 200)
    web.process.send_signal(signal.SIGTERM)
    assert web.ends() == 0


def test_tables_that_are_not_there_are_the_reason(start: Start, empty_postgres: str, oncue: Shell) -> None:
    where = free_address()
    web = start(empty_postgres, "serve", "--http", where)
    web.says("http: listening on")
    status, body = ready(where)
    assert status == 503
    assert "oncue migrate" in body["database"]["error"]
    assert oncue("migrate", "--database-url", empty_postgres).code == 0
    web.until(lambda: ready(where)[0] == 200)


@pytest.mark.contract("HOOK-14", "HOOK-7")
def test_run_works_and_answers(start: Start, database_url: str) -> None:
    where = free_address()
    both = start(database_url, "run", "--name", "both", HTTP_ADDR=where)
    both.says("http: listening on")
    job_id = enqueue(database_url, "add", a=1)
    both.until(lambda: job(database_url, job_id).state == "succeeded")
    both.until(lambda: ready(where)[1]["leader"]["name"] == "both")
    body = until_ready(both, where)
    assert (body["status"], body["node"]["name"]) == ("ready", "both")
    both.until(lambda: "oncue_is_leader 1.0" in get(where, "/metrics")[1])
    both.process.send_signal(signal.SIGTERM)
    assert both.ends() == 0
    assert on_database(database_url, lambda app: app.nodes.list()) == []


@pytest.mark.contract("HOOK-13")
@pytest.mark.parametrize("command", ["serve", "run"])
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], address.parse(address.DEFAULT)),
        (["--http"], address.parse(address.DEFAULT)),
        (["--http", ":9001"], ListenAddress("", 9001)),
    ],
)
def test_where_it_listens(
    oncue: Shell,
    sqlite_shop: str,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    given: list[str],
    expected: ListenAddress,
) -> None:
    asked: list[ListenAddress] = []

    def refuse(where: ListenAddress) -> socket.socket:
        asked.append(where)
        raise CannotListen("not in a test")

    monkeypatch.setattr(address, "listen", refuse)
    assert oncue(command, *given).code == 1
    monkeypatch.setenv("HTTP_ADDR", "127.0.0.1:9002")
    assert oncue(command).code == 1
    assert asked == [expected, ListenAddress("127.0.0.1", 9002)]


@pytest.mark.contract("HOOK-13")
@pytest.mark.parametrize("command", ["serve", "run"])
@pytest.mark.parametrize(
    ("variables", "code", "named"),
    [
        ({"ONCUE_ENV": "production"}, 2, "DATABASE_URL"),
        ({"DATABASE_URL": "mysql://nowhere"}, 1, "DATABASE_URL"),
        ({"TICK_INTERVAL": "often"}, 2, "TICK_INTERVAL"),
        ({"HTTP_ADDR": "8080"}, 2, "HTTP_ADDR"),
    ],
)
def test_configuration(
    oncue: Shell, monkeypatch: pytest.MonkeyPatch, command: str, variables: dict[str, str], code: int, named: str
) -> None:
    monkeypatch.setenv("ONCUE_APP", SHOP)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    answer = oncue(command)
    assert answer.code == code
    assert named in answer.err


def test_run_needs_an_application(oncue: Shell, sqlite_url: str) -> None:
    answer = oncue("run", "--database-url", sqlite_url)
    assert answer.code == 2
    assert "--app" in answer.err


def test_run_has_the_options_of_a_worker(oncue: Shell) -> None:
    worker, run = oncue("worker", "--help").out, oncue("run", "--help").out
    options = [word for word in worker.replace(",", " ").split() if word.startswith("--")]
    assert options
    assert all(option in run for option in options)
