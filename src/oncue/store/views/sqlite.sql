-- The views in the contracts' words. Operators query them; nothing in oncue does. Instants are texts, in UTC.

-- name: job_runs
-- One row for each slot whose job has started or ended: from the ledger once the job is pruned, from the job until then.
-- The expressions of `status` and `started_at` are those of the indexes in migration 008, word for word.
create view job_runs as /* made by oncue */
select s.job_id as id, c.name as job_name,
       strftime('%Y-%m-%d %H:%M:%S', s.scheduled_for / 1000000, 'unixepoch') || printf('.%06d', s.scheduled_for % 1000000) as scheduled_for,
       strftime('%Y-%m-%d %H:%M:%S', s.started_at / 1000000, 'unixepoch') || printf('.%06d', s.started_at % 1000000) as started_at,
       strftime('%Y-%m-%d %H:%M:%S', s.finished_at / 1000000, 'unixepoch') || printf('.%06d', s.finished_at % 1000000) as finished_at,
       case s.outcome when 'succeeded' then 'success' when 'skipped' then 'skipped_timeout' else 'failed' end as status,
       s.worker as worker_instance,
       case when s.outcome = 'succeeded' then null
            when s.outcome <> 'skipped' then coalesce(s.error, s.outcome_reason)
            when s.error is not null then s.outcome_reason || ': ' || s.error
            when s.started_at is not null then 'Skip: ' || s.outcome_reason
            else s.outcome_reason end as error_message
  from oncue_slots s join oncue_schedules c on c.id = s.schedule_id
 where s.outcome is not null
union all
select j.id, c.name,
       strftime('%Y-%m-%d %H:%M:%S', s.scheduled_for / 1000000, 'unixepoch') || printf('.%06d', s.scheduled_for % 1000000),
       strftime('%Y-%m-%d %H:%M:%S', j.started_at / 1000000, 'unixepoch') || printf('.%06d', j.started_at % 1000000),
       strftime('%Y-%m-%d %H:%M:%S', j.finished_at / 1000000, 'unixepoch') || printf('.%06d', j.finished_at % 1000000),
       case j.state when 'succeeded' then 'success' when 'skipped' then 'skipped_timeout'
                    when 'failed' then 'failed' when 'cancelled' then 'failed' else 'running' end,
       coalesce(n.name, j.node_id),
       case when j.state = 'succeeded' then null
            when j.state <> 'skipped' then coalesce(j.error, j.reason)
            when j.error is not null then j.reason || ': ' || j.error
            when j.started_at is not null then 'Skip: ' || j.reason
            else j.reason end
  from oncue_slots s
  join oncue_schedules c on c.id = s.schedule_id
  join oncue_jobs j on j.id = s.job_id
  left join oncue_nodes n on n.id = j.node_id
 where s.outcome is null and unlikely(j.schedule_id is not null)
   and (j.started_at is not null or j.attempt > 0 or j.finished_at is not null);

-- name: executions
-- One row for each delivery whose job is kept. `job_id` names the schedule that made it; of one that was made by hand, the
-- webhook. Each part is in the words of an index, and has one status: what is asked of one is not looked for in the others.
create view executions as /* made by oncue */
select printf('%08x-%04x-8%03x-%04x-%012x', j.created_at / 65536000, j.created_at / 1000 & 65535, j.created_at % 1000,
              j.id >> 48 | 32768, j.id & 281474976710655) as id,
       case when s.id is not null
            then printf('%08x-%04x-8%03x-%04x-%012x', s.created_at / 65536000, s.created_at / 1000 & 65535, s.created_at % 1000,
              s.id >> 48 | 32768, s.id & 281474976710655)
            when w.id is not null
            then printf('%08x-%04x-8%03x-%04x-%012x', w.created_at / 65536000, w.created_at / 1000 & 65535, w.created_at % 1000,
              w.id >> 48 | 32768, w.id & 281474976710655) end as job_id,
       strftime('%Y-%m-%d %H:%M:%S', coalesce(j.scheduled_for, j.created_at) / 1000000, 'unixepoch') || printf('.%06d', coalesce(j.scheduled_for, j.created_at) % 1000000) as scheduled_at,
       'emitted' as status,
       strftime('%Y-%m-%d %H:%M:%S', j.created_at / 1000000, 'unixepoch') || printf('.%06d', j.created_at % 1000000) as created_at
  from oncue_jobs j
  left join oncue_schedules s on s.id = j.schedule_id
  left join oncue_webhooks w on w.name = j.group_name
 where j.queue = 'webhooks' and j.task = 'oncue.deliver' and (j.state = 'scheduled' or j.state = 'queued' or j.state = 'retrying')
