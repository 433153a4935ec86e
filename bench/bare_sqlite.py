"""The bare SQLite loop: WAL and synchronous=FULL, claim 500, run, settle 500; history kept."""

from __future__ import annotations

import sqlite3
import sys
import time
from pathlib import Path

from bench import child, crew, timing
from bench.bare_postgres import noop

BATCH = 500
TABLE = """
create table jobs (
    id integer primary key, uid text not null, task text not null, queue text not null,
    priority integer not null default 0, state text not null default 'queued', args text not null,
    created_at integer not null, visible_at integer not null, order_at integer not null,
    claim_no integer not null default 0, node_id text, started_at integer, finished_at integer,
    result text, error text
)
"""
INDEX = "create index claimable on jobs (queue, priority desc, order_at, id) where state = 'queued'"
FILL = """
with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ?)
insert into jobs (uid, task, queue, args, created_at, visible_at, order_at)
select lower(hex(randomblob(16))), 'noop', 'default', '{}', n, n, n from numbers
"""
CLAIM = """
update jobs set state = 'running', claim_no = claim_no + 1, node_id = 'bare', started_at = ?
where id in (
    select id from jobs where state = 'queued' and queue = 'default'
    order by priority desc, order_at, id limit ?)
returning id, claim_no, task, args
"""
SETTLE = """
update jobs set state = 'succeeded', finished_at = ?, result = 'null'
where id = ? and claim_no = ? and state = 'running'
"""


def drain(path: Path, jobs: int) -> float:
    """Jobs per second of one loop on a fresh file."""
    connection = connect(path)
    connection.execute(TABLE)
    connection.execute(INDEX)
    connection.execute(FILL, (jobs,))
    connection.execute("pragma wal_checkpoint(truncate)")
    connection.close()
    return crew.rate(crew.race([crew.Child("bench.bare_sqlite", path)]))


def connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    return connection


def claim(connection: sqlite3.Connection) -> list[tuple[int, int, str, str]]:
    connection.execute("begin immediate")
    batch = connection.execute(CLAIM, (time.time_ns(), BATCH)).fetchall()
    connection.execute("commit")
    return batch


def settle(connection: sqlite3.Connection, batch: list[tuple[int, int, str, str]]) -> int:
    now = time.time_ns()
    connection.execute("begin immediate")
    settled = connection.executemany(SETTLE, [(now, job_id, claim_no) for job_id, claim_no, *_ in batch]).rowcount
    connection.execute("commit")
    return settled


async def work(path: Path) -> None:
    connection = connect(path)
    child.announce_and_wait()
    started, settled = time.monotonic_ns(), 0
    while batch := claim(connection):
        for _ in batch:
            await noop()
        settled += settle(connection, batch)
    child.answer(jobs=settled, started=started, ended=time.monotonic_ns())


if __name__ == "__main__":
    timing.run(work(Path(sys.argv[1])))
