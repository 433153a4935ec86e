-- What operators and callers need: limits, progress, tokens, the audit log, and listings that stay fast.

-- How many jobs of a queue may run at once, on all nodes together and on each.
alter table oncue_queues add column global_limit integer check (global_limit > 0);
alter table oncue_queues add column node_limit integer check (node_limit > 0);
-- Grows with every change of the limits and of who holds how many seats: who changes them proves by it what it knew.
alter table oncue_queues add column version integer not null default 0;

-- The seats of a limited queue, and the nodes that hold them. Those of a node that is lost or has left are free.
create table oncue_seats (
    queue   text not null,
    node_id text not null,
    seats   integer not null check (seats >= 0),
    wanted  integer not null check (wanted >= 0),
    primary key (queue, node_id)
) strict, without rowid;

-- How far a job has come, as its handler says: apart from the jobs, so that saying it does not rewrite their rows.
create table oncue_progress (
    job_id   integer primary key references oncue_jobs (id) on delete cascade,
    claim_no integer not null,
    fraction real not null check (fraction between 0 and 1),
    note     text,
    told_at  integer not null
) strict;

-- The secret itself is not kept, only its digest.
create table oncue_tokens (
    id           text primary key,
    name         text not null,
    digest       text not null,
    scopes       text not null,
    created_by   text not null,
    created_at   integer not null,
    expires_at   integer,
    revoked_at   integer,
    last_used_at integer
) strict, without rowid;

-- Every change by hand, written in the transaction that makes it.
create table oncue_audit (
    id      integer primary key autoincrement,
    at      integer not null,
    actor   text not null,
    action  text not null,
    subject text not null,
    before  text,
    after   text
) strict;
create index oncue_audit_subject on oncue_audit (subject, id);
create index oncue_audit_actor on oncue_audit (actor, id);
create index oncue_audit_at on oncue_audit (at);

-- Requests that carry an idempotency key, and what was answered.
create table oncue_requests (
    actor       text not null,
    key         text not null,
    fingerprint text not null,
    started_at  integer not null,
    ids         text not null default '[]',
    status      integer,
    answer      text,
    primary key (actor, key)
) strict, without rowid;
create index oncue_requests_started on oncue_requests (started_at);

-- What waited when it was last counted: one row, so that nobody who asks counts the jobs.
create table oncue_sample (
    id         integer primary key check (id = 1),
    sampled_at integer not null,
    counts     text not null
) strict;

-- Listings read these: from the newest id down, for each (queue, task, state) that matches. Running jobs are few, and
-- in none of them, so that a claim adds no entry.
create index oncue_jobs_waiting on oncue_jobs (queue, task, state, id)
    where state in ('scheduled', 'queued', 'retrying');
create index oncue_jobs_ended on oncue_jobs (queue, task, state, id)
    where state in ('succeeded', 'failed', 'cancelled', 'skipped');
-- Pruning needs no state.
drop index oncue_jobs_finished;
create index oncue_jobs_finished on oncue_jobs (finished_at)
    where state in ('succeeded', 'failed', 'cancelled', 'skipped');
