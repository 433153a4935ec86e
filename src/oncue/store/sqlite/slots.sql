-- Slots, for SQLite.

-- name: due
-- A limit cannot look outside its query: 10000 is as many instances as a schedule may ask for.
select id, name, version, started_at, cursor, next_run_at, expression, tz, dst, missed, grace, max_instances,
       (select json_group_array(id) from (
            select j.id from oncue_jobs j indexed by oncue_jobs_schedule
             where j.schedule_id = s.id and j.state in ('scheduled', 'queued', 'running', 'retrying')
               and j.visible_at < :parked
             order by j.visible_at, j.id limit 10000)),
       (select json_group_array(t.scheduled_for) from oncue_slots t
         where t.schedule_id = s.id and t.subject = '' and t.scheduled_for > s.cursor and t.scheduled_for <= :now),
       key,
       (select j.id from oncue_jobs j indexed by oncue_jobs_key
         where j.task = s.task and j.key = s.key and j.state in ('scheduled', 'queued', 'running', 'retrying'))
  from oncue_schedules s
 where next_run_at <= :now and (next_run_at, id) > (:instant, :number) order by next_run_at, id limit :limit;

-- name: next_run
select min(next_run_at) from oncue_schedules where next_run_at is not null;

-- name: leads
select 1 from oncue_leases where name = 'leader' and holder = :node and epoch = :epoch;

-- name: current_steps
-- A step that makes a job also needs a free key, if its schedule has one.
select json_group_array(s.id) from json_each(:steps) as step
  join oncue_schedules s on s.id = step.value ->> 0 and s.version = step.value ->> 1
 where s.key is null or not step.value ->> 4
    or not exists (select 1 from oncue_jobs j indexed by oncue_jobs_key
                    where j.task = s.task and j.key = s.key
                      and j.state in ('scheduled', 'queued', 'running', 'retrying'));

-- name: move
update oncue_schedules
   set version = oncue_schedules.version + 1, cursor = step.cursor, next_run_at = step.next_run_at,
       last_run_at = case when step.fires then :now else last_run_at end
  from (select value ->> 0 as id, value ->> 1 as version, value ->> 2 as cursor, value ->> 3 as next_run_at,
               value ->> 4 as fires from json_each(:steps)) as step
 where oncue_schedules.id = step.id and oncue_schedules.version = step.version;

-- name: decide
-- A slot that is there already loses, silently.
insert into oncue_slots (schedule_id, scheduled_for, verdict, reason, job_id, blocked_by, until, slots, revision,
                         decided_at, decided_by, epoch)
select d.value ->> 0, d.value ->> 1, d.value ->> 2, d.value ->> 3, d.value ->> 4, d.value ->> 5, d.value ->> 6,
       d.value ->> 7, s.revision, :now, :node, :epoch
  from json_each(:decided) as d join oncue_schedules s on s.id = d.value ->> 0 where true
    on conflict do nothing;

-- name: make_jobs
-- Only for slots that this very decision took: a row with its job id is the proof.
insert into oncue_jobs ({new_job})
select t.job_id, s.args, s.key, s.task, s.queue, s.priority, :state, s.options, s.max_retries, s.max_runtime, :now, :now,
       :now, :visible_at, :now + s.deadline, :by, null, s.id, t.scheduled_for,
       case when t.verdict = 'fired' then t.scheduled_for + s.grace end, s.group_name, s.address
  from json_each(:decided) as d
  join oncue_slots t on t.schedule_id = d.value ->> 0 and t.subject = '' and t.scheduled_for = d.value ->> 1
                    and t.job_id = d.value ->> 4
  join oncue_schedules s on s.id = t.schedule_id;

-- name: any_grouped_schedule
select exists (select 1 from oncue_schedules indexed by oncue_schedules_group where group_name is not null);

-- name: wake_decided
insert into oncue_group_wakeups (queue, name, has_job)
select distinct queue, group_name, 1 from oncue_jobs
 where id in (select value ->> 4 from json_each(:decided)) and group_name is not null and state = 'queued';

-- name: unfinished
select id from oncue_jobs indexed by oncue_jobs_schedule
 where schedule_id = :schedule_id and state in ('scheduled', 'queued', 'running', 'retrying') and visible_at < :parked
 order by visible_at, id limit :limit;

-- name: with_room
-- Schedules that have parked jobs and room for one, read off the head of each in the index of parked jobs: no scan.
with recursive parked (schedule_id) as (
    select * from (select min(schedule_id) from oncue_jobs indexed by oncue_jobs_parked
                    where schedule_id is not null and state = 'scheduled' and visible_at = 253370764800000000)
    union all
    select (select min(j.schedule_id) from oncue_jobs j indexed by oncue_jobs_parked
             where j.schedule_id > parked.schedule_id and j.state = 'scheduled' and j.visible_at = 253370764800000000)
      from parked where parked.schedule_id is not null
)
select json_group_array(id) from (
    select s.id from parked cross join oncue_schedules s on s.id = parked.schedule_id
     where s.max_instances > (
               select count(*) from oncue_jobs j indexed by oncue_jobs_schedule
                where j.schedule_id = s.id and j.state in ('scheduled', 'queued', 'running', 'retrying')
                  and j.visible_at < 253370764800000000)
     limit :limit);

