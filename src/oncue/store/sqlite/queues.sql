-- Queues, for SQLite.

-- name: pause
insert into oncue_queues (name, paused_at) values (:queue, :now)
    on conflict (name) do update set paused_at = excluded.paused_at where paused_at is null;

-- name: resume
update oncue_queues set paused_at = null where name = :queue and paused_at is not null;

-- name: queues
select name, paused_at, global_limit, node_limit from oncue_queues;

-- name: free_own_seats
-- Seats that a node held before it was declared lost may be others' by now.
delete from oncue_seats
 where node_id = :id and not exists (select 1 from oncue_nodes where id = :id and beat_no > :beat_no);

-- name: limits
select global_limit, node_limit from oncue_queues where name = :queue;

-- name: set_limits
insert into oncue_queues (name, global_limit, node_limit, version) values (:queue, :globally, :per_node, 1)
    on conflict (name) do update
   set global_limit = excluded.global_limit, node_limit = excluded.node_limit, version = version + 1
 where global_limit is :known_globally and node_limit is :known_per_node;

-- name: seating
select q.name, q.global_limit, q.node_limit, q.version,
       exists (select 1 from oncue_jobs j indexed by oncue_jobs_claimable
                where {claimable} and j.queue = q.name
                  and j.task in (select value from json_each(:tasks)))
       or exists (select 1 from oncue_jobs j indexed by oncue_jobs_restricted
                   where j.state = 'queued' and j.isolation > 0 and j.queue = q.name
                     and j.task in (select value from json_each(:tasks))),
       s.node_id, s.seats, s.wanted
  from oncue_queues q
  left join oncue_seats s on s.queue = q.name
        and exists (select 1 from oncue_nodes n where n.id = s.node_id and n.lost_at is null)
 where q.name in (select value from json_each(:queues)) and (q.global_limit is not null or q.node_limit is not null)
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
