-- The engine: jobs, their earlier attempts, queues, totals and nodes. Instants are microseconds since 1970 (UTC).

-- Ids are handed out before the row is written: an enqueue whose reply was lost is sent again under the same ids.
create table oncue_job_ids (
    only integer primary key check (only = 1),
    last integer not null
) strict, without rowid;
insert into oncue_job_ids values (1, 0);

create table oncue_jobs (
    id                  integer primary key,
    task                text not null,
    queue               text not null,
    priority            integer not null check (priority between 0 and 100),
    state               text not null check (state in ('scheduled', 'queued', 'running', 'retrying',
                                                       'succeeded', 'failed', 'cancelled', 'skipped')),
    reason              text,
    args                text not null,
    options             text not null,
    key                 text,
    enqueued_by         text not null,
    created_at          integer not null,
    updated_at          integer not null,
    order_at            integer not null,
    visible_at          integer not null,
    deadline_at         integer,
    max_runtime         integer,
    max_retries         integer not null,
    retry_count         integer not null default 0,
    attempt             integer not null default 0,
    crashes             integer not null default 0,
    claim_no            integer not null default 0,
    age_round           integer not null default 0,
    node_id             text,
    claimed_at          integer,
    run_until           integer,
    started_at          integer,
    finished_at         integer,
    cancel_requested_at integer,
    result              text,
    error               text,
    retry_of            integer
) strict;

-- Claims read the head of this one and nothing else. The literal state keeps finished jobs out of it.
create index oncue_jobs_claimable on oncue_jobs (queue, priority desc, order_at, id)
    where state = 'queued' and crashes = 0;
-- Jobs whose process died under them: few, and handed out one at a time.
create index oncue_jobs_suspects on oncue_jobs (queue, priority desc, order_at, id)
    where state = 'queued' and crashes > 0;
create index oncue_jobs_later on oncue_jobs (visible_at) where state in ('scheduled', 'retrying');
create index oncue_jobs_running on oncue_jobs (node_id) where state = 'running';
create unique index oncue_jobs_key on oncue_jobs (task, key)
    where key is not null and state in ('scheduled', 'queued', 'running', 'retrying');
create index oncue_jobs_finished on oncue_jobs (state, finished_at)
    where state in ('succeeded', 'failed', 'cancelled', 'skipped');

create table oncue_attempts (
    job_id      integer not null references oncue_jobs (id) on delete cascade,
    attempt     integer not null,
    claim_no    integer not null,
    node_id     text,
    started_at  integer not null,
    finished_at integer,
    outcome     text not null,
    error       text,
    primary key (job_id, claim_no)
) strict, without rowid;

-- A job that snoozes for ever never finishes, so its attempts are pruned by themselves.
create index oncue_attempts_finished on oncue_attempts (finished_at);

create table oncue_queues (
    name      text primary key,
    paused_at integer
) strict, without rowid;

create table oncue_counters (
    queue text not null,
    task  text not null,
    state text not null,
    jobs  integer not null,
    primary key (queue, task, state)
) strict, without rowid;

create table oncue_counter_deltas (
    id    integer primary key,
    queue text not null,
    task  text not null,
    state text not null,
    jobs  integer not null
) strict;

create table oncue_nodes (
    id          text primary key,
    name        text not null,
    host        text not null,
    pid         integer not null,
    boot_id     text not null,
    version     text not null,
    queues      text not null,
    tasks       text not null,
    concurrency integer not null,
    address     text,
    started_at  integer not null,
    beat_at     integer not null,
    expires_at  integer not null,
    lost_at     integer
) strict, without rowid;

-- The host's clock may step back; the latest instant that any process wrote never does.
create table oncue_clock (
    only  integer primary key check (only = 1),
    high_water integer not null
) strict, without rowid;
insert into oncue_clock values (1, 0);
