-- What a handler told of an attempt, a small JSON object: of the latest on the job, of earlier ones with them.
alter table oncue_jobs add column details text;
alter table oncue_attempts add column details text;
