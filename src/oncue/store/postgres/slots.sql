-- Slots, for PostgreSQL. Where arrays go in, ids ascend: `width_bucket` finds a row's place in the other arrays, so that
-- there is no join to be planned badly (decisions.md, 3).

-- name: due
select id, name, version, started_at, cursor, next_run_at, expression, tz, dst, missed, grace, max_instances,
       -- Mostly there are none, and an empty array takes longer to read than nothing.
       nullif(array(select j.id from oncue_jobs j
                     where j.schedule_id = s.id and j.state in ('scheduled', 'queued', 'running', 'retrying')
                       and j.visible_at < $3
                     order by j.visible_at, j.id limit s.max_instances), '{}'),
       nullif(array(select t.scheduled_for from oncue_slots t
                     where t.schedule_id = s.id and t.subject = '' and t.scheduled_for > s.cursor
                       and t.scheduled_for <= $1), '{}'),
       key,
       case when key is not null then (
           select j.id from oncue_jobs j
            where j.task = s.task and j.key = s.key and j.state in ('scheduled', 'queued', 'running', 'retrying')) end
  from oncue_schedules s
 where next_run_at <= $1 and (next_run_at, id) > ($4, $5) order by next_run_at, id limit $2;

-- name: next_run
select min(next_run_at) from oncue_schedules where next_run_at is not null;

-- name: decide_plain
-- What nearly every step is: one slot that fires, of a schedule whose jobs have no key.
with moved as (
    update oncue_schedules
       set version = version + 1, cursor = ($6::timestamptz[])[width_bucket(id, $4::bigint[])], last_run_at = $1,
           next_run_at = ($7::timestamptz[])[width_bucket(id, $4::bigint[])]
     where id = any($4::bigint[]) and version = ($5::bigint[])[width_bucket(id, $4::bigint[])]
       and ($3::bigint is null or exists (select from oncue_leases
                                           where name = 'leader' and holder = $2 and epoch = $3))
    returning id, cursor, revision, task, args, queue, priority, options, max_retries, max_runtime, deadline, grace,
              group_name, address, ($8::bigint[])[width_bucket(id, $4::bigint[])] as job_id
), decided as (
    insert into oncue_slots (schedule_id, scheduled_for, verdict, job_id, revision, decided_at, decided_by, epoch)
    select id, cursor, 'fired', job_id, revision, $1, $2, $3 from moved
), made as (
    insert into oncue_jobs ({new_job})
    select job_id, args, null, task, queue, priority, 'queued', options, max_retries, max_runtime, $1, $1, $1, $1,
           $1 + deadline, $9, null, id, cursor, cursor + grace, group_name, address
      from moved
), woken as (
    insert into oncue_group_wakeups (queue, name, has_job)
    select distinct queue, group_name, true from moved where group_name is not null
)
select coalesce(array_agg(id), '{}') from moved;

-- name: _moves
update oncue_schedules
       set version = version + 1, cursor = ($6::timestamptz[])[width_bucket(id, $4::bigint[])],
           next_run_at = ($7::timestamptz[])[width_bucket(id, $4::bigint[])],
           last_run_at = case when ($8::boolean[])[width_bucket(id, $4::bigint[])] then $1 else last_run_at end

-- name: _still
version = ($5::bigint[])[width_bucket(id, $4::bigint[])]
       and ($3::bigint is null or exists (select from oncue_leases
                                           where name = 'leader' and holder = $2 and epoch = $3))
       and (key is null or not ($8::boolean[])[width_bucket(id, $4::bigint[])]
            -- `not exists` may be planned as a table of all keys that are taken.
            or (select j.id from oncue_jobs j
                 where j.task = oncue_schedules.task and j.key = oncue_schedules.key
                   and j.state in ('scheduled', 'queued', 'running', 'retrying')) is null)
    returning id

-- name: _decided
won (ids) as (
    select coalesce(array_agg(id order by id), '{}') from moved
), decided as (
    insert into oncue_slots (schedule_id, scheduled_for, until, slots, verdict, reason, job_id, blocked_by, revision,
                             decided_at, decided_by, epoch)
    select d.schedule_id, d.scheduled_for, d.until, d.slots, d.verdict, d.reason, d.job_id, d.blocked_by, s.revision,
           $1, $2, $3
      from won
     cross join unnest($10::bigint[], $11::timestamptz[], $12::text[], $13::text[], $14::bigint[], $15::bigint[],
                       $16::timestamptz[], $17::bigint[])
                as d (schedule_id, scheduled_for, verdict, reason, job_id, blocked_by, until, slots)
     cross join lateral (select revision from oncue_schedules where id = d.schedule_id offset 0) as s
     where won.ids[width_bucket(d.schedule_id, won.ids)] = d.schedule_id
        on conflict do nothing
    returning schedule_id, scheduled_for, verdict, job_id
), made as (
    insert into oncue_jobs ({new_job})
    select d.job_id, s.args, s.key, s.task, s.queue, s.priority, $18, s.options, s.max_retries, s.max_runtime, $1, $1,
           $1, $19, $1 + s.deadline, $9, null, d.schedule_id, d.scheduled_for,
           case when d.verdict = 'fired' then d.scheduled_for + s.grace end, s.group_name, s.address
      from decided d
     cross join lateral (select task, args, queue, priority, options, max_retries, max_runtime, deadline, grace, key,
                                group_name, address
                           from oncue_schedules where id = d.schedule_id offset 0) as s
     where d.job_id is not null
    returning queue, group_name, state
), woken as (
    insert into oncue_group_wakeups (queue, name, has_job)
    select distinct queue, group_name, true from made where group_name is not null and state = 'queued'
)

