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
