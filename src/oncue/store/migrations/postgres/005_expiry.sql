-- What waits and may not wait for ever. Few jobs have such a time, and one that runs is in neither index: a claim adds no
-- entry. Parked jobs (the instant is `PARKED`) are left out: their time does not count yet.
create index oncue_jobs_deadline on oncue_jobs (deadline_at)
    where deadline_at is not null and state in ('scheduled', 'queued', 'retrying')
      and visible_at < timestamptz '9999-01-01 00:00:00+00';
-- The grace of a slot is about the first attempt.
create index oncue_jobs_start_by on oncue_jobs (start_by)
    where start_by is not null and attempt = 0 and state in ('scheduled', 'queued', 'retrying')
      and visible_at < timestamptz '9999-01-01 00:00:00+00';
