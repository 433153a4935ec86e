-- What each node measured in a minute, and what the leader's watcher made of all of that.

-- A row is written once its minute is over, and says what it says however often it is written. `kind` is what was measured:
-- ticks of the planner, a queue, a window, a schedule, or the totals of a queue.
create table oncue_minutes (
    minute  timestamptz not null,
    node_id uuid not null,
    kind    text not null,
    name    text not null,
    figures json not null,
    primary key (minute, node_id, kind, name)
);

-- The state of every SLO and alert, in one row: it is written under its version and the leader's epoch.
create table oncue_alerts (
    id           integer primary key check (id = 1),
    version      bigint not null,
    evaluated_at timestamptz not null,
    alerts       json not null
);
