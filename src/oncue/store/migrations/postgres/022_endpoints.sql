-- The deliveries to one endpoint by their state, newest last. What runs is few, and is found by its group: a claim writes
-- nothing here. Jobs of other tasks are told by the first condition.
create index oncue_jobs_endpoint on oncue_jobs (group_name, state, id)
    where task = 'oncue.deliver' and group_name is not null and state <> 'running';
