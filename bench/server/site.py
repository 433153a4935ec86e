"""A database with many jobs or few, a real `oncue serve` on it, and how long it takes to answer."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import asyncpg

from bench.settings import ROOT
from oncue import Oncue

WARM_UP = 3
STARTING_SECONDS = 30.0
FEW_ROWS = 10_000

# Most jobs are alike and a few are rare, and the open ones are the oldest: the worst case for a walk from the newest.
FILL = """
insert into oncue_jobs (id, task, queue, priority, state, args, options, enqueued_by, created_at, updated_at, order_at,
                        visible_at, max_retries, started_at, finished_at, attempt)
select n, case when n % 100000 = 7 then 'rare' else 'task' || n % 20 end,
       case when n % 50000 = 3 then 'rare' else (array['default', 'mail', 'reports'])[n % 3 + 1] end, n % 7,
       case when n <= $2 then (array['queued', 'queued', 'queued', 'scheduled', 'retrying'])[n % 5 + 1]
            when n % $3 = 0 then 'failed' when n % $3 = 1 then 'cancelled' when n % $3 = 2 then 'skipped'
            else 'succeeded' end,
       '{"number": 1}', '{}', 'bench', made.at, made.at, made.at, made.at, 3,
       case when n > $2 then made.at end, case when n > $2 then made.at end, (n > $2)::int
  from generate_series(1, $1::int + $2::int) as n
 cross join lateral (select timestamptz '2026-01-01' + n * interval '0.1 s' as at) as made
"""
COUNT = """
insert into oncue_counters (queue, task, state, jobs)
select queue, task, state, count(*) from oncue_jobs where finished_at is not null group by 1, 2, 3
"""
ROWS_READ = """
select coalesce(sum(idx_tup_read), 0)::bigint
       + (select seq_tup_read from pg_stat_user_tables where relname = 'oncue_jobs')
  from pg_stat_user_indexes where relname = 'oncue_jobs'
"""


async def fill(dsn: str, finished: int, unfinished: int, rarity: int) -> None:
    """Fill a database; one job in `rarity` has failed, another was cancelled, and a third skipped."""
    app = Oncue(dsn)
    store = app.internals.make_store()
    await store.migrate()
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(FILL, finished, unfinished, rarity, timeout=1800)
        await connection.execute(COUNT, timeout=600)
        await connection.execute("select setval('oncue_job_ids', $1)", finished + unfinished)
        await connection.execute("vacuum analyze", timeout=600)
    finally:
        await connection.close()
    await store.close()


@dataclass(frozen=True)
class Site:
    """A web process that answers."""

    dsn: str
    port: int
    pid: int

    @contextlib.contextmanager
    def connected(self) -> Iterator[http.client.HTTPConnection]:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port)) as connection:
            yield connection

    async def rows_read(self, paths: Sequence[str], seconds: float) -> int:
        """How many rows of the jobs, or entries of their indexes, the heaviest of these requests reads.

        PostgreSQL's processes tell what they read only once a second, so each request is given so many seconds.
        """
        connection = await asyncpg.connect(self.dsn)
        try:
            with self.connected() as web:
                return max([await self._least_read(connection, web, path, seconds) for path in paths])
        finally:
            await connection.close()

    async def _least_read(
        self, connection: asyncpg.Connection, web: http.client.HTTPConnection, path: str, seconds: float
    ) -> int:
        """The server counts what waits now and then, on its own: whoever was asked at that moment is asked again."""
        found: list[int] = []
        while len(found) < 3 and (not found or min(found) > FEW_ROWS):
            before = await self._settled(connection, seconds)
            asked(web, path)
            found.append(await self._settled(connection, seconds) - before)
        return min(found)

    async def _settled(self, connection: asyncpg.Connection, seconds: float) -> int:
        """What PostgreSQL has counted, after a while."""
        await asyncio.sleep(seconds)
        await connection.execute("select pg_stat_clear_snapshot()")
        return int(await connection.fetchval(ROWS_READ))


def asked(connection: http.client.HTTPConnection, path: str) -> float:
    """Ask once; how many milliseconds it took."""
    began = time.perf_counter()
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    assert answer.status == 200, f"{path}: {answer.status} {body[:500]!r}"
    return (time.perf_counter() - began) * 1000


def medians(path: str, sites: Sequence[Site], times: int) -> list[float]:
    """How long each of the sites takes. They are asked in turn: whatever else the machine does strikes them alike."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(site.connected()) for site in sites]
        rounds = [[asked(connection, path) for connection in connections] for _ in range(WARM_UP + times)]
    return [statistics.median(taken) for taken in zip(*rounds[WARM_UP:], strict=True)]


@contextlib.contextmanager
def serving(dsn: str, port: int) -> Iterator[Site]:
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "oncue",
            "serve",
            "--app",
            "bench.server.application:app",
            "--http",
            f"127.0.0.1:{port}",
        ],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": dsn, "ONCUE_LOG_LEVEL": "error"},
    )
    try:
        _await_answer(port)
        yield Site(dsn, port, process.pid)
    finally:
        process.terminate()
        process.wait()


def _await_answer(port: int) -> None:
    give_up = time.monotonic() + STARTING_SECONDS
    while True:
        try:
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
        except OSError:
            if time.monotonic() > give_up:
                raise
        time.sleep(0.1)
