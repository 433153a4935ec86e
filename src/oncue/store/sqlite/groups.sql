-- Groups of a queue, for SQLite.

-- name: any_wakeups
select exists (select 1 from oncue_group_wakeups);

-- name: next_ready
select min(first) from (
    select (select ready_at from oncue_groups indexed by oncue_groups_ready
             where queue = wanted.value and ready_at is not null order by ready_at limit 1) as first
      from json_each(:queues) as wanted);

-- name: wakeups
select json_group_array(id) from (select id from oncue_group_wakeups order by id limit :limit);

-- name: wake_groups
-- Those in which a job can be claimed get a row, if they have none. One whose limit is reached is not ready because a job
-- came: it would take the turn of others. The end of any job that runs in it is told too. While its circuit breaker is
-- open, a group has room for one.
insert into oncue_groups (queue, name, ready_at, version)
select queue, name, case when not is_full then :now end, 1 from (
    select w.queue, w.name, w.has_job, g.queue is not null as is_known,
           w.has_job and (select count(*) from oncue_jobs j indexed by oncue_jobs_group_running
                           where j.state = 'running' and j.group_name is not null and j.queue = w.queue
                             and j.group_name = w.name)
                         >= case when g.trips > 0 then 1
                                 else coalesce(g.running_limit, q.group_limit, 9223372036854775807) end as is_full
      from (select queue, name, max(has_job) as has_job from oncue_group_wakeups
             where id in (select value from json_each(:ids)) group by queue, name) as w
      left join oncue_groups g on g.queue = w.queue and g.name = w.name
      left join oncue_queues q on q.name = w.queue)
 where case when is_known then not is_full else has_job end
    on conflict (queue, name) do update
   set version = version + 1,
       ready_at = case when excluded.ready_at is null then ready_at
                       else min(coalesce(ready_at, 9223372036854775807),
                                max(:now, coalesce(rate_at, :now), coalesce(paused_until, :now))) end;

-- name: forget_wakeups
delete from oncue_group_wakeups where id in (select value from json_each(:ids));

-- name: any_ready
select exists (select 1 from json_each(:queues) as wanted
                where exists (select 1 from oncue_groups indexed by oncue_groups_ready
                               where queue = wanted.value and ready_at is not null and ready_at <= :now));

-- name: grouped_apart
-- One job that is kept apart, if there is one in a group that is ready.
select j.id, j.queue, j.group_name
  from json_each(:queues) as wanted
  join oncue_jobs j indexed by oncue_jobs_restricted on j.queue = wanted.value
 where {_open} and j.state = 'queued' and j.isolation > 0 and j.group_name is not null
   and j.task in (select value from json_each(:tasks))
   and case when j.isolation = 2 then j.visible_at <= :alone else :few > 0 end
   and exists (select 1 from oncue_groups g where g.queue = j.queue and g.name = j.group_name and g.ready_at <= :now)
 order by j.isolation desc, j.crashes, j.priority desc, j.order_at, j.id limit 1;

-- name: open_with_groups
-- The queues that are open to this node and have a group that is ready.
select json_group_array(wanted.value) from json_each(:queues) as wanted
 where {_open}
   and exists (select 1 from oncue_groups indexed by oncue_groups_ready
                where queue = wanted.value and ready_at is not null and ready_at <= :now);

-- name: groups_in_turn
-- The groups of a queue that have waited longest: what runs in them, and what holds for them. Those whose jobs are all for
-- other nodes are theirs to look at. Of one queue, so that they are read off the index: of several, all that are ready
-- would be read and sorted.
select g.queue, g.name, g.ready_at, g.rate_at,
       case when g.trips > 0 then 1 else coalesce(g.running_limit, q.group_limit) end,
       case when g.rate_count is null then 1e6 * q.group_rate_seconds / q.group_rate_count
            else 1e6 * g.rate_seconds / g.rate_count end,
       g.running_limit is not null or g.rate_count is not null or g.trips > 0 or coalesce(g.paused_until > :now, 0),
       (select count(*) from oncue_jobs j indexed by oncue_jobs_group_running
         where j.state = 'running' and j.group_name is not null and j.queue = g.queue and j.group_name = g.name)
  from oncue_groups g indexed by oncue_groups_ready
  left join oncue_queues q on q.name = g.queue
 where g.queue = :queue and g.ready_at is not null and g.ready_at <= :now
   and (:only is null or g.name = :only)
   and (exists (select 1 from oncue_jobs j indexed by oncue_jobs_grouped
                 where j.state = 'queued' and j.group_name is not null and j.queue = g.queue and j.group_name = g.name
                   and j.task in (select value from json_each(:tasks)))
        or not exists (select 1 from oncue_jobs j indexed by oncue_jobs_grouped
                        where j.state = 'queued' and j.group_name is not null and j.queue = g.queue
                          and j.group_name = g.name))
 order by g.ready_at, g.name limit :limit;

-- name: best_of_groups
-- The best of each group.
select (select json_group_array(id) from (
            select j.id from oncue_jobs j indexed by oncue_jobs_grouped
             where j.state = 'queued' and j.group_name is not null and j.queue = g.value ->> 0
               and j.group_name = g.value ->> 1 and j.isolation = 0 and j.task in (select value from json_each(:tasks))
             order by j.priority desc, j.order_at, j.id limit :limit))
  from json_each(:groups) as g order by g.key;

