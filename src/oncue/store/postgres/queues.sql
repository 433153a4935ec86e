-- Queues, for PostgreSQL.

-- name: pause
with took as (
    insert into oncue_queues (name, paused_at) values ($7, $1)
        on conflict (name) do update set paused_at = excluded.paused_at where oncue_queues.paused_at is null
    returning name
), noted as ({_note})
select from took;

-- name: resume
with took as (
    update oncue_queues set paused_at = null where name = $7 and paused_at is not null returning name
), noted as ({_note})
select from took;

-- name: queues
select name, paused_at, global_limit, node_limit from oncue_queues;

-- name: limits
select global_limit, node_limit from oncue_queues where name = $1;

-- name: set_limits
with took as (
    insert into oncue_queues as q (name, global_limit, node_limit, version) values ($7, $10, $11, 1)
        on conflict (name) do update
       set global_limit = excluded.global_limit, node_limit = excluded.node_limit, version = q.version + 1
     where q.global_limit is not distinct from $8 and q.node_limit is not distinct from $9
    returning name
), noted as ({_note})
select from took;

-- name: seating
select q.name, q.global_limit, q.node_limit, q.version,
       -- Each half in the words of its index: asked for as one they would be looked for in the whole table.
       exists (select from oncue_jobs j
                where {claimable} and j.queue = q.name and j.task = any($2::text[]))
       or exists (select from oncue_jobs j
                   where j.state = 'queued' and j.isolation > 0 and j.queue = q.name and j.task = any($2::text[])),
       s.node_id, s.seats, s.wanted
  from oncue_queues q
  left join (oncue_seats s join oncue_nodes n on n.id = s.node_id and n.lost_at is null) on s.queue = q.name
 where q.name = any($1::text[]) and (q.global_limit is not null or q.node_limit is not null)
 order by q.name, s.node_id;

-- name: take_seats
-- A node that was declared lost takes no seats: the other nodes would not count them.
with turn as (
    update oncue_queues set version = version + 1
     where name = $1 and version = $2 and exists (select from oncue_nodes where id = $3 and lost_at is null)
    returning name
), freed as (
    delete from oncue_seats s using turn
     where s.queue = turn.name and s.node_id <> $3
       and not exists (select from oncue_nodes n where n.id = s.node_id and n.lost_at is null)
)
insert into oncue_seats (queue, node_id, seats, wanted) select name, $3, $4, $5 from turn
    on conflict (queue, node_id) do update set seats = excluded.seats, wanted = excluded.wanted
returning queue;