union all
select printf('%08x-%04x-8%03x-%04x-%012x', j.created_at / 65536000, j.created_at / 1000 & 65535, j.created_at % 1000,
              j.id >> 48 | 32768, j.id & 281474976710655),
       case when s.id is not null
            then printf('%08x-%04x-8%03x-%04x-%012x', s.created_at / 65536000, s.created_at / 1000 & 65535, s.created_at % 1000,
              s.id >> 48 | 32768, s.id & 281474976710655)
            when w.id is not null
            then printf('%08x-%04x-8%03x-%04x-%012x', w.created_at / 65536000, w.created_at / 1000 & 65535, w.created_at % 1000,
              w.id >> 48 | 32768, w.id & 281474976710655) end,
       strftime('%Y-%m-%d %H:%M:%S', coalesce(j.scheduled_for, j.created_at) / 1000000, 'unixepoch') || printf('.%06d', coalesce(j.scheduled_for, j.created_at) % 1000000),
       'emitted',
       strftime('%Y-%m-%d %H:%M:%S', j.created_at / 1000000, 'unixepoch') || printf('.%06d', j.created_at % 1000000)
  from oncue_jobs j
  left join oncue_schedules s on s.id = j.schedule_id
  left join oncue_webhooks w on w.name = j.group_name
 where j.queue = 'webhooks' and j.task = 'oncue.deliver' and j.state = 'running' and j.group_name is not null
union all
select printf('%08x-%04x-8%03x-%04x-%012x', j.created_at / 65536000, j.created_at / 1000 & 65535, j.created_at % 1000,
              j.id >> 48 | 32768, j.id & 281474976710655),
       case when s.id is not null
            then printf('%08x-%04x-8%03x-%04x-%012x', s.created_at / 65536000, s.created_at / 1000 & 65535, s.created_at % 1000,
              s.id >> 48 | 32768, s.id & 281474976710655)
            when w.id is not null
            then printf('%08x-%04x-8%03x-%04x-%012x', w.created_at / 65536000, w.created_at / 1000 & 65535, w.created_at % 1000,
              w.id >> 48 | 32768, w.id & 281474976710655) end,
       strftime('%Y-%m-%d %H:%M:%S', coalesce(j.scheduled_for, j.created_at) / 1000000, 'unixepoch') || printf('.%06d', coalesce(j.scheduled_for, j.created_at) % 1000000),
       'delivered',
       strftime('%Y-%m-%d %H:%M:%S', j.created_at / 1000000, 'unixepoch') || printf('.%06d', j.created_at % 1000000)
  from oncue_jobs j
  left join oncue_schedules s on s.id = j.schedule_id
  left join oncue_webhooks w on w.name = j.group_name
 where j.queue = 'webhooks' and j.task = 'oncue.deliver' and j.state = 'succeeded'
   and (j.state = 'succeeded' or j.state = 'failed' or j.state = 'cancelled' or j.state = 'skipped')
union all
select printf('%08x-%04x-8%03x-%04x-%012x', j.created_at / 65536000, j.created_at / 1000 & 65535, j.created_at % 1000,
              j.id >> 48 | 32768, j.id & 281474976710655),
       case when s.id is not null
            then printf('%08x-%04x-8%03x-%04x-%012x', s.created_at / 65536000, s.created_at / 1000 & 65535, s.created_at % 1000,
              s.id >> 48 | 32768, s.id & 281474976710655)
            when w.id is not null
            then printf('%08x-%04x-8%03x-%04x-%012x', w.created_at / 65536000, w.created_at / 1000 & 65535, w.created_at % 1000,
              w.id >> 48 | 32768, w.id & 281474976710655) end,
       strftime('%Y-%m-%d %H:%M:%S', coalesce(j.scheduled_for, j.created_at) / 1000000, 'unixepoch') || printf('.%06d', coalesce(j.scheduled_for, j.created_at) % 1000000),
       'failed',
       strftime('%Y-%m-%d %H:%M:%S', j.created_at / 1000000, 'unixepoch') || printf('.%06d', j.created_at % 1000000)
  from oncue_jobs j
  left join oncue_schedules s on s.id = j.schedule_id
  left join oncue_webhooks w on w.name = j.group_name
 where j.queue = 'webhooks' and j.task = 'oncue.deliver' and j.state <> 'succeeded'
   and (j.state = 'succeeded' or j.state = 'failed' or j.state = 'cancelled' or j.state = 'skipped');

