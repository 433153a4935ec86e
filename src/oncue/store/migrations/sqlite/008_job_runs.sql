-- The runs of slots by status and by the time at which they started, in the words of the view `job_runs`. A run whose job
-- is still there is found among the jobs: only those of schedules, and only once they have started or ended, so that
-- neither firing a slot nor claiming its job adds an entry.
create index oncue_jobs_run_status on oncue_jobs (
    (case state when 'succeeded' then 'success' when 'skipped' then 'skipped_timeout'
                when 'failed' then 'failed' when 'cancelled' then 'failed' else 'running' end))
    where schedule_id is not null and (started_at is not null or attempt > 0 or finished_at is not null);
create index oncue_jobs_run_started on oncue_jobs (
    (strftime('%Y-%m-%d %H:%M:%S', started_at / 1000000, 'unixepoch') || printf('.%06d', started_at % 1000000)))
    where schedule_id is not null and (started_at is not null or attempt > 0 or finished_at is not null);
-- The view tells an instant as a text, and so does the index.
drop index oncue_slots_started;
create index oncue_slots_started on oncue_slots (
    (strftime('%Y-%m-%d %H:%M:%S', started_at / 1000000, 'unixepoch') || printf('.%06d', started_at % 1000000)))
    where outcome is not null;
