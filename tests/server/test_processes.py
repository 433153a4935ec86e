"""The API of real processes: `oncue serve`, `oncue run` and a worker's port, asked with plain HTTP."""

from __future__ import annotations

import json
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncue.cli import run
from tests.cli.conftest import PATIENCE, Process, on_database
from tests.cli.test_worker import free_address, get


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    """Starts `oncue …` on a database, and waits until it answers."""
    started: list[Process] = []

    def begin(url: str, *arguments: str, **environment: str) -> Process:
        started.append(Process(tmp_path, url, *arguments, **environment))
        started[-1].says("http: listening on")
        return started[-1]

    yield begin
    for process in started:
        process.close()


def ask(address: str, method: str, path: str, body: str | None = None, **headers: str) -> tuple[int, Any]:
    """What `curl -X METHOD -d BODY` gets: with a body, it calls it a form."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    data = None if body is None else body.encode()
    request = urllib.request.Request(f"http://{address}{path}", data, named, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


@pytest.mark.contract("QUE-10", "QUE-11", "QUE-12", "QUE-13", "QUE-14", "QUE-15")
def test_run_has_the_api_and_works(start: Any, database_url: str) -> None:
    where = free_address()
    both = start(database_url, "run", HTTP_ADDR=where)
    code, receipt = ask(where, "POST", "/api/admin/jobs", '{"task": "add", "args": {"a": 2}}')
    assert code == 201
    job = f"/api/admin/jobs/{receipt['id']}"
    both.until(lambda: ask(where, "GET", job)[1]["status"] == "succeeded")
    assert ask(where, "GET", job)[1]["result"] == 3
    code, failing = ask(where, "POST", "/api/admin/jobs", '{"task": "boom", "delay": "1h"}')
    path = f"/api/admin/jobs/{failing['id']}"
    assert ask(where, "PUT", f"{path}/priority", '{"priority": 50}')[1]["priority"] == 50
    assert ask(where, "POST", f"{path}/boost", '{"boost": 70}')[1]["priority"] == 100
    assert ask(where, "PUT", f"{path}/status", '{"status": "failed"}')[1]["status"] == "failed"
    stats = ask(where, "GET", "/api/admin/jobs/stats")[1]
    assert (stats["completed"], stats["failed"], stats["queued"]) == (1, 1, 0)
    bulk = json.dumps({"job_ids": [failing["id"]]})
    assert ask(where, "POST", "/api/admin/jobs/bulk/retry", bulk)[1]["changed"] == 1
    both.until(lambda: ask(where, "GET", path)[1]["attempts"] == 1)
    assert [job["id"] for job in ask(where, "GET", "/api/admin/jobs?status=failed")[1]["jobs"]] == [failing["id"]]
    assert ask(where, "GET", "/api/admin/jobs", Host="evil.example")[0] == 403


def test_bound_elsewhere_only_health_answers_without_a_token(start: Any, sqlite_url: str) -> None:
    port = free_address().partition(":")[2]
    where = f"127.0.0.1:{port}"
    server = start(sqlite_url, "serve", "--http", f"0.0.0.0:{port}")
    server.says("there is no token yet: everything but /health is refused; `oncue token create NAME --scope read`")
    assert get(where, "/health") == (200, '{"status":"ok"}')
    for path in ("/health/ready", "/metrics", "/openapi.json", "/api/admin/jobs", "/nowhere"):
        code, problem = ask(where, "GET", path)
        assert (code, "oncue token create" in problem["detail"]) == (401, True), path
    _, token = on_database(sqlite_url, lambda app: app.tokens.create("ci", ["read", "enqueue"]))
    authorized = {"Authorization": f"Bearer {token}"}
    assert ask(where, "GET", "/api/admin/jobs", **authorized) == (200, {"jobs": [], "next": None})
    code, receipt = ask(where, "POST", "/api/admin/jobs", '{"task": "add", "args": {"a": 2}}', **authorized)
    assert code == 201
    code, problem = ask(where, "POST", f"/api/admin/jobs/{receipt['id']}/cancel", **authorized)
    assert (code, problem["needed_scope"]) == (403, "operate")
    assert ask(where, "POST", "/api/admin/jobs", " " * 8_000_000, **authorized)[0] == 413


def test_a_worker_answers_no_more_than_it_must(start: Any, sqlite_url: str) -> None:
    where = free_address()
    worker = start(sqlite_url, "worker", "--http", where, ONCUE_HTTP_HEADER_TIMEOUT="500ms")
    host, _, port = where.partition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as half:
        half.sendall(b"GET /health HTTP/1.1")
        assert half.recv(1000).startswith(b"HTTP/1.1 408 ")
    worker.until(lambda: get(where, "/health/ready")[0] == 200)
    assert "oncue_is_leader" in get(where, "/metrics")[1]
    assert ask(where, "GET", "/api/admin/jobs")[0] == 404


def test_a_deleted_sqlite_file_is_refused_and_told_everywhere(
    start: Any, sqlite_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, web, worker = Path(sqlite_url.removeprefix("sqlite:///")), free_address(), free_address()
    server = start(sqlite_url, "serve", "--http", web)
    working = start(sqlite_url, "worker", "--http", worker, "--lease", "1s", "--drain-timeout", "500ms")
    nap = json.dumps({"task": "nap", "args": {"marks": str(tmp_path)}})
    assert ask(web, "POST", "/api/admin/jobs", nap)[0] == 201
    working.until((tmp_path / "started").exists)
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    code, problem = ask(web, "POST", "/api/admin/jobs", nap)
    assert (code, "restart this process" in problem["detail"], str(path) in problem["detail"]) == (503, True, True)
    for process, where in ((server, web), (working, worker)):
        process.until(lambda where=where: "was deleted or moved away" in get(where, "/health/ready")[1])
        code, told = ask(where, "GET", "/health/ready")
        assert (code, told["database"]["status"]) == (503, "unavailable")
    working.says("all its jobs are stopped and given back")
    assert run(["doctor", "--json", "--database-url", sqlite_url]) == 4
    (check,) = [check for check in json.loads(capsys.readouterr().out)["checks"] if check["name"] == "file"]
    assert check["status"] == "fail"
    assert all(str(process.process.pid) in check["detail"] for process in (server, working))
    server.process.send_signal(signal.SIGTERM)
    assert server.ends() == 0
    working.close()
    assert not path.exists()
    assert run(["doctor", "--json", "--database-url", sqlite_url]) == 0
