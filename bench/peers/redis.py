"""A private Redis for Celery, with its append-only file on."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator

from bench.database import free_port
from bench.peers.environment import Unavailable
from bench.settings import SCRATCH


def server_binary() -> str:
    if not shutil.which("redis-server") and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "-y", "redis-server"], capture_output=True)
    binary = shutil.which("redis-server")
    if not binary:
        raise Unavailable("redis-server is not installed and could not be installed from here")
    return binary


@contextlib.contextmanager
def running() -> Iterator[str]:
    """The address of a fresh server, stopped and removed afterwards."""
    binary, port = server_binary(), free_port()
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="redis-", dir=SCRATCH) as home:
        options = [
            "--port",
            str(port),
            "--bind",
            "127.0.0.1",
            "--dir",
            home,
            "--appendonly",
            "yes",
            "--save",
            "",
        ]
        process = subprocess.Popen([binary, *options], stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            _wait(port)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()
            process.wait(10)


def _wait(port: int) -> None:
    for _ in range(100):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise Unavailable("redis-server did not start")