-- name: more_in_groups
-- Whether something of a group is still queued.
select json_group_array(exists (select 1 from oncue_jobs j indexed by oncue_jobs_grouped
                                 where j.state = 'queued' and j.group_name is not null and j.queue = g.value ->> 0
                                   and j.group_name = g.value ->> 1))
  from (select value from json_each(:groups) order by key) as g;

-- name: keep_groups
update oncue_groups set version = version + 1, ready_at = g.value ->> 2, rate_at = g.value ->> 3
  from json_each(:groups) as g
 where queue = g.value ->> 0 and name = g.value ->> 1 and not (g.value ->> 4);

-- name: forget_groups
delete from oncue_groups
 where (queue, name) in (select g.value ->> 0, g.value ->> 1 from json_each(:groups) as g where g.value ->> 4);

-- name: groups
-- Those of which something waits are read off the head of each in the index: a step for each.
with recursive waiting (name) as (
    select min(group_name) from oncue_jobs indexed by oncue_jobs_grouped
     where state = 'queued' and group_name is not null and queue = :queue and group_name > :after
    union all
    select (select min(j.group_name) from oncue_jobs j indexed by oncue_jobs_grouped
             where j.state = 'queued' and j.group_name is not null and j.queue = :queue
               and j.group_name > waiting.name) as next
      from waiting where waiting.name is not null limit :limit
), known (name) as (
    select name from waiting where name is not null
    union
    select name from (select name from oncue_groups where queue = :queue and name > :after order by name limit :limit)
    union
    select group_name from oncue_jobs indexed by oncue_jobs_group_running
     where state = 'running' and group_name is not null and queue = :queue and group_name > :after
)
{_group}
 order by k.name limit :limit;

-- name: group
with known (name) as (select :name)
{_group};

-- name: _group
select k.name,
       (select count(*) from (select 1 from oncue_jobs j indexed by oncue_jobs_grouped
                               where j.state = 'queued' and j.group_name is not null and j.queue = :queue
                                 and j.group_name = k.name limit 1000)),
       (select count(*) from oncue_jobs j indexed by oncue_jobs_group_running
         where j.state = 'running' and j.group_name is not null and j.queue = :queue and j.group_name = k.name),
       case when g.trips > 0 then 1 else coalesce(g.running_limit, q.group_limit) end,
       case when g.rate_count is null then q.group_rate_count else g.rate_count end,
       case when g.rate_count is null then q.group_rate_seconds else g.rate_seconds end,
       g.rate_at, g.paused_until,
       g.running_limit is not null or g.rate_count is not null or g.paused_until is not null, coalesce(g.trips, 0)
  from known k
  left join oncue_groups g on g.queue = :queue and g.name = k.name
  left join oncue_queues q on q.name = :queue

-- name: group_settings
select running_limit, rate_count, rate_seconds, paused_until, trips from oncue_groups where queue = :queue and name = :name;

-- name: trip
-- The circuit breaker of a group. Closing (:trips is 0) ends the pause that the breaker had set (:known_until) and no other.
insert into oncue_groups (queue, name, trips, paused_until, ready_at, version)
select :queue, :name, :trips, :paused_until, max(:now, coalesce(:paused_until, :now)), 1
 where (:known_trips = 0 and :trips > 0) or exists (select 1 from oncue_groups where queue = :queue and name = :name)
    on conflict (queue, name) do update
   set trips = excluded.trips, version = version + 1, paused_until = {_tripped_until},
       ready_at = max(:now, coalesce(rate_at, :now), coalesce({_tripped_until}, :now))
 where trips = :known_trips;

-- name: tripped
select name, trips, paused_until from oncue_groups
 where queue = :queue and name in (select value from json_each(:groups)) and trips > 0;

-- name: forget_tripped
delete from oncue_groups where (queue, name) in (
    select k.queue, k.name from oncue_groups k
     where (k.paused_until is not null or k.trips > 0) and k.trips > 0 and k.paused_until < :before
       and k.running_limit is null and k.rate_count is null
       and not exists (select 1 from oncue_jobs j indexed by oncue_jobs_grouped
                        where j.state = 'queued' and j.group_name is not null and j.queue = k.queue
                          and j.group_name = k.name)
       and not exists (select 1 from oncue_jobs j
                        where j.state = 'running' and j.group_name is not null and j.queue = k.queue
                          and j.group_name = k.name)
     limit :limit);

-- name: held_back
select queue, name, trips, paused_until from oncue_groups
 where (paused_until is not null or trips > 0) and (paused_until > :now or trips > 0)
 order by queue, name limit :limit;

-- name: _tripped_until
case when :trips > 0 then max(:paused_until, coalesce(paused_until, :paused_until))
            when paused_until is not :known_until then paused_until end

-- name: set_group
insert into oncue_groups (queue, name, running_limit, rate_count, rate_seconds, paused_until, ready_at, version)
select :queue, :name, :limit, :rate_count, :rate_seconds, :paused_until, max(:now, coalesce(:paused_until, :now)), 1
 where coalesce(:known_limit, :known_rate_count, :known_rate_seconds, :known_paused_until) is null
    or exists (select 1 from oncue_groups where queue = :queue and name = :name)
    on conflict (queue, name) do update
   set running_limit = excluded.running_limit, rate_count = excluded.rate_count, rate_seconds = excluded.rate_seconds,
       paused_until = excluded.paused_until, ready_at = excluded.ready_at, version = version + 1,
       rate_at = case when rate_count is excluded.rate_count and rate_seconds is excluded.rate_seconds then rate_at end
 where running_limit is :known_limit and rate_count is :known_rate_count and rate_seconds is :known_rate_seconds
   and paused_until is :known_paused_until;
