"""A handler that forks leaves no second worker behind: no port, no connection, no signal handler of its parent's."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from oncue import Oncue
from oncue.task import Call
from tests.cli.conftest import PATIENCE, Start, on_database
from tests.ports import free_port

FORKS = "tests.cli.forks:app"


def enqueue(url: str, task: str, **arguments: Any) -> int:
    async def written(app: Oncue) -> int:
        from tests.cli.forks import app as forks

        return (await app.internals.enqueueing.write(Call(forks.find(task)), [((), arguments)]))[0].id

    job_id: int = on_database(url, written)
    return job_id


def backends(url: str) -> set[int]:
    """Who is connected to a database."""
    with psycopg.connect(url) as connection:
        rows = connection.execute("select pid from pg_stat_activity where datname = current_database()").fetchall()
        return {pid for (pid,) in rows} - {connection.info.backend_pid}


def ends(clone: int) -> bool:
    """Whether a process ends, given time."""
    return bool(select.select([clone], [], [], PATIENCE)[0])


@pytest.mark.parametrize("task", ["plain", "coroutine", "multiprocess", "program"])
def test_a_fork_that_outlives_the_worker_keeps_nothing_of_it(
    start: Start, postgres_url: str, tmp_path: Path, task: str
) -> None:
    others, port = backends(postgres_url), free_port()
    worker = start(postgres_url, "worker", "--http", f"127.0.0.1:{port}", ONCUE_APP=FORKS)
    worker.says("http: listening on")
    enqueue(postgres_url, task, marks=str(tmp_path))
    worker.until((tmp_path / "pid").exists)
    clone = os.pidfd_open(int((tmp_path / "pid").read_text()))
    try:
        assert backends(postgres_url) > others
        worker.process.kill()
        worker.process.wait()
        socket.create_server(("127.0.0.1", port)).close()  # the port is free
        end = time.monotonic() + PATIENCE
        while backends(postgres_url) > others:  # PostgreSQL has noticed that the worker is gone
            assert time.monotonic() < end
            time.sleep(0.02)
        signal.pidfd_send_signal(clone, signal.SIGTERM)  # it means what it means to every program
        assert ends(clone)
    finally:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(clone, signal.SIGKILL)
        os.close(clone)


def test_a_fork_that_comes_back_into_the_worker_is_ended(start: Start, sqlite_url: str) -> None:
    codes = {"plain_comes_back": 0, "plain_exits": 7, "coroutine_comes_back": 0, "coroutine_waits": 1}
    worker = start(sqlite_url, "worker", ONCUE_APP=FORKS)
    jobs = {enqueue(sqlite_url, task): code for task, code in codes.items()}

    def done() -> bool:
        found = [on_database(sqlite_url, lambda app, job_id=job_id: app.jobs.get(job_id)) for job_id in jobs]
        return {job.id: job.result for job in found} == jobs

    worker.until(done)
    worker.process.send_signal(signal.SIGTERM)
    assert worker.ends() == 0
    assert worker.said.count("is working on") == worker.said.count("stopped\n") == 1
