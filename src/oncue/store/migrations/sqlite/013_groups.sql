-- Groups of a queue: limits, rates and pauses for each tenant or endpoint.

-- A group has a row while something of it waits, or while something is set for it alone; the rest are forgotten.
create table oncue_groups (
    queue         text not null,
    name          text not null,
    -- Set for this group alone; null: as the queue has it.
    running_limit integer check (running_limit > 0),
    rate_count    integer check (rate_count > 0),
    rate_seconds  integer check (rate_seconds > 0),
    -- Far in the future (the instant is `PARKED`): until it is resumed.
    paused_until  integer,
    -- From when on a claim looks at it; null: not before something happens in it. Groups take turns by this.
    ready_at      integer,
    -- When its next job may start, by its rate.
    rate_at       integer,
    -- Grows with every write of the row. A claim counts what runs before it has the row: by this it knows that no other
    -- claim came in between.
    version       integer not null,
    primary key (queue, name)
);
create index oncue_groups_ready on oncue_groups (queue, ready_at, name) where ready_at is not null;

-- Something has happened in a group: a job can be claimed (`has_job`), or one has ended and left room. Enqueueing and
-- settling append here, so that no transaction ever waits for a group's row; the next claim reads it.
create table oncue_group_wakeups (
    id      integer primary key,
    queue   text not null,
    name    text not null,
    has_job integer not null
);

-- What the groups of a queue have if nothing is set for one of them, and what the queue has as a whole.
alter table oncue_queues add column group_limit integer check (group_limit > 0);
alter table oncue_queues add column group_rate_count integer check (group_rate_count > 0);
alter table oncue_queues add column group_rate_seconds integer check (group_rate_seconds > 0);
alter table oncue_queues add column rate_count integer check (rate_count > 0);
alter table oncue_queues add column rate_seconds integer check (rate_seconds > 0);
alter table oncue_queues add column rate_at integer;

-- Claims read the best of a group off the head of this one.
create index oncue_jobs_grouped on oncue_jobs (queue, group_name, priority desc, order_at, id)
    where group_name is not null and state = 'queued';
-- What runs of a group is counted here.
create index oncue_jobs_group_running on oncue_jobs (queue, group_name) where group_name is not null and state = 'running';
