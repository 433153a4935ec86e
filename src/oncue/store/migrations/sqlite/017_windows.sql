-- Daily windows: for whom a window opens every day, and how many came to what.

-- A window is a schedule. These are few, however many schedules there are.
create index oncue_schedules_windows on oncue_schedules (name) where substr(expression, 1, 7) = '@window';

-- A removed subject keeps its row: added again on the same day, it must not get a second outcome.
create table oncue_subjects (
    schedule_id integer not null,
    name        text not null,
    -- When its window is over: the minute of the day, in its zone (null: the window's).
    due         integer not null check (due between 0 and 1439),
    tz          text,
    weekdays    integer not null check (weekdays between 1 and 127),
    days_off    text not null,
    args        text not null,
    -- Grows with every write of the row.
    version     integer not null,
    since       integer not null,
    -- The day that the planner looks at next, and when: its opening, then its cutoff. Null: removed.
    day         text not null,
    opens_at    integer not null,
    cutoff_at   integer not null,
    next_at     integer,
    job_id      integer,
    last_date   text,
    status      text check (status in ('success', 'cutoff_reached', 'missed')),
    reason      text,
    last_run_at integer,
    created_at  integer not null,
    updated_at  integer not null,
    removed_at  integer,
    primary key (schedule_id, name)
) without rowid;
-- The planner reads the head of this one: a tick costs what is due, not what there is.
create index oncue_subjects_due on oncue_subjects (schedule_id, next_at, name) where next_at is not null;
create index oncue_subjects_removed on oncue_subjects (removed_at) where removed_at is not null;

-- Of a window's job: whose it is. The slot of its day is (schedule_id, subject, scheduled_for).
alter table oncue_jobs add column subject text;

-- How many subjects of a window came to what on a day, by the minute of their cutoff in UTC. What happens is appended to
-- the second table, so that no transaction waits for another one's, and added to the first one later.
create table oncue_window_days (
    schedule_id integer not null,
    day         text not null,
    bucket      integer not null check (bucket between 0 and 1439),
    event       text not null check (event in ('opened', 'success', 'cutoff_reached', 'added_late', 'missed')),
    subjects    integer not null,
    primary key (schedule_id, day, bucket, event)
);
create table oncue_window_deltas (
    id          integer primary key,
    schedule_id integer not null,
    day         text not null,
    bucket      integer not null check (bucket between 0 and 1439),
    event       text not null check (event in ('opened', 'success', 'cutoff_reached', 'added_late', 'missed')),
    subjects    integer not null
);
-- What may be pruned of the days of subjects: they are kept for a shorter time than other slots.
create index oncue_slots_old_days on oncue_slots (coalesce(until, scheduled_for))
    where subject <> '' and (job_id is null or outcome is not null);
-- Those of schedules without subjects have an index of their own, so that neither passes over the other's rows.
drop index oncue_slots_old;
create index oncue_slots_old on oncue_slots (coalesce(until, scheduled_for))
    where subject = '' and (job_id is null or outcome is not null);
