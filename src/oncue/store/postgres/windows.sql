-- Daily windows, for PostgreSQL. Subjects, their slots and their jobs come as JSON documents: few of them are alike.

-- name: windows
select {schedule} from oncue_schedules
 where substr(expression, 1, 7) = '@window' and deleted_at is null order by name;

-- name: subjects
select {subject} from oncue_subjects where schedule_id = $1 and name = any($2::text[]) order by name;

-- name: subjects_page
select {subject} from oncue_subjects
 where schedule_id = $1 and name > $2 and removed_at is null order by name limit $3;

-- name: due_subjects
select {subject} from oncue_subjects
 where schedule_id = $1 and next_at <= $2 and (next_at, name) > ($4, $5) order by next_at, name limit $3;

-- name: next_subject
select min(head.next_at) from oncue_schedules s
 cross join lateral (select next_at from oncue_subjects
                      where schedule_id = s.id and next_at is not null order by next_at limit 1) as head
 where substr(s.expression, 1, 7) = '@window' and s.deleted_at is null and s.enabled;

-- name: unfinished_jobs
-- `state || ''` keeps the planner from the index of all that waits.
select id, state, claim_no, options, visible_at, retry_count, attempt, crashes, claimed_at, started_at, error,
       cancel_requested_at
  from oncue_jobs
 where id = any($1::bigint[]) and state || '' in ('scheduled', 'queued', 'running', 'retrying') order by id;

-- name: _given
select * from json_to_recordset($2::json)
        as g (ordinal bigint, schedule_id bigint, name text, due smallint, tz text, weekdays smallint, days_off json,
              args json, version bigint, since timestamptz, day date, opens_at timestamptz, cutoff_at timestamptz,
              next_at timestamptz, job_id bigint, last_date date, status text, reason text, last_run_at timestamptz,
              created_at timestamptz, updated_at timestamptz, removed_at timestamptz)

-- name: put_subjects
-- In the order of their names, so that two calls never wait for each other's.
with given as materialized (
    {_given} order by schedule_id, name
), added as (
    insert into oncue_subjects ({subject})
    select schedule_id, name, due, tz, weekdays, days_off, args, 1, since, day, opens_at, cutoff_at, next_at, job_id,
           last_date, status, reason, last_run_at, $1, $1, removed_at
      from given where version = 0
        on conflict do nothing
    returning schedule_id, name
), stopped as (
    -- Jobs are locked before subjects, here too: `changed` waits for this part.
    update oncue_jobs j
       set cancel_requested_at = $1, updated_at = $1,
           visible_at = case when j.state in ('scheduled', 'retrying') then least(j.visible_at, $1) else j.visible_at end
      from unnest($8::bigint[]) with ordinality as s (id, ordinal)
      join given g on g.ordinal = s.ordinal
     cross join lateral (select from oncue_subjects t
                          where t.schedule_id = g.schedule_id and t.name = g.name and t.version = g.version
                         offset 0) as t
     where j.id = any($8::bigint[]) and j.id = s.id and j.state || '' in ('scheduled', 'queued', 'running', 'retrying')
       and j.cancel_requested_at is null
    returning j.id
), changed as (
    update oncue_subjects t
       set due = g.due, tz = g.tz, weekdays = g.weekdays, days_off = g.days_off, args = g.args, version = t.version + 1,
           since = g.since, day = g.day, opens_at = g.opens_at, cutoff_at = g.cutoff_at, next_at = g.next_at,
           job_id = g.job_id, last_date = g.last_date, status = g.status, reason = g.reason, updated_at = $1,
           removed_at = g.removed_at
      from given g
     -- As in `apply`: the join is a look into the index for each.
     where t.schedule_id = any(array[g.schedule_id]) and t.name = any(array[g.name]) and t.version = g.version
       and g.version > 0
       and (select count(*) from stopped) >= 0
    returning t.schedule_id, t.name
), won as (
    select g.ordinal from given g join (select * from added union all select * from changed) as w
        on w.schedule_id = g.schedule_id and w.name = g.name
), noted as (
    insert into oncue_audit (at, actor, action, subject, before, after)
    select $1, n.actor, n.action, n.subject, n.before::json, n.after::json
      from unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[]) with ordinality
        as n (actor, action, subject, before, after, ordinal)
      join won on won.ordinal = n.ordinal
     where n.actor is not null order by n.ordinal
)
select coalesce(array_agg(ordinal), '{}') from won;

