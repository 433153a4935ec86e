-- Daily windows, for SQLite. Dates are texts.

-- name: windows
select {schedule} from oncue_schedules indexed by oncue_schedules_windows
 where substr(expression, 1, 7) = '@window' and deleted_at is null order by name;

-- name: subjects
select {subject} from oncue_subjects
 where schedule_id = :schedule_id and name in (select value from json_each(:names)) order by name;

-- name: subjects_page
select {subject} from oncue_subjects
 where schedule_id = :schedule_id and name > :after and removed_at is null order by name limit :limit;

-- name: due_subjects
select {subject} from oncue_subjects indexed by oncue_subjects_due
 where schedule_id = :schedule_id and next_at is not null and next_at <= :now
   and (next_at, name) > (:after_at, :after_name)
 order by next_at, name limit :limit;

-- name: next_subject
select min((select next_at from oncue_subjects indexed by oncue_subjects_due
             where schedule_id = s.id and next_at is not null order by next_at limit 1))
  from oncue_schedules s indexed by oncue_schedules_windows
 where substr(s.expression, 1, 7) = '@window' and s.deleted_at is null and s.enabled;

-- name: unfinished_jobs
select id, state, claim_no, options, visible_at, retry_count, attempt, crashes, claimed_at, started_at, error,
       cancel_requested_at
  from oncue_jobs
 where id in (select value from json_each(:ids)) and +state in ('scheduled', 'queued', 'running', 'retrying')
 order by id;

-- name: add_subject
insert into oncue_subjects ({subject})
values (:schedule_id, :name, :due, :tz, :weekdays, :days_off, :args, 1, :since, :day, :opens_at, :cutoff_at, :next_at,
        :job_id, :last_date, :status, :reason, :last_run_at, :now, :now, :removed_at)
    on conflict do nothing;

-- name: change_subject
update oncue_subjects
   set due = :due, tz = :tz, weekdays = :weekdays, days_off = :days_off, args = :args, version = version + 1,
       since = :since, day = :day, opens_at = :opens_at, cutoff_at = :cutoff_at, next_at = :next_at, job_id = :job_id,
       last_date = :last_date, status = :status, reason = :reason, updated_at = :now, removed_at = :removed_at
 where schedule_id = :schedule_id and name = :name and version = :version;

-- name: stop_job
-- It is due at once, so that the next claim can refuse it.
update oncue_jobs
   set cancel_requested_at = :now, updated_at = :now,
       visible_at = case when state in ('scheduled', 'retrying') then min(visible_at, :now) else visible_at end
 where id = :id and +state in ('scheduled', 'queued', 'running', 'retrying') and cancel_requested_at is null;

-- name: move_subjects
update oncue_subjects
   set version = version + 1, day = s.value ->> 3, opens_at = s.value ->> 4, cutoff_at = s.value ->> 5,
       next_at = s.value ->> 6, job_id = s.value ->> 7, last_date = s.value ->> 8, status = s.value ->> 9,
       reason = s.value ->> 10, updated_at = :now
  from json_each(:steps) s
 where schedule_id = s.value ->> 0 and name = s.value ->> 1 and version = s.value ->> 2
returning schedule_id, name;

-- name: decide_days
insert into oncue_slots (schedule_id, subject, scheduled_for, until, slots, verdict, reason, job_id, revision,
                         decided_at, decided_by, epoch)
select d.value ->> 0, d.value ->> 1, d.value ->> 2, d.value ->> 3, d.value ->> 4, d.value ->> 5, d.value ->> 6,
       d.value ->> 7, (select revision from oncue_schedules where id = d.value ->> 0), :now, :node, :epoch
  from json_each(:decided) d where true
    on conflict do update set reason = excluded.reason where oncue_slots.job_id = excluded.job_id
returning job_id;

-- name: enqueue_days
-- Jobs of days, with whose day it is.
insert into oncue_jobs ({new_job}, subject)
select n.value ->> 0, n.value ->> 1, null, :task, :queue, :priority, :state, :options, :max_retries, :max_runtime,
       :created_at, :created_at, :order_at, :visible_at, :deadline_at, :enqueued_by, :retry_of, n.value ->> 2,
       n.value ->> 3, null, :group_name, :address, n.value ->> 4
  from json_each(:jobs) as n;

-- name: repeat_day
-- The ledger tells of the latest job of a day.
update oncue_slots
   set job_id = :id, outcome = null, outcome_reason = null, started_at = null, finished_at = null, worker = null,
       error = null
 where schedule_id = :schedule_id and subject = :name and scheduled_for = :scheduled_for;

-- name: tally
insert into oncue_window_deltas (schedule_id, day, bucket, event, subjects) values (:schedule_id, :day, :bucket, :event, :subjects);

-- name: subject_slots
select {slot} from oncue_slots s
  left join oncue_jobs j on j.id = s.job_id
  left join oncue_nodes n on n.id = j.node_id
 where s.schedule_id = :schedule_id and s.subject = :name and s.scheduled_for <= :end
   and coalesce(s.until, s.scheduled_for) >= :start
 order by s.scheduled_for limit :limit;

-- name: subjects_slots
select s.subject, {slot} from oncue_slots s
  left join oncue_jobs j on j.id = s.job_id
  left join oncue_nodes n on n.id = j.node_id
 where s.schedule_id = :schedule_id and s.subject in (select value from json_each(:names)) and s.scheduled_for <= :end
   and coalesce(s.until, s.scheduled_for) >= :start
 order by s.subject, s.scheduled_for;

-- name: window_day
select bucket, event, sum(subjects) from (
       select bucket, event, subjects from oncue_window_days where schedule_id = :schedule_id and day = :day
       union all
       select bucket, event, subjects from oncue_window_deltas where schedule_id = :schedule_id and day = :day)
 group by bucket, event order by bucket, event;

-- name: fold_windows
insert into oncue_window_days (schedule_id, day, bucket, event, subjects)
select schedule_id, day, bucket, event, sum(subjects)
  from (select * from oncue_window_deltas order by id limit :limit) group by schedule_id, day, bucket, event
    on conflict (schedule_id, day, bucket, event) do update set subjects = subjects + excluded.subjects;

-- name: forget_window_deltas
delete from oncue_window_deltas where id in (select id from oncue_window_deltas order by id limit :limit);

-- name: prune_days
delete from oncue_slots
 where (schedule_id, subject, scheduled_for) in (
           select schedule_id, subject, scheduled_for from oncue_slots indexed by oncue_slots_old_days
            where subject <> '' and coalesce(until, scheduled_for) < :before
              and (job_id is null or outcome is not null)
            order by coalesce(until, scheduled_for) limit :limit);

-- name: prune_day_counts
delete from oncue_window_days
 where (schedule_id, day, bucket, event) in (
           select schedule_id, day, bucket, event from oncue_window_days where day < :day limit :limit);

-- name: forget_subjects
delete from oncue_subjects
 where (schedule_id, name) in (
           select schedule_id, name from oncue_subjects indexed by oncue_subjects_removed
            where removed_at is not null and removed_at < :before order by removed_at limit :limit);

-- name: any_window_delta
select exists (select 1 from oncue_window_deltas);

-- name: any_old_day
select exists (select 1 from oncue_slots indexed by oncue_slots_old_days
                where subject <> '' and coalesce(until, scheduled_for) < :before
                  and (job_id is null or outcome is not null))
    or exists (select 1 from oncue_subjects indexed by oncue_subjects_removed
                where removed_at is not null and removed_at < :before)
    or exists (select 1 from oncue_window_days where day < :day) and :limit > 0;
