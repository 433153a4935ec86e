-- Where a job may run, and with whom. `group_name` is the group of its queue to which it belongs; `address` the only place
-- where it may run: a node by its name ('node:NAME') or the leader ('role:leader').
alter table oncue_jobs add column group_name text;
alter table oncue_jobs add column address text;
-- Claims read the head of this one. Jobs of groups and jobs with an address are in indexes of their own, so that a million
-- of them that cannot run cost the others nothing.
drop index oncue_jobs_claimable;
create index oncue_jobs_claimable on oncue_jobs (queue, priority desc, order_at, id)
    where state = 'queued' and isolation = 0 and group_name is null and address is null;
