-- Webhooks and their deliveries, for PostgreSQL.

-- name: webhooks
select {webhook} from oncue_webhooks where name = any($1::text[]) order by name;

-- name: webhooks_page
select {webhook} from oncue_webhooks where name > $1 and not deleted order by name limit $2;

-- name: declared_webhooks
select {webhook} from oncue_webhooks where declared_by is not null and not deleted order by name;

-- name: _retold
-- The schedules whose target it is make deliveries with these options from here on. They are locked in the order of their
-- ids, and a leader that has read one of them before must look again.
held as materialized (
    select s.id from oncue_schedules s
     where s.group_name in (select name from took) and s.task = 'oncue.deliver' and $29::text is not null
     order by s.id for no key update
), retold as (
    update oncue_schedules s set options = $29, max_retries = $30::int, version = s.version + 1
      from held where s.id = held.id
), noted as ({_note})
select from took

-- name: create_webhook
with took as (
    insert into oncue_webhooks (name, version, {webhook_fields})
    values ($7, $8::bigint + 1, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26,
            $27, $28)
        on conflict (name) do nothing returning name
), {_retold};

-- name: change_webhook
with took as (
    update oncue_webhooks
       set (version, {webhook_fields}) = (
               $8::bigint + 1, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26,
               $27, $28)
     where name = $7 and version = $8 returning name
), {_retold};

-- name: executions
-- The newest deliveries of each state to an endpoint, then the newest of those: it costs what is shown, however many
-- there are.
select {job} from oncue_jobs
 where id = any(array(
           select newest.id from unnest($2::text[]) as wanted (state) cross join lateral (
                  select id from oncue_jobs
                   where task = 'oncue.deliver' and group_name = $1 and state = wanted.state and state <> 'running'
                     and id < $3
                   order by id desc limit (select $4::int)) as newest
            union all
           select id from oncue_jobs
            where state = 'running' and 'running' = any($2::text[]) and queue = 'webhooks' and group_name = $1
              and task = 'oncue.deliver' and id < $3))
 order by id desc limit $4;

-- name: orphans
-- Groups of which something is queued are read off the head of each in the index: a step for each, however much waits in
-- it. Those that have no turn to come, of which nothing was told, and that have room, are the ones that no claim looks at.
-- `task || ''` keeps the planner from the index of all deliveries.
with recursive waiting (name) as (
    (select group_name from oncue_jobs where state || '' = 'queued' and group_name is not null and queue = $4
      order by group_name limit 1)
    union all
    select next.name from waiting cross join lateral (
           select j.group_name as name from oncue_jobs j where j.state || '' = 'queued' and j.group_name is not null
              and j.queue = $4 and j.group_name > waiting.name order by j.group_name limit 1) as next
), told as materialized (
    select distinct name from oncue_group_wakeups where queue = $4
), silent as materialized (
    select waiting.name from waiting
      left join lateral (select k.ready_at, k.running_limit, k.trips from oncue_groups k
                          where k.queue = $4 and k.name = waiting.name limit 1) as known on true
      left join oncue_queues q on q.name = $4
     cross join lateral (select case when known.trips > 0 then 1
                                     else coalesce(known.running_limit, q.group_limit) end as jobs) as most
     where known.ready_at is null and q.paused_at is null and waiting.name not in (select name from told)
       and (most.jobs is null
            or (select count(*) from (select from oncue_jobs j
                                       where j.state = 'running' and j.group_name is not null and j.queue = $4
                                         and j.group_name = waiting.name
                                       limit (select most.jobs)) as live) < most.jobs)
), found as materialized (
    select best.* from silent cross join lateral (
           select j.id, j.created_at, j.group_name, j.schedule_id, j.scheduled_for, j.visible_at from oncue_jobs j
            where j.state || '' = 'queued' and j.group_name is not null and j.queue = $4 and j.group_name = silent.name
              and j.task || '' = 'oncue.deliver' and j.visible_at < $1 and j.id > $2
            order by j.priority desc, j.order_at, j.id limit (select $3::int)) as best
     order by best.id limit (select $3::int)
)
select f.id, f.created_at, f.group_name, f.schedule_id,
       (select s.created_at from oncue_schedules s where s.id = f.schedule_id), f.scheduled_for, f.visible_at
  from found f order by f.id;

-- name: re_emit
-- By their ids, and only then by the rest: in one condition, that has the words of other indexes.
with named as materialized (
    select id, queue, group_name, state, task from oncue_jobs where id = any($1::bigint[])
), found as materialized (
    select id, queue, group_name from named where state = 'queued' and group_name is not null and task = 'oncue.deliver'
), woken as (
    insert into oncue_group_wakeups (queue, name, has_job) select distinct queue, group_name, true from found
)
select id from found order by id;