-- name: decide
-- The whole of it. A slot that is there already loses, silently, and makes no job. A step that makes a job also needs a
-- free key, if its schedule has one. A job with that key that another session commits meanwhile meets the unique index,
-- which refuses the whole statement: it is then sent again.
with moved as (
    {_moves}
     where id = any($4::bigint[]) and {_still}
), {_decided}
select ids from won;

-- name: decide_noted
-- The same by hand, with the lines of the audit log.
with moved as (
    {_moves}
     where id = any($4::bigint[]) and {_still}
), {_decided}, noted as (
    insert into oncue_audit (at, actor, action, subject, before, after)
    select $1, n.actor, n.action, n.subject, n.before::json, n.after::json
      from unnest($4::bigint[], $20::text[], $21::text[], $22::text[], $23::text[], $24::text[]) with ordinality
        as n (id, actor, action, subject, before, after, ordinal)
      join moved on moved.id = n.id
     where n.actor is not null order by n.ordinal
)
select ids from won;

-- name: decide_free
-- The same once a lock has kept `decide` or `decide_plain` waiting for too long: schedules that another session holds
-- are passed over. The second array tells which these are.
with free (ids) as materialized (
    select array(select id from oncue_schedules where id = any(array(select unnest($4::bigint[]))) order by id
                    for no key update skip locked)
), moved as (
    {_moves}
     where id = any((select ids from free)::bigint[]) and {_still}
), {_decided}
select won.ids, (select coalesce(array_agg(s.id), '{}') from oncue_schedules s cross join free
                  where s.id = any(array(select unnest($4::bigint[]))) and s.id <> all(free.ids)
                    and s.version = ($5::bigint[])[width_bucket(s.id, $4::bigint[])])
  from won;

-- name: unfinished
select id from oncue_jobs
 where schedule_id = $1 and state in ('scheduled', 'queued', 'running', 'retrying') and visible_at < $2
 order by visible_at, id limit $3;

-- name: with_room
-- Schedules that have parked jobs and room for one, read off the head of each in the index of parked jobs: no scan.
with recursive parked (schedule_id) as (
    (select schedule_id from oncue_jobs
      where schedule_id is not null and state = 'scheduled' and visible_at = timestamptz '9999-01-01 00:00:00+00'
      order by schedule_id limit 1)
    union all
    select head.schedule_id from parked
     cross join lateral (
         select schedule_id from oncue_jobs
          where schedule_id > parked.schedule_id and state = 'scheduled'
            and visible_at = timestamptz '9999-01-01 00:00:00+00'
          order by schedule_id limit 1) as head
)
select s.id, s.version from parked
 cross join lateral (select id, version, max_instances from oncue_schedules where id = parked.schedule_id offset 0) as s
 where s.max_instances > (
           select count(*) from (
               select from oncue_jobs j
                where j.schedule_id = s.id and j.state in ('scheduled', 'queued', 'running', 'retrying')
                  and j.visible_at < timestamptz '9999-01-01 00:00:00+00' limit s.max_instances) as busy)
 order by s.id limit $1;

