"""The table and the statements of the bare loops: shaped like a real job table, with nothing around it."""

from __future__ import annotations

from bench.database import calm, execute

TABLE = """
create table jobs (
    id bigint generated always as identity primary key,
    uid uuid not null default gen_random_uuid(),
    task text not null,
    queue text not null,
    priority smallint not null default 0,
    state text not null default 'queued',
    args json not null,
    created_at timestamptz not null default now(),
    visible_at timestamptz not null default now(),
    order_at timestamptz not null default now(),
    claim_no int not null default 0,
    node_id uuid,
    started_at timestamptz,
    finished_at timestamptz,
    result json,
    error text
)
"""
INDEX = "create index on jobs (queue, priority desc, order_at, id) where state = 'queued'"

# `= any(array(...))` keeps its plan where a joined CTE turns into a sequential scan at larger batches.
CLAIM = """
update jobs set state = 'running', claim_no = claim_no + 1, node_id = $1, started_at = now()
where id = any(array(
    select id from jobs where state = 'queued' and queue = $2
    order by priority desc, order_at, id limit $3 for update skip locked))
returning id, task, args, claim_no
"""
SETTLE = """
update jobs set state = 'succeeded', finished_at = now(), result = 'null'
from unnest($1::bigint[], $2::int[]) as done (id, claim_no)
where jobs.id = done.id and jobs.claim_no = done.claim_no and jobs.state = 'running'
"""
INSERT = "insert into jobs (uid, task, queue, args) values ($1, $2, $3, $4) returning id"
COLUMNS = ("uid", "task", "queue", "args")
QUEUE = "default"
BATCH = 500


def create(dsn: str) -> None:
    execute(dsn, TABLE, INDEX)


def fill(dsn: str, queued: int, finished: int = 0) -> None:
    """Finished rows come first, since that is their age."""
    execute(dsn, _rows("succeeded", finished), _rows("queued", queued))
    calm(dsn)


def _rows(state: str, number: int) -> str:
    return (
        "insert into jobs (task, queue, state, args, order_at) "
        f"select 'noop', '{QUEUE}', '{state}', '{{}}', now() + n * interval '1 microsecond' "
        f"from generate_series(1, {number}) n"
    )
