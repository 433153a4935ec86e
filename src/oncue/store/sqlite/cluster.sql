-- Cluster jobs, for SQLite.

-- name: members
-- The nodes that take part: alive, knowing the task, serving its queue and not standing by, or the leader alone.
select n.id, n.name, iif(n.named, n.name, n.id)
  from oncue_nodes n
 where n.lost_at is null and n.expires_at > :now
   and :part_task in (select value from json_each(n.tasks)) and :part_queue in (select value from json_each(n.queues))
   and (:nodes is null or n.name in (select value from json_each(:nodes))) and (not :leader_only or n.id = :node)
   and not exists (select 1 from oncue_leases where name = 'exclusive' and holder <> n.id and expires_at > :now)
 order by n.name, n.id;

-- name: leads_now
select 1 from oncue_leases where name = 'leader' and holder = :node and epoch = :epoch and expires_at > :now;

-- name: record_cluster_job
insert into oncue_cluster_jobs (job_id, spread_at, node_id, epoch) values (:job_id, :now, :node, :epoch)
    on conflict (job_id) do nothing;

-- name: cluster_job_written
select exists (select 1 from oncue_jobs where id in (select value from json_each(:ids)));

-- name: waiting_cluster_job
select args, priority, scheduled_for from oncue_jobs where id = :job_id and state = 'queued' and address = 'cluster';

-- name: start_cluster_job
-- It has begun: the grace of its slot is kept.
update oncue_jobs set start_by = null, updated_at = :now where id = :job_id;

-- name: write_part_jobs
-- An unnamed node is addressed by its id. A part knows the slot of its cluster job, and is no job of that schedule.
insert into oncue_jobs ({new_job})
select part.value ->> 0, :args, null, :part_task, :part_queue, :priority, 'queued', :part_options, :part_retries,
       :part_runtime, :now, :now, :now, :now, null, 'cluster:' || :job_id, null, null, :scheduled_for, null, null,
       'node:' || (part.value ->> 3)
  from json_each(:parts) as part;

-- name: write_parts
insert into oncue_parts (cluster_id, node_id, node_name, job_id)
select :job_id, part.value ->> 1, part.value ->> 2, part.value ->> 0 from json_each(:parts) as part;

-- name: release_cluster_job
update oncue_jobs set address = 'role:leader', visible_at = :now, updated_at = :now
 where id = :job_id and state = 'queued' and address = 'cluster'
   and exists (select 1 from oncue_leases where name = 'leader' and holder = :node and epoch = :epoch and expires_at > :now);

-- name: decide_cluster_job
update oncue_cluster_jobs set decided_at = :now, decided_by = :node, decided_epoch = :epoch, quorum = :quorum
 where job_id = :job_id;

-- name: _cluster_job
-- A part is in good hands while the node lives that runs it, or that may claim it.
select {job},
       (select json_array(k.spread_at, k.epoch, k.decided_at, k.decided_epoch, k.quorum)
          from oncue_cluster_jobs k where k.job_id = oncue_jobs.id),
       (select json_group_array(json_array(
                   p.node_id, p.node_name, p.job_id, p.was_open, j.state, j.reason, j.error,
                   iif(:results, json(j.result), null), j.attempt, j.visible_at, j.claimed_at, j.started_at, j.finished_at,
                   exists (select 1 from oncue_nodes n
                            where n.lost_at is null and n.expires_at > :now
                              and iif(j.state = 'running', n.id = j.node_id,
                                      j.address = 'node:' || iif(n.named, n.name, n.id)
                                      and j.task in (select value from json_each(n.tasks))
                                      and j.queue in (select value from json_each(n.queues))))))
          from (select * from oncue_parts where cluster_id = oncue_jobs.id order by node_name, node_id) as p
          left join oncue_jobs j on j.id = p.job_id)
  from oncue_jobs

-- name: undecided
{_cluster_job}
 where id in (select id from oncue_jobs indexed by oncue_jobs_addressed
               where {addressed} and address = 'cluster' and id > :after order by id limit :limit)
 order by id;

-- name: any_undecided
select exists (select 1 from oncue_jobs indexed by oncue_jobs_addressed where {addressed} and address = 'cluster');

-- name: cluster_jobs
{_cluster_job}
 where id in (select value from json_each(:ids))
   and (address = 'cluster' or exists (select 1 from oncue_cluster_jobs k where k.job_id = oncue_jobs.id))
 order by id desc;

-- name: cluster_jobs_page
{_cluster_job}
 where id in (select id from (
                  select * from (select job_id as id from oncue_cluster_jobs where job_id < :before
                                  order by job_id desc limit :limit)
                  union
                  select id from oncue_jobs indexed by oncue_jobs_addressed
                   where {addressed} and address = 'cluster' and id < :before)
               order by id desc limit :limit)
 order by id desc;

-- name: whole_of
select job_id, cluster_id from oncue_parts where job_id in (select value from json_each(:ids));

-- name: interrupted
select {job} from oncue_jobs
 where id in (select job_id from oncue_parts where node_name = :name and was_open is null and job_id is not null)
   and state in ('scheduled', 'queued', 'retrying') and attempt > 0 and node_id <> :node and address = 'node:' || :name
 order by id;
