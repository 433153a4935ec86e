-- The same indexes, with their conditions spelled out: for `in` and a list of three or more SQLite builds a little table
-- whenever it asks whether a row belongs into an index, ten of them for a claim and ten for its end.
drop index oncue_jobs_key;
create unique index oncue_jobs_key on oncue_jobs (task, key)
    where key is not null and (state = 'scheduled' or state = 'queued' or state = 'running' or state = 'retrying');
drop index oncue_jobs_schedule;
create index oncue_jobs_schedule on oncue_jobs (schedule_id, visible_at, id)
    where schedule_id is not null
      and (state = 'scheduled' or state = 'queued' or state = 'running' or state = 'retrying');
drop index oncue_jobs_waiting;
create index oncue_jobs_waiting on oncue_jobs (queue, task, state, id)
    where (state = 'scheduled' or state = 'queued' or state = 'retrying');
drop index oncue_jobs_ended;
create index oncue_jobs_ended on oncue_jobs (queue, task, state, id)
    where (state = 'succeeded' or state = 'failed' or state = 'cancelled' or state = 'skipped');
drop index oncue_jobs_finished;
create index oncue_jobs_finished on oncue_jobs (finished_at)
    where (state = 'succeeded' or state = 'failed' or state = 'cancelled' or state = 'skipped');
drop index oncue_jobs_deadline;
create index oncue_jobs_deadline on oncue_jobs (deadline_at)
    where deadline_at is not null and (state = 'scheduled' or state = 'queued' or state = 'retrying')
      and visible_at < 253370764800000000;
drop index oncue_jobs_start_by;
create index oncue_jobs_start_by on oncue_jobs (start_by)
    where start_by is not null and attempt = 0 and (state = 'scheduled' or state = 'queued' or state = 'retrying')
      and visible_at < 253370764800000000;