-- name: delivery_attempts
-- One row for each attempt of a delivery that was started: from its job while it is the latest, then from the earlier ones.
-- Its name is made of the numbers of the job and of the claim, which stay.
create view delivery_attempts as /* made by oncue */
select printf('%08x-%04x-8000-%04x-%012x', a.claim_no / 65536, a.claim_no & 65535,
              j.id >> 48 | 32768, j.id & 281474976710655) as id,
       printf('%08x-%04x-8%03x-%04x-%012x', j.created_at / 65536000, j.created_at / 1000 & 65535, j.created_at % 1000,
              j.id >> 48 | 32768, j.id & 281474976710655) as execution_id,
       a.attempt, case when typeof(a.details ->> 'status') = 'integer' then a.details ->> 'status' end as status_code,
       coalesce(a.error, nullif(a.outcome, 'succeeded')) as error,
       strftime('%Y-%m-%d %H:%M:%S', a.started_at / 1000000, 'unixepoch') || printf('.%06d', a.started_at % 1000000) as started_at,
       strftime('%Y-%m-%d %H:%M:%S', a.finished_at / 1000000, 'unixepoch') || printf('.%06d', a.finished_at % 1000000) as finished_at
  from oncue_jobs j join oncue_attempts a on a.job_id = j.id
 where j.queue = 'webhooks' and j.task = 'oncue.deliver'
union all
select printf('%08x-%04x-8000-%04x-%012x', j.claim_no / 65536, j.claim_no & 65535,
              j.id >> 48 | 32768, j.id & 281474976710655),
       printf('%08x-%04x-8%03x-%04x-%012x', j.created_at / 65536000, j.created_at / 1000 & 65535, j.created_at % 1000,
              j.id >> 48 | 32768, j.id & 281474976710655),
       j.attempt + (j.state = 'running'), case when typeof(j.details ->> 'status') = 'integer' then j.details ->> 'status' end,
       case when j.state <> 'succeeded' then coalesce(j.error, j.reason) end,
       strftime('%Y-%m-%d %H:%M:%S', j.started_at / 1000000, 'unixepoch') || printf('.%06d', j.started_at % 1000000),
       strftime('%Y-%m-%d %H:%M:%S', j.finished_at / 1000000, 'unixepoch') || printf('.%06d', j.finished_at % 1000000)
  from oncue_jobs j
 where j.queue = 'webhooks' and j.task = 'oncue.deliver'
   and (j.state = 'running' or j.state = 'succeeded' or j.state = 'failed' or j.state = 'cancelled' or j.state = 'skipped')
   and j.started_at is not null
   and not exists (select 1 from oncue_attempts a where a.job_id = j.id and a.claim_no = j.claim_no);

-- name: job_nodes
-- One row for each node's part of a cluster job, in the words of its contract, as `policy/quorum.py` tells them. The part
-- of a node that is gone stays as it was, and is told as lost, until the cluster job ends. A node is gone once its
-- lease is over and another node has said so.
create view job_nodes as /* made by oncue */
select cluster_job_id, node_id, node_name, job_id,
       case when status <> 'Lost' then status when has_ended then 'Skipped' when state in ('running', 'skipped') then 'Running'
            when state = 'retrying' then 'Retrying' else 'Queued' end as status,
       status = 'Lost' and not has_ended as lost,
       attempt,
       strftime('%Y-%m-%d %H:%M:%S', started_at / 1000000, 'unixepoch') || printf('.%06d', started_at % 1000000) as started_at,
       strftime('%Y-%m-%d %H:%M:%S', finished_at / 1000000, 'unixepoch') || printf('.%06d', finished_at % 1000000) as finished_at,
       error, late
  from (select p.cluster_id as cluster_job_id, p.node_id, p.node_name, p.job_id, j.state,
               c.state in ('succeeded', 'failed', 'cancelled', 'skipped') as has_ended,
               case when p.was_open then case c.state when 'cancelled' then 'Cancelled' else 'Skipped' end
                    when p.job_id is null
                    then case c.state when 'succeeded' then 'Completed' when 'failed' then 'Failed'
                                      when 'cancelled' then 'Cancelled' when 'skipped' then 'Skipped'
                                      when 'running' then 'Running' when 'retrying' then 'Retrying' else 'Queued' end
                    when j.state = 'succeeded' then 'Completed'
                    when j.state = 'failed' then 'Failed'
                    when j.state = 'cancelled' then 'Cancelled'
                    when j.state = 'skipped' and j.reason = 'skipped_timeout'
                    then case when j.error = 'node_lost' then 'Lost' else 'Failed' end
                    when j.state = 'skipped' then case j.reason when 'interrupted' then 'Failed' else 'Skipped' end
                    when j.state is null
                      or not exists (select 1 from oncue_nodes n
                                      where n.lost_at is null
                                        and iif(j.state = 'running', n.id = j.node_id,
                                                j.address = 'node:' || iif(n.named, n.name, n.id)
                                                and j.task in (select value from json_each(n.tasks))
                                                and j.queue in (select value from json_each(n.queues)))) then 'Lost'
                    when j.state = 'running' then 'Running'
                    when j.state = 'retrying' then 'Retrying'
                    else 'Queued' end as status,
               coalesce(j.attempt + (j.state = 'running'), 0) as attempt,
               case when p.job_id is null then c.started_at else j.started_at end as started_at,
               case when p.job_id is null then c.finished_at else j.finished_at end as finished_at,
               case when p.job_id is null then c.error when j.state <> 'succeeded' then coalesce(j.error, j.reason) end as error,
               coalesce(p.was_open and j.finished_at is not null and j.reason is not 'cluster_job_ended', 0) as late
          from oncue_parts p
          join oncue_jobs c on c.id = p.cluster_id
          left join oncue_jobs j on j.id = p.job_id) as part;

