-- Jobs for one node, by its leased name, or for the leader: claims read the best for them off the head of this one.
-- As with the indexes of groups, a plain job is told by the first condition.
create index oncue_jobs_addressed on oncue_jobs (address, queue, priority desc, order_at, id)
    where address is not null and state = 'queued' and isolation = 0;
-- What is not in the common claim index, or stands there by another instant than that of its creation, by age: aging is
-- read off this one.
create index oncue_jobs_set_apart on oncue_jobs (queue, priority desc, created_at, id)
    where (group_name is not null or address is not null or order_at > created_at) and state = 'queued' and isolation = 0;
