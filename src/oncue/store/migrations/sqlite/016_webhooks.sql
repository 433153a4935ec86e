-- Webhooks: URLs that jobs of the task `oncue.deliver` are sent to. A deleted one keeps its row, without headers and secrets:
-- deliveries that were made before must not find another one of its name.
create table oncue_webhooks (
    id           integer primary key,
    name         text not null unique,
    description  text not null,
    url          text not null,
    method       text not null,
    headers      text not null,
    content_type text not null,
    body         text,
    timeout      real not null,
    secrets      text not null,
    retry        text not null,
    redirects    integer not null,
    ca           text,
    certificate  text,
    enabled      integer not null,
    reason       text,
    declared_by  text,
    -- Grows with every write of the row.
    version      integer not null,
    created_by   text not null,
    created_at   integer not null,
    updated_at   integer not null,
    -- When it was last deleted; whether it is.
    deleted_at   integer,
    deleted      integer not null
) strict;
create index oncue_webhooks_declared on oncue_webhooks (declared_by) where declared_by is not null;

-- The group of the jobs that a schedule's slots make: of a schedule whose target is a webhook, its name.
alter table oncue_schedules add column group_name text;
create index oncue_schedules_group on oncue_schedules (group_name) where group_name is not null;

-- How often in a row the circuit breaker of a group has opened; 0: it is closed.
alter table oncue_groups add column trips integer not null default 0 check (trips >= 0);
-- Those that a pause or a breaker may hold back are few, however many groups there are.
create index oncue_groups_held_back on oncue_groups (queue, name) where paused_until is not null or trips > 0;

-- Deliveries by their public name (`identity.py`): the instant it was made, then its number. The words are those of the
-- views `executions` and `delivery_attempts`.
create index oncue_jobs_execution on oncue_jobs (
    printf('%08x-%04x-8%03x-%04x-%012x', created_at / 65536000, created_at / 1000 & 65535, created_at % 1000,
           id >> 48 | 32768, id & 281474976710655))
    where task = 'oncue.deliver';
