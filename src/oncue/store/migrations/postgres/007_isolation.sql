-- What company a job may have when it runs next: 0 any, 1 a cohort of its like, 2 none (`policy/suspicion.py` says which).
alter table oncue_jobs add column isolation smallint not null default 0;
update oncue_jobs set isolation = 1 where crashes = 2 and state in ('scheduled', 'queued', 'running', 'retrying');
-- Claims read the head of this one. The first rerun after a crash is among all others.
drop index oncue_jobs_claimable;
create index oncue_jobs_claimable on oncue_jobs (queue, priority desc, order_at, id)
    where state = 'queued' and isolation = 0;
-- Few, and handed out apart: so many at a time, or one for a whole node.
drop index oncue_jobs_suspects;
create index oncue_jobs_restricted on oncue_jobs (isolation, queue, priority desc, order_at, id)
    where state = 'queued' and isolation > 0;