-- name: hold_schedules
-- Who has looked at these schedules to decide a slot must look again: one of its jobs comes before that slot.
update oncue_schedules set version = version + 1 where id in (select value from json_each(:ids));

-- name: release_parked
-- A deadline counts from when the job is let go.
update oncue_jobs
   set state = 'queued', visible_at = :now, updated_at = :now, deadline_at = deadline_at + (:now - created_at)
 where id in (select id from oncue_jobs indexed by oncue_jobs_parked
               where schedule_id = :schedule_id and state = 'scheduled' and visible_at = 253370764800000000
               order by scheduled_for
               limit max(0, min(:limit, (select max_instances from oncue_schedules where id = :schedule_id) - (
                         select count(*) from oncue_jobs indexed by oncue_jobs_schedule
                          where schedule_id = :schedule_id and state in ('scheduled', 'queued', 'running', 'retrying')
                            and visible_at < 253370764800000000))));

-- name: wake_released
insert into oncue_group_wakeups (queue, name, has_job)
select distinct queue, group_name, 1 from oncue_jobs indexed by oncue_jobs_schedule
 where schedule_id = :schedule_id and visible_at = :now and state = 'queued' and group_name is not null
   and state in ('scheduled', 'queued', 'running', 'retrying');

-- name: hold_version
update oncue_schedules set version = version + 1 where id = :id and version = :version;

-- name: repeat
insert into oncue_jobs ({new_job})
select :new_id, args, key, task, queue, priority, 'queued', options, max_retries, max_runtime, :now, :now, :now, :now,
       null, :by, id, schedule_id, scheduled_for, null, group_name,
       case when exists (select 1 from oncue_cluster_jobs where job_id = oncue_jobs.id) then 'cluster' else address end
  from oncue_jobs where id = :id and state = :state and claim_no = :claim_no;

-- name: wake_repeated
insert into oncue_group_wakeups (queue, name, has_job)
select queue, group_name, 1 from oncue_jobs where id = :new_id and group_name is not null;

-- name: slots
select {slot} from oncue_slots s
  left join oncue_jobs j on j.id = s.job_id
  left join oncue_nodes n on n.id = j.node_id
 where s.schedule_id = :schedule_id and s.subject = '' and s.scheduled_for <= :end
   and coalesce(s.until, s.scheduled_for) >= :start
   and s.scheduled_for >= coalesce((select scheduled_for
                                      from (select scheduled_for, until from oncue_slots indexed by oncue_slots_ranges
                                             where schedule_id = :schedule_id and subject = '' and until is not null
                                               and scheduled_for < :start order by scheduled_for desc limit 1)
                                     where until >= :start), :start)
 order by s.scheduled_for limit :limit;

-- name: latest_slots
select {slot} from oncue_slots s
  left join oncue_jobs j on j.id = s.job_id
  left join oncue_nodes n on n.id = j.node_id
 where s.schedule_id = :schedule_id and s.subject = '' and s.scheduled_for < :before
 order by s.scheduled_for desc limit :limit;

-- name: latest_slots_of
-- Where the last rows of each schedule begin is read off the end of its part of the primary key.
select {slot} from json_each(:ids) wanted
 cross join oncue_slots s
    on s.schedule_id = wanted.value and s.subject = ''
   and s.scheduled_for >= coalesce((select scheduled_for from oncue_slots
                                     where schedule_id = wanted.value and subject = ''
                                     order by scheduled_for desc limit 1 offset :limit - 1), 0)
  left join oncue_jobs j on j.id = s.job_id
  left join oncue_nodes n on n.id = j.node_id
 order by s.scheduled_for;

-- name: doubled
select scheduled_for from oncue_jobs
 where schedule_id = :schedule_id and scheduled_for between :start and :end and retry_of is null
 group by scheduled_for having count(*) > 1 order by scheduled_for;

-- name: keep_outcomes
-- Before their jobs go: what became of their slots.
update oncue_slots indexed by oncue_slots_live
   set (outcome, outcome_reason, started_at, finished_at, error, worker) = (
           select j.state, j.reason, j.started_at, j.finished_at, j.error,
                  coalesce((select n.name from oncue_nodes n where n.id = j.node_id), j.node_id)
             from oncue_jobs j where j.id = oncue_slots.job_id)
 where job_id in (select value from json_each(:ids)) and job_id is not null and outcome is null;

-- name: old_slots
select json_group_array(json_array(schedule_id, subject, scheduled_for)) from (
    select schedule_id, subject, scheduled_for from oncue_slots indexed by oncue_slots_old
     where coalesce(until, scheduled_for) < :before and (job_id is null or outcome is not null) and subject = ''
     order by coalesce(until, scheduled_for) limit :limit);

-- name: raise_horizon
-- A process that has read the schedule before must read it again: it cannot see any more which slots were decided.
update oncue_schedules set version = version + 1, horizon = max(coalesce(horizon, :before), :before)
 where id in (select value ->> 0 from json_each(:slots));

-- name: prune_slots
delete from oncue_slots
 where (schedule_id, subject, scheduled_for) in (
           select value ->> 0, value ->> 1, value ->> 2 from json_each(:slots));
