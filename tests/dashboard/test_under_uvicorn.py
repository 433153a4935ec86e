"""The dashboard mounted in an application that uvicorn serves, as a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.ports import free_port

pytestmark = pytest.mark.timeout(60)

APPLICATION = """
from fastapi import FastAPI
from oncue import Oncue

site = FastAPI()
site.mount("/ops/oncue", Oncue().asgi(require_token=False))
"""


def test_open_tabs_do_not_keep_the_server_from_stopping(sqlite_url: str, tmp_path: Path) -> None:
    """Without a limit of its own uvicorn waits for open requests, and tells the application only after them."""
    (tmp_path / "mounting.py").write_text(APPLICATION)
    port = free_port()
    line = [sys.executable, "-m", "uvicorn", "mounting:site", "--port", str(port), "--log-level", "warning"]
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    server = subprocess.Popen(
        line, cwd=tmp_path, env={**os.environ, "DATABASE_URL": sqlite_url, "PYTHONPATH": paths}, start_new_session=True
    )
    try:
        _wait_for(port)
        with httpx.stream("GET", f"http://127.0.0.1:{port}/ops/oncue/live?page=/", timeout=30) as stream:
            assert stream.status_code == 200
            lines = stream.iter_lines()
            while not next(lines).startswith("event: page"):
                pass
            server.send_signal(signal.SIGTERM)
            began = time.monotonic()
            assert server.wait(timeout=8) in (0, -signal.SIGTERM)
            assert time.monotonic() - began < 5
    finally:
        server.kill()
        server.wait()


def _wait_for(port: int) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("uvicorn does not answer")
