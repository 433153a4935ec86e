"""A worker as a process: how it drains, how it is stopped at once, what it answers, and how it outlives an outage."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from oncue import Job, Oncue
from oncue.cli import process
from oncue.store import PostgresStore
from oncue.task import Call
from tests import postgres
from tests.cli.conftest import OURS, PATIENCE, SHOP, Process, Shell, Start, on_database
from tests.ports import free_port


def enqueue(url: str, task: str, **arguments: Any) -> int:
    """Write a job as another process would."""

    async def written(app: Oncue) -> int:
        from tests.cli.shop import app as shop

        receipts = await app.internals.enqueueing.write(Call(shop.find(task)), [((), arguments)])
        return receipts[0].id

    job_id: int = on_database(url, written)
    return job_id


def job(url: str, job_id: int) -> Job:
    found: Job = on_database(url, lambda app: app.jobs.get(job_id))
    return found


def get(address: str, path: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=PATIENCE) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def free_address() -> str:
    return f"127.0.0.1:{free_port()}"


def napping(start: Start, url: str, tmp_path: Path, *arguments: str) -> tuple[Process, int]:
    """A worker in the middle of a job."""
    worker = start(url, "worker", *arguments)
    worker.says("is working on")
    job_id = enqueue(url, "nap", marks=str(tmp_path))
    worker.until((tmp_path / "started").exists)
    return worker, job_id


@pytest.mark.contract("HOOK-7", "HOOK-14")
def test_a_signal_drains_in_order(start: Start, database_url: str, tmp_path: Path) -> None:
    address = free_address()
    worker, first = napping(start, database_url, tmp_path, "--http", address)
    assert get(address, "/health") == (200, '{"status":"ok"}')
    worker.until(lambda: get(address, "/health/ready")[0] == 200)
    worker.process.send_signal(signal.SIGTERM)
    worker.says("draining: 1 running, 0 waiting")
    second = enqueue(database_url, "add", a=1)
    status, body = get(address, "/health/ready")
    assert (status, json.loads(body)["status"]) == (503, "draining")
    assert get(address, "/health")[0] == 200
    (tmp_path / "woken").touch()
    assert worker.ends() == 0
    assert (tmp_path / "ended").exists()
    assert job(database_url, first).state == "succeeded"
    left = job(database_url, second)
    assert (left.state, left.claim_no) == ("queued", 0)
    assert on_database(database_url, lambda app: app.nodes.list()) == []
    with pytest.raises(urllib.error.URLError):
        get(address, "/health")


@pytest.mark.contract("HOOK-7")
def test_what_outlasts_the_drain_is_given_back_uncharged(start: Start, sqlite_url: str, tmp_path: Path) -> None:
    worker, job_id = napping(start, sqlite_url, tmp_path, "--drain-timeout", "300ms")
    worker.process.send_signal(signal.SIGINT)
    assert worker.ends() == 0
    given_back = job(sqlite_url, job_id)
    assert (given_back.state, given_back.retry_count, given_back.crashes) == ("queued", 0, 0)
    assert not (tmp_path / "ended").exists()


@pytest.mark.contract("HOOK-7")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_second_signal_stops_at_once(
    start: Start, sqlite_url: str, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    worker, job_id = napping(start, sqlite_url, tmp_path)
    worker.process.send_signal(number)
    worker.says("draining")
    worker.process.send_signal(number)  # at once, as a supervisor and a terminal may: that is still the first
    time.sleep(process.TOGETHER_SECONDS)
    worker.process.send_signal(number)
    assert worker.ends() == code
    assert job(sqlite_url, job_id).state == "running"


@pytest.mark.contract("HOOK-7")
@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full", "| true"], ids=["closed", "full", "nobody reads it"])
def test_a_second_signal_stops_at_once_also_if_it_cannot_be_told(sqlite_url: str, tmp_path: Path, stderr: str) -> None:
    enqueue(sqlite_url, "nap", marks=str(tmp_path))
    reading, writing = os.pipe()
    redirected = "" if stderr == "| true" else stderr
    worker = subprocess.Popen(
        ["sh", "-c", f'exec "$0" -m oncue worker {redirected}', sys.executable], cwd=tmp_path, stderr=writing,
        env={**os.environ, "PYTHONPATH": OURS, "DATABASE_URL": sqlite_url, "ONCUE_APP": SHOP},
    )  # fmt: skip
    os.close(writing)
    os.close(reading)
    try:
        end = time.monotonic() + PATIENCE
        while not (tmp_path / "started").exists():
            assert time.monotonic() < end
            assert worker.poll() is None
            time.sleep(0.01)
        while worker.poll() is None and time.monotonic() < end:
            worker.send_signal(signal.SIGTERM)
            time.sleep(process.TOGETHER_SECONDS + 0.05)
        assert worker.returncode == 143
    finally:
        worker.kill()
        worker.wait()


@pytest.mark.contract("HOOK-7")
def test_a_hang_up_drains(start: Start, sqlite_url: str, tmp_path: Path) -> None:
    worker, job_id = napping(start, sqlite_url, tmp_path)
    worker.process.send_signal(signal.SIGHUP)
    worker.says("draining: 1 running")
    (tmp_path / "woken").touch()
    assert worker.ends() == 0
    assert job(sqlite_url, job_id).state == "succeeded"


def test_a_worker_that_waits_for_its_database_can_be_stopped(start: Start) -> None:
    worker = start("postgresql://nobody@127.0.0.1:1/nothing", "worker", "--start-timeout", "1h")
    worker.says("waiting for it for up to 1h")
    worker.process.send_signal(signal.SIGTERM)
    assert worker.ends() == 0


@pytest.mark.contract("HOOK-7")
def test_a_thread_that_never_ends_does_not_keep_the_process(start: Start, sqlite_url: str, tmp_path: Path) -> None:
    worker = start(sqlite_url, "worker", "--drain-timeout", "100ms")
    job_id = enqueue(sqlite_url, "stuck", marks=str(tmp_path))
    worker.until((tmp_path / "started").exists)
    worker.process.send_signal(signal.SIGTERM)
    assert worker.ends() == 0
    assert job(sqlite_url, job_id).state == "queued"
    assert "left behind: oncue-job" in worker.said


@pytest.mark.contract("HOOK-13")
def test_http_addr_sets_the_address(start: Start, sqlite_url: str) -> None:
    port = free_address().rpartition(":")[2]
    worker = start(sqlite_url, "worker", HTTP_ADDR=f":{port}")
    worker.says("http: listening on")
    assert get(f"127.0.0.1:{port}", "/health")[0] == 200


def test_a_taken_address_is_told(oncue: Shell, sqlite_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        answer = oncue("worker", "--app", SHOP, "--database-url", sqlite_url, "--http", address)
    assert (answer.code, answer.err) == (1, f"oncue: HTTP_ADDR: cannot listen on {address}: Address already in use\n")


@pytest.mark.contract("SLOT-12")
def test_json_lines_carry_the_fields_of_jobs(start: Start, sqlite_url: str) -> None:
    worker = start(sqlite_url, "worker", "--log-format", "json")
    job_id = enqueue(sqlite_url, "greet", name="Ada")
    failing = enqueue(sqlite_url, "boom", text="no = luck")
    worker.says("succeeded")
    worker.says("no = luck")
    worker.process.send_signal(signal.SIGTERM)
    assert worker.ends() == 0
    lines = [json.loads(line) for line in worker.said.splitlines()]
    about = [line for line in lines if line.get("job") == job_id]
    assert [line["logger"] for line in about] == ["oncue.job", "shop", "oncue.job"]
    assert all(line["task"] == "greet" and line["level"] == "info" for line in about)
    ended = about[-1]
    assert (ended["state"], ended["attempt"], ended["rows"]) == ("succeeded", 1, 3)
    assert ended["duration"] >= 0
    failed = next(line for line in lines if line.get("job") == failing and line.get("state") == "failed")
    assert failed["error"] == "ValueError: no = luck"


@pytest.mark.contract("HOOK-12")
def test_an_outage_is_outlived(start: Start, runner: asyncio.Runner, tmp_path: Path) -> None:
    server = postgres.start(os.getpid())
    url = server.url("outage")
    runner.run(make_database(server, url))
    address = free_address()
    worker = start(url, "worker", "--http", address, "--lease", "2s")
    worker.says("http: listening on")
    server.control("stop", "-m", "immediate")
    worker.until(lambda: get(address, "/health/ready")[0] == 503)
    assert json.loads(get(address, "/health/ready")[1])["status"] in ("database_unavailable", "lease_lost")
    assert get(address, "/health")[0] == 200
    worker.says("PostgreSQL does not answer")
    server.control("start")
    worker.until(lambda: get(address, "/health/ready")[0] == 200)
    worker.says("the database answers again, after ")
    assert worker.said.count("everything is tried again until it answers") <= 2  # one for each service would be ten
    job_id = enqueue(url, "add", a=1)
    worker.until(lambda: job(url, job_id).state == "succeeded")
    worker.process.send_signal(signal.SIGTERM)
    assert worker.ends() == 0


async def make_database(server: postgres.Server, url: str) -> None:
    connection = await asyncpg.connect(server.url())
    await connection.execute("create database outage")
    await connection.close()
    store = PostgresStore(url)
    await store.migrate()
    await store.close()
