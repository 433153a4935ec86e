-- Webhooks and their deliveries, for SQLite.

-- name: webhooks
select {webhook} from oncue_webhooks where name in (select value from json_each(:names)) order by name;

-- name: webhooks_page
select {webhook} from oncue_webhooks where name > :after and not deleted order by name limit :limit;

-- name: declared_webhooks
select {webhook} from oncue_webhooks where declared_by is not null and not deleted order by name;

-- name: create_webhook
insert into oncue_webhooks (name, version, {webhook_fields})
values (:name, :expected + 1, :description, :url, :method, :headers, :content_type, :body, :timeout, :secrets, :retry,
        :redirects, :ca, :certificate, :enabled, :reason, :declared_by, :created_by, :created_at, :updated_at,
        :deleted_at, :deleted)
    on conflict (name) do nothing;

-- name: change_webhook
update oncue_webhooks
   set (version, {webhook_fields}) =
       (:expected + 1, :description, :url, :method, :headers, :content_type, :body, :timeout, :secrets, :retry,
        :redirects, :ca, :certificate, :enabled, :reason, :declared_by, :created_by, :created_at, :updated_at,
        :deleted_at, :deleted)
 where name = :name and version = :expected;

-- name: retell_schedules
-- The schedules whose target it is make deliveries with these options from here on. A leader that has read one of them
-- before must look again.
update oncue_schedules indexed by oncue_schedules_group
   set options = :options, max_retries = :max_retries, version = version + 1
 where group_name = :name and task = 'oncue.deliver';

-- name: executions
-- The newest deliveries of each state to an endpoint, then the newest of those: it costs what is shown, however many
-- there are.
select {job} from oncue_jobs
 where id in (select newest.value
                from json_each(:states) as wanted,
                     json_each((select json_group_array(id) from (
                         select id from oncue_jobs indexed by oncue_jobs_endpoint
                          where task = 'oncue.deliver' and group_name = :endpoint and state = wanted.value
                            and state <> 'running' and id < :before
                          order by id desc limit :limit))) as newest
              union all
              select id from oncue_jobs indexed by oncue_jobs_group_running
               where state = 'running' and 'running' in (select value from json_each(:states))
                 and group_name is not null and queue = 'webhooks' and group_name = :endpoint and task = 'oncue.deliver'
                 and id < :before)
 order by id desc limit :limit;

-- name: orphans
-- Groups of which something is queued are read off the head of each in the index: a step for each, however much waits in
-- it. Those that have no turn to come, of which nothing was told, and that have room, are the ones that no claim looks at.
with recursive waiting (name) as (
    select min(group_name) from oncue_jobs indexed by oncue_jobs_grouped
     where state = 'queued' and group_name is not null and queue = :queue
    union all
    select (select min(j.group_name) from oncue_jobs j indexed by oncue_jobs_grouped
             where j.state = 'queued' and j.group_name is not null and j.queue = :queue
               and j.group_name > waiting.name)
      from waiting where waiting.name is not null
)
select json_group_array(waiting.name) from waiting
  left join oncue_groups g on g.queue = :queue and g.name = waiting.name
  left join oncue_queues q on q.name = :queue
 where waiting.name is not null and g.ready_at is null and q.paused_at is null
   and waiting.name not in (select name from oncue_group_wakeups where queue = :queue)
   and (select count(*) from oncue_jobs j indexed by oncue_jobs_group_running
         where j.state = 'running' and j.group_name is not null and j.queue = :queue and j.group_name = waiting.name)
       < case when g.trips > 0 then 1 else coalesce(g.running_limit, q.group_limit, 9223372036854775807) end;

-- name: orphans_of_group
select j.id, j.created_at, j.group_name, j.schedule_id, s.created_at, j.scheduled_for, j.visible_at
  from oncue_jobs j indexed by oncue_jobs_grouped left join oncue_schedules s on s.id = j.schedule_id
 where j.state = 'queued' and j.group_name is not null and j.queue = :queue and j.group_name = :group
   and j.task = 'oncue.deliver' and j.visible_at < :before and j.id > :after
 order by j.priority desc, j.order_at, j.id limit :limit;

-- name: still_queued
select json_group_array(id) from (
    select id from oncue_jobs
     where id in (select value from json_each(:ids)) and state = 'queued' and group_name is not null
       and task = 'oncue.deliver'
     order by id);

-- name: wake_deliveries
insert into oncue_group_wakeups (queue, name, has_job)
select distinct queue, group_name, 1 from oncue_jobs where id in (select value from json_each(:ids));
