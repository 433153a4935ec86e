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
