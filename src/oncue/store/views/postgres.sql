-- The views in the contracts' words. Operators query them; nothing in oncue does. The comment tells ours from others'.

-- name: job_runs
-- One row for each slot whose job has started or ended: from the ledger once the job is pruned, from the job until then.
-- The expression of `status` is that of the indexes in migrations 002 and 008, word for word.
create or replace view job_runs as
select s.job_id as id, c.name as job_name, s.scheduled_for, s.started_at, s.finished_at,
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
select j.id, c.name, s.scheduled_for, j.started_at, j.finished_at,
       case j.state when 'succeeded' then 'success' when 'skipped' then 'skipped_timeout'
                    when 'failed' then 'failed' when 'cancelled' then 'failed' else 'running' end,
       coalesce(n.name, j.node_id::text),
       case when j.state = 'succeeded' then null
            when j.state <> 'skipped' then coalesce(j.error, j.reason)
            when j.error is not null then j.reason || ': ' || j.error
            when j.started_at is not null then 'Skip: ' || j.reason
            else j.reason end
  from oncue_slots s
  join oncue_schedules c on c.id = s.schedule_id
  join oncue_jobs j on j.id = s.job_id
  left join oncue_nodes n on n.id = j.node_id
 where s.job_id is not null and s.outcome is null and j.schedule_id is not null
   and (j.started_at is not null or j.attempt > 0 or j.finished_at is not null);
comment on view job_runs is 'made by oncue';

-- name: executions
-- One row for each delivery whose job is kept. `job_id` names the schedule that made it; of one that was made by hand, the
-- webhook. Each part is in the words of an index, and has one status: what is asked of one is not looked for in the others.
create or replace view executions as
select oncue_uid(j.id, j.created_at) as id, coalesce(oncue_uid(s.id, s.created_at), oncue_uid(w.id, w.created_at)) as job_id,
       coalesce(j.scheduled_for, j.created_at) as scheduled_at, 'emitted'::text as status, j.created_at
  from oncue_jobs j
  left join oncue_schedules s on s.id = j.schedule_id
  left join oncue_webhooks w on w.name = j.group_name
 where j.queue = 'webhooks' and j.task = 'oncue.deliver' and j.state in ('scheduled', 'queued', 'retrying')
union all
select oncue_uid(j.id, j.created_at), coalesce(oncue_uid(s.id, s.created_at), oncue_uid(w.id, w.created_at)),
       coalesce(j.scheduled_for, j.created_at), 'emitted'::text, j.created_at
  from oncue_jobs j
  left join oncue_schedules s on s.id = j.schedule_id
  left join oncue_webhooks w on w.name = j.group_name
 where j.queue = 'webhooks' and j.task = 'oncue.deliver' and j.state = 'running'
union all
select oncue_uid(j.id, j.created_at), coalesce(oncue_uid(s.id, s.created_at), oncue_uid(w.id, w.created_at)),
       coalesce(j.scheduled_for, j.created_at), 'delivered'::text, j.created_at
  from oncue_jobs j
  left join oncue_schedules s on s.id = j.schedule_id
  left join oncue_webhooks w on w.name = j.group_name
 where j.queue = 'webhooks' and j.task = 'oncue.deliver' and j.state = 'succeeded'
union all
select oncue_uid(j.id, j.created_at), coalesce(oncue_uid(s.id, s.created_at), oncue_uid(w.id, w.created_at)),
       coalesce(j.scheduled_for, j.created_at), 'failed'::text, j.created_at
  from oncue_jobs j
  left join oncue_schedules s on s.id = j.schedule_id
  left join oncue_webhooks w on w.name = j.group_name
 where j.queue = 'webhooks' and j.task = 'oncue.deliver' and j.state in ('failed', 'cancelled', 'skipped');
comment on view executions is 'made by oncue';

-- name: delivery_attempts
-- One row for each attempt of a delivery that was started: from its job while it is the latest, then from the earlier ones.
-- Its name is made of the numbers of the job and of the claim, which stay.
create or replace view delivery_attempts as
select oncue_uid(j.id, timestamptz '1970-01-01 00:00:00+00' + a.claim_no * interval '1 millisecond') as id,
       oncue_uid(j.id, j.created_at) as execution_id, a.attempt,
       case when a.details ->> 'status' ~ '^[0-9]{3}$' then (a.details ->> 'status')::integer end as status_code,
       coalesce(a.error, nullif(a.outcome, 'succeeded')) as error, a.started_at, a.finished_at
  from oncue_jobs j join oncue_attempts a on a.job_id = j.id
 where j.queue = 'webhooks' and j.task = 'oncue.deliver'
