-- Schedules with their revisions, the ledger of slots, and leases. Instants and durations are in microseconds.

create table oncue_schedules (
    id             integer primary key,
    -- A deleted schedule stays as a tombstone: under its old name it could otherwise fire old slots again.
    name           text not null unique,
    description    text not null,
    task           text not null,
    args           text not null,
    queue          text not null,
    priority       integer not null check (priority between 0 and 100),
    expression     text not null,
    tz             text not null,
    dst            text not null,
    missed         text not null check (missed in ('latest', 'each', 'none')),
    grace          integer not null,
    max_instances  integer not null check (max_instances > 0),
    enabled        integer not null,
    -- What each of its jobs carries, resolved from the task.
    options        text not null,
    max_retries    integer not null,
    max_runtime    integer,
    deadline       integer,
    declared_by    text,
    reason         text,
    revision       integer not null,
    started_at     integer not null,
    -- Grows with every write of the row: who decides slots proves by it that nothing has happened since it looked.
    version        integer not null,
    -- Every slot up to here is decided.
    cursor         integer not null,
    next_run_at    integer,
    last_run_at    integer,
    -- What was decided before this instant may be gone from the ledger, so it is never decided again.
    horizon        integer,
    created_by     text not null,
    created_at     integer not null,
    updated_at     integer not null,
    deleted_at     integer
) strict;
-- A tick reads the head of this one: it costs what is due, not what there is.
create index oncue_schedules_due on oncue_schedules (next_run_at, id) where next_run_at is not null;
create index oncue_schedules_declared on oncue_schedules (declared_by) where declared_by is not null;

create table oncue_revisions (
    schedule_id    integer not null,
    revision       integer not null,
    started_at     integer not null,
    task           text not null,
    args           text not null,
    queue          text not null,
    priority       integer not null,
    expression     text not null,
    tz             text not null,
    dst            text not null,
    missed         text not null,
    grace          integer not null,
    max_instances  integer not null,
    enabled        integer not null,
    reason         text,
    changed_by     text not null,
    primary key (schedule_id, revision)
) strict, without rowid;

-- A run of missed or coalesced slots is one row, from `scheduled_for` up to `until`. Foreign keys would cost a look-up
-- for each slot and protect nothing: schedules are never deleted.
create table oncue_slots (
    schedule_id    integer not null,
    subject        text not null default '',
    scheduled_for  integer not null,
    until          integer,
    slots          integer not null default 1,
    verdict        text not null check (verdict in ('fired', 'coalesced', 'missed', 'skipped', 'manual')),
    reason         text,
    job_id         integer,
    blocked_by     integer,
    revision       integer not null,
    decided_at     integer not null,
    decided_by     text,
    epoch          integer,
    -- The run, copied from its job when that is pruned.
    outcome        text,
    outcome_reason text,
    started_at     integer,
    finished_at    integer,
    worker         text,
    error          text,
    primary key (schedule_id, subject, scheduled_for)
) strict, without rowid;
create index oncue_slots_ranges on oncue_slots (schedule_id, subject, scheduled_for) where until is not null;
-- The runs of slots, in the words of the view `job_runs`: those whose job is gone, and those whose job is still there.
create index oncue_slots_status on oncue_slots ((case outcome when 'succeeded' then 'success'
                                                              when 'skipped' then 'skipped_timeout'
                                                              else 'failed' end)) where outcome is not null;
create index oncue_slots_live on oncue_slots (job_id) where job_id is not null and outcome is null;
create index oncue_slots_started on oncue_slots (started_at) where started_at is not null;
-- What may be pruned once it is old: slots without a job, and those whose job is gone.
create index oncue_slots_old on oncue_slots (coalesce(until, scheduled_for)) where job_id is null or outcome is not null;

create table oncue_leases (
    name        text primary key,
    holder      text not null,
    holder_name text not null,
    epoch       integer not null,
    acquired_at integer not null,
    renewed_at  integer not null,
    expires_at  integer not null
) strict, without rowid;

alter table oncue_jobs add column schedule_id integer;
alter table oncue_jobs add column scheduled_for integer;
alter table oncue_jobs add column start_by integer;
-- The unfinished jobs of a schedule: what `max_instances` counts. Parked ones come last, and are not read.
create index oncue_jobs_schedule on oncue_jobs (schedule_id, visible_at, id)
    where schedule_id is not null and state in ('scheduled', 'queued', 'running', 'retrying');
-- Jobs that wait for their turn, behind others of their schedule (the instant is `PARKED`).
create index oncue_jobs_parked on oncue_jobs (schedule_id, scheduled_for)
    where schedule_id is not null and state = 'scheduled'
      and visible_at = 253370764800000000;
-- What was made by hand to repeat a job.
create index oncue_jobs_retry_of on oncue_jobs (retry_of) where retry_of is not null;

-- Which process a node was, so that its successor on the same host can prove that it is gone.
alter table oncue_nodes add column process_start text not null default '';
alter table oncue_nodes add column exclusive integer not null default 0;
-- The schedules that its code declares: nobody disables those while it lives.
alter table oncue_nodes add column schedules text not null default '[]';
-- A node that left in good order stays for a while: somebody may ask which worker ran a job.
alter table oncue_nodes add column left_at integer;
create index oncue_nodes_name on oncue_nodes (name);
