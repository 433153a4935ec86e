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
