-- Cluster jobs: which jobs these are, and the part that each node has in them.

create table oncue_cluster_jobs (
    job_id        integer primary key,
    -- When its parts were written, by which node, leading under which epoch.
    spread_at     integer not null,
    node_id       text not null,
    epoch         integer not null,
    -- When the leader stopped waiting for parts, and whether a quorum of them was completed by then.
    decided_at    integer,
    decided_by    text,
    decided_epoch integer,
    quorum        integer check (quorum in (0, 1))
) strict;

create table oncue_parts (
    cluster_id integer not null,
    node_id    text not null,
    node_name  text not null,
    -- The job of this part; null where all there is to do is the leader action.
    job_id     integer,
    -- Whether that had not ended when the cluster job did; null until then. What it comes to later changes nothing here.
    was_open   integer check (was_open in (0, 1)),
    primary key (cluster_id, node_id)
) strict, without rowid;
create unique index oncue_parts_job on oncue_parts (job_id) where job_id is not null;
-- A node that starts asks for what an earlier process of its name has begun.
create index oncue_parts_open on oncue_parts (node_name) where was_open is null;

-- Where alone the jobs of a schedule may run, if that is not any node: those of a cluster task are for the cluster.
alter table oncue_schedules add column address text;
