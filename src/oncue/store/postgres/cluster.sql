-- Cluster jobs, for PostgreSQL.

-- name: _member
-- The nodes that take part: alive, knowing the task, serving its queue and not standing by, or the leader alone. If one
-- that is named is none of these, nobody takes part.
-- A node that takes its name meanwhile is waited for; or it waits, and then finds its part under its id, and moves it.
unnamed as materialized (
    select id, name, named from oncue_nodes
     where id = any(array(select id from oncue_nodes where not named and lost_at is null)) for share
), active as materialized (
    select n.id, coalesce(u.name, n.name) as name,
           case when coalesce(u.named, n.named) then coalesce(u.name, n.name) else n.id::text end as address
      from oncue_nodes n left join unnamed u on u.id = n.id cross join leads
     where n.lost_at is null and n.expires_at > $1 and $5 = any(n.tasks) and $6 = any(n.queues)
       and ($10::text[] is null or coalesce(u.name, n.name) = any($10::text[])) and (not $11::boolean or n.id = $2)
       and not exists (select from oncue_leases where name = 'exclusive' and holder <> n.id and expires_at > $1)
), member as materialized (
    select active.* from active
     where $10::text[] is null or (select count(distinct name) from active) = cardinality($10::text[])
)

-- name: _leads
leads as materialized (
    select from oncue_leases where name = 'leader' and holder = $2 and epoch = $3 and expires_at > $1
)

-- name: _parts
numbered as materialized (
    select made.id as cluster_id, made.args, made.priority, made.scheduled_for, member.*,
           case when not $11::boolean then nextval('oncue_job_ids') end as job_id
      from made cross join member
), part_jobs as (
    -- An unnamed node is addressed by its id. A part knows the slot of its cluster job, and is no job of that schedule.
    insert into oncue_jobs ({new_job})
    select job_id, args, null, $5, $6, priority, 'queued', $7, $8, $9, $1, $1, $1, $1, null, 'cluster:' || cluster_id, null,
           null, scheduled_for, null, null, 'node:' || address
      from numbered where job_id is not null
), parts as (
    insert into oncue_parts (cluster_id, node_id, node_name, job_id) select cluster_id, id, name, job_id from numbered
)

-- name: create_cluster_job
with {_leads}, {_member}, made as (
    insert into oncue_jobs ({new_job})
    select $4, $12::json, $13, $14, $15, $16, 'queued', $17, $18, $19, $1, $1, $1, $1, $20, $21, $22, null, null, null, null,
           'cluster'
     where exists (select from member)
        on conflict (task, key) where key is not null and state in ('scheduled', 'queued', 'running', 'retrying')
        do nothing
    returning id, args, priority, scheduled_for
), recorded as (
    insert into oncue_cluster_jobs (job_id, spread_at, node_id, epoch) select id, $1, $2, $3 from made
), {_parts}
select (select count(*) from leads), (select count(*) from member), (select count(*) from made),
       (select pg_notify('oncue', '')::text where $23);

-- name: spread
-- The row of the job is locked first: it may be cancelled at the same time. If another session holds it, a later look
-- goes on with it: the others do not wait. Of two leaders one writes the record.
with {_leads}, {_member}, waiting as materialized (
    select id, args, priority, scheduled_for from oncue_jobs
     where id = $4 and state || '' = 'queued' and address = 'cluster' and exists (select from leads)
       for no key update skip locked
), recorded as (
    insert into oncue_cluster_jobs (job_id, spread_at, node_id, epoch) select id, $1, $2, $3 from waiting
        on conflict (job_id) do nothing
    returning job_id
), made as (
    select waiting.* from waiting join recorded on recorded.job_id = waiting.id
), started as (
    -- It has begun: the grace of its slot is kept.
    update oncue_jobs set start_by = null, updated_at = $1 where id = (select id from made)
), {_parts}
select (select count(*) from made), (select count(*) from member), (select pg_notify('oncue', '')::text);

-- name: release_cluster_job
-- As in `spread`: not past a lock.
with {_leads}, free as materialized (
    select id from oncue_jobs where id = $4 for no key update skip locked
), moved as (
    update oncue_jobs set address = 'role:leader', visible_at = $1, updated_at = $1
     where id = (select id from free) and state || '' = 'queued' and address = 'cluster' and exists (select from leads)
    returning id
), decided as (
    update oncue_cluster_jobs set decided_at = $1, decided_by = $2, decided_epoch = $3, quorum = $5
     where job_id = (select id from moved)
)
select id from moved;

-- name: _cluster_job
-- A part is in good hands while the node lives that runs it, or that may claim it.
select {job},
       (select json_build_array(k.spread_at, k.epoch, k.decided_at, k.decided_epoch, k.quorum)
          from oncue_cluster_jobs k where k.job_id = oncue_jobs.id) as record,
       (select json_agg(json_build_array(
                   p.node_id, p.node_name, p.job_id, p.was_open, j.state, j.reason, j.error,
                   case when $2::boolean then j.result end, j.attempt, j.visible_at, j.claimed_at, j.started_at, j.finished_at,
                   exists (select from oncue_nodes n
                            where n.lost_at is null and n.expires_at > $1
                              and case when j.state = 'running' then n.id = j.node_id
                                       else j.address = 'node:' || case when n.named then n.name else n.id::text end
                                            and j.task = any(n.tasks) and j.queue = any(n.queues) end))
                   order by p.node_name, p.node_id)
          from oncue_parts p
          left join lateral (select * from oncue_jobs part where part.id = p.job_id offset 0) as j on true
         where p.cluster_id = oncue_jobs.id) as parts
  from oncue_jobs

-- name: undecided
{_cluster_job}
 where id = any(array(select id from (select id from oncue_jobs where {addressed} and address = 'cluster' offset 0) as waiting
                       where id > $4 order by id limit $3))
 order by id;

-- name: cluster_jobs
{_cluster_job}
 where id = any($3::bigint[])
   and (address = 'cluster' or exists (select from oncue_cluster_jobs k where k.job_id = oncue_jobs.id))
 order by id desc;

-- name: cluster_jobs_page
{_cluster_job}
 where id = any(array(select id from (
                          (select job_id as id from oncue_cluster_jobs where job_id < $3 order by job_id desc limit (select $4::int))
                          union
                          (select id from oncue_jobs where {addressed} and address = 'cluster' and id < $3)) as found
                       order by id desc limit (select $4::int)))
 order by id desc;

-- name: whole_of
select job_id, cluster_id from oncue_parts where job_id = any($1::bigint[]);

-- name: interrupted
select {job} from oncue_jobs
 where id = any(array(select job_id from oncue_parts where node_name = $1 and was_open is null and job_id is not null))
   and state || '' in ('scheduled', 'queued', 'retrying') and attempt > 0 and node_id <> $2 and address = 'node:' || $1
 order by id;