-- name: release_parked
-- Each schedule's version is the one that was read with it ($3): then no job was made of it since, and the count
-- is right. Who has looked at it to decide a slot must look again: one of its jobs comes before that slot.
-- `state || ''` keeps the planner from the index of what is due later, through all that is parked.
-- A deadline counts from when the job is let go. Rows that another session holds wait for the next pass.
with held as (
    update oncue_schedules set version = version + 1
     where id = any(array(select id from oncue_schedules where id = any(array(select unnest($2::bigint[]))) order by id
                             for no key update skip locked))
       and version = ($3::bigint[])[width_bucket(id, $2::bigint[])]
    returning id, max_instances
), released as (
    update oncue_jobs
       set state = 'queued', visible_at = $1, updated_at = $1, deadline_at = deadline_at + ($1 - created_at)
     where state || '' = 'scheduled' and visible_at = timestamptz '9999-01-01 00:00:00+00' and id = any(array(
               select parked.id from held as s
                cross join lateral (
                    select j.id from oncue_jobs j
                     where j.schedule_id = s.id and j.state = 'scheduled'
                       and j.visible_at = timestamptz '9999-01-01 00:00:00+00'
                     order by j.scheduled_for
                     limit greatest(0, s.max_instances - (
                               select count(*) from (
                                   select from oncue_jobs u
                                    where u.schedule_id = s.id
                                      and u.state in ('scheduled', 'queued', 'running', 'retrying')
                                      and u.visible_at < timestamptz '9999-01-01 00:00:00+00'
                                    limit s.max_instances) as busy))
                       for no key update skip locked) as parked
                limit $4))
    returning queue, group_name
), woken as (
    insert into oncue_group_wakeups (queue, name, has_job)
    select distinct queue, group_name, true from released where group_name is not null
)
select count(*) from released;

-- name: repeat
with held as (
    update oncue_schedules set version = version + 1 where id = $11 and version = $12 returning id
), took as (
    insert into oncue_jobs ({new_job})
    select $10, args, key, task, queue, priority, 'queued', options, max_retries, max_runtime, $1, $1, $1, $1, null,
           $13, j.id, schedule_id, scheduled_for, null, group_name,
           case when exists (select from oncue_cluster_jobs where job_id = j.id) then 'cluster' else address end
      from oncue_jobs j
     where j.id = $7 and j.state = $8 and j.claim_no = $9 and ($11::bigint is null or exists (select from held))
    returning id, queue, group_name
), woken as (
    insert into oncue_group_wakeups (queue, name, has_job)
    select queue, group_name, true from took where group_name is not null
), noted as ({_note})
select from took;

-- name: slots
select {slot} from oncue_slots s
  left join oncue_jobs j on j.id = any(array[s.job_id])
  left join oncue_nodes n on n.id = j.node_id
 where s.schedule_id = $1 and s.subject = '' and s.scheduled_for <= $3 and coalesce(s.until, s.scheduled_for) >= $2
   and s.scheduled_for >= coalesce((select scheduled_for
                                      from (select scheduled_for, until from oncue_slots
                                             where schedule_id = $1 and subject = '' and until is not null
                                               and scheduled_for < $2 order by scheduled_for desc limit 1) as run
                                     where until >= $2), $2)
 order by s.scheduled_for limit $4;

-- name: latest_slots
select {slot} from oncue_slots s
  left join oncue_jobs j on j.id = any(array[s.job_id])
  left join oncue_nodes n on n.id = j.node_id
 where s.schedule_id = $1 and s.subject = '' and s.scheduled_for < $3
 order by s.scheduled_for desc limit $2;

-- name: latest_slots_of
-- The last rows of each schedule are read off the end of its part of the primary key.
select {slot} from unnest($1::bigint[]) as wanted (id)
 cross join lateral (select * from oncue_slots where schedule_id = wanted.id and subject = ''
                      order by scheduled_for desc limit $2) as s
  left join oncue_jobs j on j.id = any(array[s.job_id])
  left join oncue_nodes n on n.id = j.node_id
 order by s.scheduled_for;

-- name: doubled
select scheduled_for from oncue_jobs
 where schedule_id = $1 and scheduled_for between $2 and $3 and retry_of is null
 group by scheduled_for having count(*) > 1 order by scheduled_for;

-- name: _keep_outcomes
-- Before their jobs go: what became of their slots.
update oncue_slots s
   set (outcome, outcome_reason, started_at, finished_at, error, worker) = (
           select j.state, j.reason, j.started_at, j.finished_at, j.error,
                  coalesce((select n.name from oncue_nodes n where n.id = j.node_id), j.node_id::text)
             from oncue_jobs j where j.id = s.job_id)
 where s.job_id = any(array(select job_id from told)) and s.job_id is not null and s.outcome is null

-- name: prune_slots
-- A process that has read the schedule before must read it again: it cannot see which slots were decided. Rows that
-- another session holds wait for the next pass.
with old as materialized (
    select ctid as place, schedule_id from oncue_slots
     where coalesce(until, scheduled_for) < $1 and (job_id is null or outcome is not null) and subject = ''
     order by coalesce(until, scheduled_for) limit (select $2::int) for update skip locked
), free as materialized (
    select id from oncue_schedules where id = any(array(select schedule_id from old))
       for no key update skip locked
), raised as (
    update oncue_schedules set version = version + 1, horizon = greatest(horizon, $1)
     where id = any(array(select id from free))
)
delete from oncue_slots
 where ctid = any(array(select place from old where schedule_id = any(array(select id from free))));
