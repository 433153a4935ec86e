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
