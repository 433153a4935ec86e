-- Cluster jobs: which jobs these are, and the part that each node has in them.

create table oncue_cluster_jobs (
    job_id        bigint primary key,
    -- When its parts were written, by which node, leading under which epoch.
    spread_at     timestamptz not null,
    node_id       uuid not null,
    epoch         bigint not null,
    -- When the leader stopped waiting for parts, and whether a quorum of them was completed by then.
    decided_at    timestamptz,
    decided_by    uuid,
    decided_epoch bigint,
    quorum        boolean
);

create table oncue_parts (
    cluster_id bigint not null,
    node_id    uuid not null,
    node_name  text not null,
    -- The job of this part; null where all there is to do is the leader action.
    job_id     bigint,
    -- Whether that had not ended when the cluster job did; null until then. What it comes to later changes nothing here.
    was_open   boolean,
    primary key (cluster_id, node_id)
);
create unique index oncue_parts_job on oncue_parts (job_id) where job_id is not null;
-- A node that starts asks for what an earlier process of its name has begun.
create index oncue_parts_open on oncue_parts (node_name) where was_open is null;

-- Where alone the jobs of a schedule may run, if that is not any node: those of a cluster task are for the cluster.
alter table oncue_schedules add column address text;
