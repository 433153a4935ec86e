"""A Redis of a test's own, on a port of its own, which can be stopped and started again.

There is no wheel with a Redis for every Python that oncue supports, so the server is the machine's: `make test`
installs Debian's package where it may. Where there is none, a test that needs it fails and says so.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import redis

from tests.ports import free_port

MISSING = "redis-server is missing, and this test is about a real one: as root, apt-get install redis-server"


class RedisServer:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"redis://127.0.0.1:{self._port}/0"

    def start(self) -> None:
        binary = shutil.which("redis-server")
        if binary is None:
            pytest.fail(MISSING)
        options = ["--port", str(self._port), "--bind", "127.0.0.1", "--dir", str(self._folder), "--save", ""]
        self._process = subprocess.Popen([binary, *options], stdout=subprocess.DEVNULL)
        for _ in range(200):
            with contextlib.suppress(redis.ConnectionError), self.client() as client:
                client.ping()
                return
            time.sleep(0.05)
        pytest.fail("redis-server does not answer")

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url, decode_responses=True)

    def pause(self) -> None:
        """It stops as it stands: connections stay open, and nothing is answered."""
        assert self._process is not None
        self._process.send_signal(19)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None
