-- Queues, for SQLite.

-- name: pause
insert into oncue_queues (name, paused_at) values (:queue, :now)
    on conflict (name) do update set paused_at = excluded.paused_at where paused_at is null;

-- name: resume
update oncue_queues set paused_at = null where name = :queue and paused_at is not null;

-- name: queues
select name, paused_at, {limits} from oncue_queues;

-- name: free_own_seats
-- Seats that a node held before it was declared lost may be others' by now.
delete from oncue_seats
 where node_id = :id and not exists (select 1 from oncue_nodes where id = :id and beat_no > :beat_no);

-- name: limits
select {limits} from oncue_queues where name = :queue;

-- name: set_limits
insert into oncue_queues (name, {limits}, version)
values (:queue, :global_limit, :node_limit, :group_limit, :rate_count, :rate_seconds, :group_rate_count,
        :group_rate_seconds, 1)
    on conflict (name) do update
   set global_limit = excluded.global_limit, node_limit = excluded.node_limit, group_limit = excluded.group_limit,
       rate_count = excluded.rate_count, rate_seconds = excluded.rate_seconds,
       rate_at = case when rate_count is excluded.rate_count and rate_seconds is excluded.rate_seconds then rate_at end,
       group_rate_count = excluded.group_rate_count, group_rate_seconds = excluded.group_rate_seconds,
       version = version + 1
 where global_limit is :known_global_limit and node_limit is :known_node_limit and group_limit is :known_group_limit
   and rate_count is :known_rate_count and rate_seconds is :known_rate_seconds
   and group_rate_count is :known_group_rate_count and group_rate_seconds is :known_group_rate_seconds;

-- name: default_limits
insert into oncue_queues (name, {limits}, version)
values (:queue, :global_limit, :node_limit, :group_limit, :rate_count, :rate_seconds, :group_rate_count,
        :group_rate_seconds, 1)
    on conflict do nothing;

-- name: wake_queue
-- What has waited for room, or for a rate that holds no more, is looked at again.
update oncue_groups
   set version = version + 1, ready_at = max(:now, coalesce(paused_until, :now)),
       rate_at = case when rate_count is null and (:group_rate_count is not :known_group_rate_count
                                                   or :group_rate_seconds is not :known_group_rate_seconds)
                      then null else rate_at end
 where queue = :queue
   and (:group_limit is not :known_group_limit or :group_rate_count is not :known_group_rate_count
        or :group_rate_seconds is not :known_group_rate_seconds);

-- name: seating
select q.name, {limits}, q.version,
       exists (select 1 from oncue_jobs j indexed by oncue_jobs_claimable
                where {claimable} and j.queue = q.name
                  and j.task in (select value from json_each(:tasks)))
       or exists (select 1 from oncue_jobs j indexed by oncue_jobs_restricted
                   where j.state = 'queued' and j.isolation > 0 and j.queue = q.name
                     and j.task in (select value from json_each(:tasks)))
       or exists (select 1 from oncue_jobs j indexed by oncue_jobs_addressed
                   where {addressed} and j.address in (select value from json_each(:addresses)) and j.queue = q.name
                     and j.task in (select value from json_each(:tasks)))
       or exists (select 1 from oncue_groups g indexed by oncue_groups_ready
                   where g.queue = q.name and g.ready_at is not null and g.ready_at < 253370764800000000),
       s.node_id, s.seats, s.wanted
  from oncue_queues q
  left join oncue_seats s on s.queue = q.name
        and exists (select 1 from oncue_nodes n where n.id = s.node_id and n.lost_at is null)
 where q.name in (select value from json_each(:queues)) 
   and (q.global_limit is not null or q.node_limit is not null or q.rate_count is not null)
 order by q.name, s.node_id;

-- name: take_turn
-- A node that was declared lost takes no seats: the other nodes would not count them.
update oncue_queues set version = version + 1
 where name = :queue and version = :version
   and exists (select 1 from oncue_nodes where id = :node and lost_at is null);

-- name: free_seats
delete from oncue_seats
 where queue = :queue and node_id <> :node
   and not exists (select 1 from oncue_nodes n where n.id = node_id and n.lost_at is null);

-- name: take_seats
insert into oncue_seats (queue, node_id, seats, wanted) values (:queue, :node, :seats, :wanted)
    on conflict (queue, node_id) do update set seats = excluded.seats, wanted = excluded.wanted;

-- name: rate_of
-- How many microseconds lie between two starts, and until when they are used up; nothing if nothing waits for them.
select 1e6 * rate_seconds / rate_count, rate_at from oncue_queues
 where name = :queue and rate_count is not null
   and case when :grouped
            then exists (select 1 from oncue_groups g indexed by oncue_groups_ready
                          where g.queue = :queue and g.ready_at is not null and g.ready_at <= :now)
            else exists (select 1 from oncue_jobs j indexed by oncue_jobs_claimable
                          where {claimable} and j.queue = :queue and j.task in (select value from json_each(:tasks)))
                 or exists (select 1 from oncue_jobs j indexed by oncue_jobs_restricted
                             where j.state = 'queued' and j.isolation > 0 and j.group_name is null and j.queue = :queue
                               and j.task in (select value from json_each(:tasks)))
                 or exists (select 1 from oncue_jobs j indexed by oncue_jobs_addressed
                             where {addressed} and j.address in (select value from json_each(:addresses))
                               and j.queue = :queue and j.task in (select value from json_each(:tasks))) end;

-- name: use_rate
update oncue_queues set rate_at = :rate_at where name = :queue;

-- name: return_turns
-- Not if the rate has gone on by more than a turn and a burst since.
update oncue_queues set rate_at = rate_at - cast(round(:turns * 1e6 * rate_seconds / rate_count) as integer)
 where name = :queue and rate_count is not null
   and rate_at <= :next_at + 1e6 * rate_seconds / rate_count * (1 + 40000 * rate_count / (1000000 * rate_seconds));

-- name: rated_until
select rate_at from oncue_queues where name = :queue and rate_count is not null;