union all
select oncue_uid(j.id, timestamptz '1970-01-01 00:00:00+00' + j.claim_no * interval '1 millisecond'),
       oncue_uid(j.id, j.created_at), j.attempt + case when j.state = 'running' then 1 else 0 end,
       case when j.details ->> 'status' ~ '^[0-9]{3}$' then (j.details ->> 'status')::integer end,
       case when j.state <> 'succeeded' then coalesce(j.error, j.reason) end, j.started_at, j.finished_at
  from oncue_jobs j
 where j.queue = 'webhooks' and j.task = 'oncue.deliver'
   and j.state in ('running', 'succeeded', 'failed', 'cancelled', 'skipped') and j.started_at is not null
   and not exists (select from oncue_attempts a where a.job_id = j.id and a.claim_no = j.claim_no);
comment on view delivery_attempts is 'made by oncue';

-- name: job_nodes
-- One row for each node's part of a cluster job, in the words of its contract, as `policy/quorum.py` tells them. The part
-- of a node that is gone stays as it was, and is told as lost, until the cluster job ends. A node is gone once its
-- lease is over and another node has said so.
create or replace view job_nodes as
select cluster_job_id, node_id, node_name, job_id,
       case when status <> 'Lost' then status when has_ended then 'Skipped' when state in ('running', 'skipped') then 'Running'
            when state = 'retrying' then 'Retrying' else 'Queued' end as status,
       status = 'Lost' and not has_ended as lost,
       attempt, started_at, finished_at, error, late
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
                      or not exists (select from oncue_nodes n
                                      where n.lost_at is null
                                        and case when j.state = 'running' then n.id = j.node_id
                                                 else j.address = 'node:' || case when n.named then n.name else n.id::text end
                                                      and j.task = any(n.tasks) and j.queue = any(n.queues) end) then 'Lost'
                    when j.state = 'running' then 'Running'
                    when j.state = 'retrying' then 'Retrying'
                    else 'Queued' end as status,
               coalesce(j.attempt + case j.state when 'running' then 1 else 0 end, 0) as attempt,
               case when p.job_id is null then c.started_at else j.started_at end as started_at,
               case when p.job_id is null then c.finished_at else j.finished_at end as finished_at,
               case when p.job_id is null then c.error when j.state <> 'succeeded' then coalesce(j.error, j.reason) end as error,
               coalesce(p.was_open and j.finished_at is not null and j.reason is distinct from 'cluster_job_ended', false) as late
          from oncue_parts p
          join oncue_jobs c on c.id = p.cluster_id
          left join oncue_jobs j on j.id = p.job_id) as part;
comment on view job_nodes is 'made by oncue';

-- name: cluster_jobs
-- One row for each cluster job. One whose parts are not written is found by its address, each half through an index.
create or replace view cluster_jobs as
select j.id, oncue_uid(j.id, j.created_at) as uid, j.task as job_type,
       case when j.state = 'succeeded' then 'Completed'
            when j.state = 'failed' then 'Failed'
            when j.state = 'cancelled' then 'Cancelled'
            when j.state = 'skipped' then 'Skipped'
            when j.state = 'retrying' then 'Retrying'
            when j.state = 'running' then 'Running'
            when found.spread_at is null then 'New'
            when found.decided_at is not null then 'Running'
            when parts.retrying > 0 and parts.running + parts.queued = 0 then 'Retrying'
            when coalesce(parts.queued + parts.lost = parts.nodes, true) then 'Queued'
            else 'Running' end as status,
       j.key as idempotency_key, j.scheduled_for, coalesce(parts.nodes, 0) as nodes, parts.nodes / 2 + 1 as quorum_needed,
       coalesce(parts.completed, 0) as completed, coalesce(parts.failed, 0) as failed, coalesce(parts.skipped, 0) as skipped,
       coalesce(parts.lost, 0) as lost, found.quorum, found.epoch, j.created_at, found.spread_at, found.decided_at,
       j.finished_at, j.reason, j.error
  from (select job_id, spread_at, epoch, decided_at, quorum from oncue_cluster_jobs
        union all
        select id, null, null, null, null from oncue_jobs w
         where queue = 'cluster' and address = 'cluster' and state in ('scheduled', 'queued', 'retrying')
           and not exists (select from oncue_cluster_jobs k where k.job_id = w.id)
        union all
        select id, null, null, null, null from oncue_jobs w
         where queue = 'cluster' and address = 'cluster' and state in ('succeeded', 'failed', 'cancelled', 'skipped')
           and not exists (select from oncue_cluster_jobs k where k.job_id = w.id)) as found
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
comment on view cluster_jobs is 'made by oncue';