-- name: advance
-- Rows that another session holds are passed over; the second array tells which these are. A slot that is in the ledger
-- already makes no job, unless the job says which one it repeats: then the slot tells of that one from now on.
with step as materialized (
    select * from json_to_recordset($4::json)
        as s (ordinal bigint, schedule_id bigint, name text, version bigint, day date, opens_at timestamptz,
              cutoff_at timestamptz, next_at timestamptz, job_id bigint, last_date date, status text, reason text)
     where $3::bigint is null or exists (select from oncue_leases where name = 'leader' and holder = $2 and epoch = $3)
     order by schedule_id, name
), free as materialized (
    select s.*, t.place from step s
     cross join lateral (select ctid as place from oncue_subjects t
                          where t.schedule_id = s.schedule_id and t.name = s.name and t.version = s.version
                            for no key update skip locked) as t
), won as (
    -- By the place of the row: there is no join that could be planned badly.
    update oncue_subjects t
       set version = t.version + 1, day = s.day, opens_at = s.opens_at, cutoff_at = s.cutoff_at, next_at = s.next_at,
           job_id = s.job_id, last_date = s.last_date, status = s.status, reason = s.reason, updated_at = $1
      from free s
     where t.ctid = s.place and t.version = s.version
    returning s.ordinal, t.schedule_id, t.name
), decided as (
    insert into oncue_slots (schedule_id, subject, scheduled_for, until, slots, verdict, reason, job_id, revision,
                             decided_at, decided_by, epoch)
    select w.schedule_id, w.name, d.scheduled_for, d.until, d.slots, d.verdict, d.reason, d.job_id,
           (select revision from oncue_schedules where id = w.schedule_id), $1, $2, $3
      from json_to_recordset($5::json)
        as d (ordinal bigint, scheduled_for timestamptz, verdict text, reason text, job_id bigint, until timestamptz,
              slots bigint)
      join won w on w.ordinal = d.ordinal
        on conflict (schedule_id, subject, scheduled_for)
        do update set reason = excluded.reason where oncue_slots.job_id = excluded.job_id
    returning job_id
), made as (
    insert into oncue_jobs ({new_job}, subject)
    select n.id, n.args::json, null, {_shared}, case when n.slot is not null then w.schedule_id end, n.slot, null,
           b.group_name, b.address, case when n.slot is not null then w.name end
      from json_to_recordset($6::json) as b ({_batch})
     cross join lateral json_to_recordset(b.jobs) as n (ordinal bigint, slot timestamptz, id bigint, args text)
      join won w on w.ordinal = n.ordinal
     where n.slot is null or b.retry_of is not null or n.id in (select job_id from decided)
    returning id, retry_of, schedule_id, subject, scheduled_for
), repeated as (
    -- The ledger tells of the latest job of a day.
    update oncue_slots s
       set job_id = m.id, outcome = null, outcome_reason = null, started_at = null, finished_at = null, worker = null,
           error = null
      from made m
     where m.retry_of is not null and s.schedule_id = any(array[m.schedule_id]) and s.subject = any(array[m.subject])
       and s.scheduled_for = any(array[m.scheduled_for])
), tallied as (
    insert into oncue_window_deltas (schedule_id, day, bucket, event, subjects)
    select w.schedule_id, y.day, y.bucket, y.event, count(*)
      from json_to_recordset($7::json) as y (ordinal bigint, day date, bucket smallint, event text)
      join won w on w.ordinal = y.ordinal group by w.schedule_id, y.day, y.bucket, y.event
), noted as (
    insert into oncue_audit (at, actor, action, subject, before, after)
    select $1, n.actor, n.action, n.subject, n.before::json, n.after::json
      from unnest($8::text[], $9::text[], $10::text[], $11::text[], $12::text[]) with ordinality
        as n (actor, action, subject, before, after, ordinal)
      join won on won.ordinal = n.ordinal
     where n.actor is not null order by n.ordinal
)
select (select coalesce(array_agg(ordinal), '{}') from won),
       (select coalesce(array_agg(s.ordinal), '{}') from step s
         where not exists (select from free where free.ordinal = s.ordinal)
           and exists (select from oncue_subjects t
                        where t.schedule_id = s.schedule_id and t.name = s.name and t.version = s.version)),
       (select count(*) from made);

-- name: subject_slots
select {slot} from oncue_slots s
  left join oncue_jobs j on j.id = any(array[s.job_id])
  left join oncue_nodes n on n.id = j.node_id
 where s.schedule_id = $1 and s.subject = $2 and s.scheduled_for <= $4 and coalesce(s.until, s.scheduled_for) >= $3
 order by s.scheduled_for limit $5;

-- name: subjects_slots
select s.subject, {slot} from oncue_slots s
  left join oncue_jobs j on j.id = any(array[s.job_id])
  left join oncue_nodes n on n.id = j.node_id
 where s.schedule_id = $1 and s.subject = any($2::text[]) and s.scheduled_for <= $4
   and coalesce(s.until, s.scheduled_for) >= $3
 order by s.subject, s.scheduled_for;

-- name: window_day
select bucket, event, sum(subjects)::bigint from (
       select bucket, event, subjects from oncue_window_days where schedule_id = $1 and day = $2
       union all
       select bucket, event, subjects from oncue_window_deltas where schedule_id = $1 and day = $2) as counted
 group by bucket, event order by bucket, event;

-- name: fold_windows
with taken as (
    delete from oncue_window_deltas
     where id = any(array(select id from oncue_window_deltas order by id limit (select $1::int) for update skip locked))
    returning schedule_id, day, bucket, event, subjects
), folded as (
    insert into oncue_window_days as d (schedule_id, day, bucket, event, subjects)
    select schedule_id, day, bucket, event, sum(subjects) from taken group by schedule_id, day, bucket, event
     order by schedule_id, day, bucket, event
        on conflict (schedule_id, day, bucket, event) do update set subjects = d.subjects + excluded.subjects
)
select count(*) from taken;

-- name: prune_days
-- Rows that another session holds wait for the next pass.
with slots as (
    delete from oncue_slots
     where ctid = any(array(select ctid from oncue_slots
                             where subject <> '' and coalesce(until, scheduled_for) < $1
                               and (job_id is null or outcome is not null)
                             order by coalesce(until, scheduled_for) limit (select $2::int) for update skip locked))
    returning 1
), counts as (
    delete from oncue_window_days
     where ctid = any(array(select ctid from oncue_window_days where day < $3 limit (select $2::int)
                               for update skip locked))
), gone as (
    delete from oncue_subjects
     where ctid = any(array(select ctid from oncue_subjects
                             where removed_at is not null and removed_at < $1
                             order by removed_at limit (select $2::int) for update skip locked))
)
select count(*) from slots;