-- name: cluster_jobs
-- One row for each cluster job. One whose parts are not written is found by its address, each half through an index.
create view cluster_jobs as /* made by oncue */
select j.id,
       printf('%08x-%04x-8%03x-%04x-%012x', j.created_at / 65536000, j.created_at / 1000 & 65535, j.created_at % 1000,
              j.id >> 48 | 32768, j.id & 281474976710655) as uid,
       j.task as job_type,
       case when j.state = 'succeeded' then 'Completed'
            when j.state = 'failed' then 'Failed'
            when j.state = 'cancelled' then 'Cancelled'
            when j.state = 'skipped' then 'Skipped'
            when j.state = 'retrying' then 'Retrying'
            when j.state = 'running' then 'Running'
            when found.spread_at is null then 'New'
            when found.decided_at is not null then 'Running'
            when parts.retrying > 0 and parts.running + parts.queued = 0 then 'Retrying'
            when coalesce(parts.queued + parts.lost = parts.nodes, 1) then 'Queued'
            else 'Running' end as status,
       j.key as idempotency_key,
       strftime('%Y-%m-%d %H:%M:%S', j.scheduled_for / 1000000, 'unixepoch') || printf('.%06d', j.scheduled_for % 1000000) as scheduled_for,
       coalesce(parts.nodes, 0) as nodes, parts.nodes / 2 + 1 as quorum_needed,
       coalesce(parts.completed, 0) as completed, coalesce(parts.failed, 0) as failed, coalesce(parts.skipped, 0) as skipped,
       coalesce(parts.lost, 0) as lost, found.quorum, found.epoch,
       strftime('%Y-%m-%d %H:%M:%S', j.created_at / 1000000, 'unixepoch') || printf('.%06d', j.created_at % 1000000) as created_at,
       strftime('%Y-%m-%d %H:%M:%S', found.spread_at / 1000000, 'unixepoch') || printf('.%06d', found.spread_at % 1000000) as spread_at,
       strftime('%Y-%m-%d %H:%M:%S', found.decided_at / 1000000, 'unixepoch') || printf('.%06d', found.decided_at % 1000000) as decided_at,
       strftime('%Y-%m-%d %H:%M:%S', j.finished_at / 1000000, 'unixepoch') || printf('.%06d', j.finished_at % 1000000) as finished_at,
       j.reason, j.error
  from (select job_id, spread_at, epoch, decided_at, quorum from oncue_cluster_jobs
        union all
        select id, null, null, null, null from oncue_jobs w
         where queue = 'cluster' and address = 'cluster' and (state = 'scheduled' or state = 'queued' or state = 'retrying')
           and not exists (select 1 from oncue_cluster_jobs k where k.job_id = w.id)
        union all
        select id, null, null, null, null from oncue_jobs w
         where queue = 'cluster' and address = 'cluster'
           and (state = 'succeeded' or state = 'failed' or state = 'cancelled' or state = 'skipped')
           and not exists (select 1 from oncue_cluster_jobs k where k.job_id = w.id)) as found
  join oncue_jobs j on j.id = found.job_id
  left join (select cluster_job_id, count(*) as nodes,
                    count(*) filter (where status = 'Completed') as completed,
                    count(*) filter (where status = 'Failed') as failed,
                    count(*) filter (where status = 'Skipped') as skipped,
                    count(*) filter (where lost) as lost,
                    count(*) filter (where status = 'Queued' and not lost) as queued,
                    count(*) filter (where status = 'Running' and not lost) as running,
                    count(*) filter (where status = 'Retrying' and not lost) as retrying
               from job_nodes group by cluster_job_id) as parts on parts.cluster_job_id = j.id;
