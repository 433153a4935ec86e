-- Counters, for SQLite.

-- name: fold_into_totals
insert into oncue_counters (queue, task, state, jobs)
select queue, task, state, sum(jobs) from (select * from oncue_counter_deltas order by id limit :limit)
 where true group by queue, task, state
    on conflict (queue, task, state) do update set jobs = jobs + excluded.jobs;

-- name: drop_folded
delete from oncue_counter_deltas where id in (select id from oncue_counter_deltas order by id limit :limit);

-- name: live_counts
-- The queued are in several indexes, by suspicion, group and address; asked for as one they would be looked for in the whole table.
select queue, 'queued', count(*), priority, isolation from (
    select * from (select queue, priority, 0 as isolation from oncue_jobs indexed by oncue_jobs_claimable
                    where {claimable} limit :limit)
    union all
    select * from (select queue, priority, isolation from oncue_jobs indexed by oncue_jobs_restricted
                    where state = 'queued' and isolation > 0 limit :limit)
    union all
    select * from (select queue, priority, 0 from oncue_jobs indexed by oncue_jobs_set_apart
                    where {set_apart} and (group_name is not null or address is not null) limit :limit)) group by queue, priority, isolation
union all
select queue, 'running', count(*), 0, 0 from (
    select queue from oncue_jobs indexed by oncue_jobs_running where state = 'running' limit :limit) group by queue
union all
select queue, 'later', count(*), 0, 0 from (
    select queue from oncue_jobs indexed by oncue_jobs_later
     where state in ('scheduled', 'retrying') limit :limit) group by queue;

-- name: totals
select queue, state, sum(jobs) from (
    select queue, state, jobs from oncue_counters union all select queue, state, jobs from oncue_counter_deltas)
 group by queue, state;

-- name: keep_sample
insert into oncue_sample (id, sampled_at, counts) values (1, :now, :counts)
    on conflict (id) do update set sampled_at = excluded.sampled_at, counts = excluded.counts
 where sampled_at <= excluded.sampled_at or sampled_at > excluded.sampled_at + 60000000;

-- name: last_sample
select sampled_at, counts from oncue_sample;

-- name: ages
-- What is due and not promoted yet waits, too. What runs is little, and read as a whole.
-- A group waits from its turn on. Jobs that wait for the room, the rate or the pause of their group do as they are told.
with recursive level (queue, priority) as (
    {_levels}
), grouped (queue) as (
    select min(queue) from oncue_groups indexed by oncue_groups_ready where ready_at is not null
    union all
    select (select min(g.queue) from oncue_groups g indexed by oncue_groups_ready
             where g.ready_at is not null and g.queue > grouped.queue)
      from grouped where grouped.queue is not null
), waiting (queue, since) as (
    select queue, (select min(ready_at) from (
               select name, ready_at from oncue_groups g indexed by oncue_groups_ready
                where g.queue = grouped.queue and ready_at is not null and ready_at <= :now
                order by ready_at, name limit :heads) as turn
            where exists (select 1 from oncue_jobs indexed by oncue_jobs_grouped
                           where {grouped} and queue = grouped.queue and group_name = turn.name))
      from grouped where grouped.queue is not null
    union all
    select queue, (select min(since) from (
               select max(created_at, visible_at) as since from oncue_jobs indexed by oncue_jobs_claimable
                where {claimable} and queue = level.queue and priority = level.priority
                order by order_at, id limit :heads))
      from level
    union all
    select * from (select queue, max(created_at, visible_at) from oncue_jobs indexed by oncue_jobs_addressed
                    where {addressed} limit :heads)
    union all
    select * from (select queue, max(created_at, visible_at) from oncue_jobs indexed by oncue_jobs_restricted
                    where state = 'queued' and isolation > 0 limit :heads)
    union all
    select * from (select queue, visible_at from oncue_jobs indexed by oncue_jobs_later
                    where state in ('scheduled', 'retrying') and visible_at <= :now order by visible_at limit :heads)
)
select 'queued', queue, '', min(since) from waiting where since is not null group by queue
union all
select 'running', queue, task, min(coalesce(started_at, claimed_at)) from oncue_jobs indexed by oncue_jobs_running
 where state = 'running' group by queue, task;
