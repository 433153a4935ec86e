-- Counters, for PostgreSQL.

-- name: fold_counters
with taken as (
    delete from oncue_counter_deltas
     where id = any(array(select id from oncue_counter_deltas order by id limit $1 for update skip locked))
    returning queue, task, state, jobs
), folded as (
    insert into oncue_counters as total (queue, task, state, jobs)
    select queue, task, state, sum(jobs) from taken group by queue, task, state order by queue, task, state
        on conflict (queue, task, state) do update set jobs = total.jobs + excluded.jobs
)
select count(*) from taken;

-- name: fold_counters_free
-- Past the totals that another session holds.
with picked as materialized (
    select id, queue, task, state from oncue_counter_deltas order by id limit $1 for update skip locked
), free as materialized (
    select t.queue, t.task, t.state from oncue_counters t
     where (t.queue, t.task, t.state) in (select queue, task, state from picked)
       for no key update skip locked
), taken as (
    delete from oncue_counter_deltas
     where id = any(array(select p.id from picked p
                           where not exists (select from oncue_counters t where (t.queue, t.task, t.state)
                                                                              = (p.queue, p.task, p.state))
                              or exists (select from free f where (f.queue, f.task, f.state)
                                                                = (p.queue, p.task, p.state))))
    returning queue, task, state, jobs
), folded as (
    insert into oncue_counters as total (queue, task, state, jobs)
    select queue, task, state, sum(jobs) from taken group by queue, task, state order by queue, task, state
        on conflict (queue, task, state) do update set jobs = total.jobs + excluded.jobs
)
select count(*) from taken;

-- name: live_counts
-- The queued are in several indexes, by suspicion, group and address; asked for as one they would be looked for in the whole table.
select queue, 'queued' as state, count(*), priority, isolation from (
    (select queue, priority, 0 as isolation from oncue_jobs where {claimable} limit $1)
    union all
    (select queue, priority, isolation from oncue_jobs where state = 'queued' and isolation > 0 limit $1)
    union all
    (select queue, priority, 0 from oncue_jobs
      where {set_apart} and (group_name is not null or address is not null) limit $1)) as waiting
 group by queue, priority, isolation
union all
select queue, 'running', count(*), 0, 0 from (
    select queue from oncue_jobs where state = 'running' limit $1) as running group by queue
union all
select queue, 'later', count(*), 0, 0 from (
    select queue from oncue_jobs where state in ('scheduled', 'retrying') limit $1) as later group by queue;

-- name: totals
select queue, state, sum(jobs)::bigint from (
    select queue, state, jobs from oncue_counters union all select queue, state, jobs from oncue_counter_deltas) as t
 group by queue, state;

-- name: keep_sample
insert into oncue_sample (id, sampled_at, counts) values (1, $1, $2)
    on conflict (id) do update set sampled_at = excluded.sampled_at, counts = excluded.counts
 where oncue_sample.sampled_at <= excluded.sampled_at
    or oncue_sample.sampled_at > excluded.sampled_at + interval '1 minute';

-- name: last_sample
select sampled_at, counts from oncue_sample;

-- name: ages
-- What is due and not promoted yet waits, too. What runs is little, and read as a whole.
-- A group waits from its turn on. Jobs that wait for the room, the rate or the pause of their group do as they are told.
with recursive level (queue, priority) as (
    {_levels}
), grouped (queue) as (
    (select queue from oncue_groups where ready_at is not null order by queue, ready_at limit 1)
    union all
    select next.queue from grouped cross join lateral (
           select g.queue from oncue_groups g where g.ready_at is not null and g.queue > grouped.queue
            order by g.queue, g.ready_at limit 1) as next
), waiting (queue, since) as (
    select grouped.queue, turn.ready_at from grouped
     cross join lateral (
         select g.name, g.ready_at from oncue_groups g
          where g.queue = grouped.queue and g.ready_at is not null and g.ready_at <= $1
          order by g.ready_at, g.name limit (select $2::int)) as turn
     -- In the order of their index: if most of the table is one group, `exists` would look for others by reading all of it.
     where (select true from oncue_jobs
             where {grouped} and state || '' = 'queued' and queue = grouped.queue and group_name = turn.name
             order by priority desc, order_at, id limit 1)
    union all
    select level.queue, head.since from level
     cross join lateral (
         select greatest(created_at, visible_at) as since from oncue_jobs
          where {claimable} and queue = level.queue and priority = level.priority
          order by order_at, id limit (select $2::int)) as head
    union all
    (select queue, greatest(created_at, visible_at) from oncue_jobs where {addressed} limit (select $2::int))
    union all
    (select queue, greatest(created_at, visible_at) from oncue_jobs where state = 'queued' and isolation > 0
      limit (select $2::int))
    union all
    (select queue, visible_at from oncue_jobs where state in ('scheduled', 'retrying') and visible_at <= $1
      order by visible_at limit (select $2::int))
)
select 'queued' as kind, queue, '' as task, min(since) from waiting group by queue
union all
select 'running', queue, task, min(coalesce(started_at, claimed_at)) from oncue_jobs where state = 'running'
 group by queue, task;
