-- Nodes, for PostgreSQL.

-- name: register
-- Seats that a node held before it was declared lost may be others' by now.
with freed as (
    delete from oncue_seats where node_id = $1
       and not exists (select from oncue_nodes where id = $1 and beat_no > $17)
)
insert into oncue_nodes ({node})
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, false)
    on conflict (id) do update set beat_at = excluded.beat_at, expires_at = excluded.expires_at, lost_at = null,
                                   left_at = null, beat_no = excluded.beat_no, name = excluded.name, named = false
     where oncue_nodes.beat_no <= excluded.beat_no;

-- name: beat
update oncue_nodes set beat_at = $2, expires_at = $3, beat_no = $4
 where id = $1 and lost_at is null and beat_no <= $4 returning id;

-- name: expire_nodes
update oncue_nodes set lost_at = $1
 where lost_at is null and expires_at <= $1 and ($2::uuid is null or id = $2) returning {node};

-- name: next_lease_end
select min(expires_at) from oncue_nodes where lost_at is null;

-- name: expire_nodes_free
-- Past the nodes whose rows another session holds.
update oncue_nodes set lost_at = $1
 where id = any(array(select id from oncue_nodes where lost_at is null and expires_at <= $1
                                                          and ($2::uuid is null or id = $2)
                         for no key update skip locked))
returning {node};

-- name: forget_nodes
delete from oncue_nodes
 where id = any(array(select n.id from oncue_nodes n
                       where n.lost_at < $1
                         and not exists (select from oncue_jobs where state = 'running' and node_id = n.id)
                         for update skip locked));

-- name: leave
update oncue_nodes set lost_at = coalesce(lost_at, $2), left_at = $2, beat_no = greatest(beat_no, $3)
 where id = $1;

-- name: nodes
select {node} from oncue_nodes where lost_at is null order by started_at, id;

-- name: gone_nodes
-- A node that was declared lost may still leave afterwards.
select id, name, lost_at, coalesce(left_at = lost_at, false) from oncue_nodes
 where lost_at >= $1 order by lost_at desc, id limit $2;

-- name: node_work
select n.id, j.id, j.task, j.started_at
  from unnest($1::uuid[]) as n (id)
 cross join lateral (select id, task, started_at from oncue_jobs
                      where state = 'running' and node_id = n.id limit $2) as j;

-- name: namesakes
select {node} from oncue_nodes
 where name = $1 and id <> $2
   and (lost_at is null or exists (select from oncue_jobs where state = 'running' and node_id = oncue_nodes.id))
 order by started_at;

-- name: take_name
-- If two nodes ask at once, the index oncue_nodes_named refuses the second one.
-- What was addressed to the node while it had no name is addressed to its name from here on.
with took as (
    update oncue_nodes set name = $2, named = true
     where id = $1 and lost_at is null and not named
       and not exists (select from oncue_nodes where name = $2 and named and lost_at is null)
    returning id
), moved as (
    update oncue_jobs set address = 'node:' || $2, updated_at = greatest(updated_at, created_at)
     where id = any(array(select id from oncue_jobs where {addressed} and address = 'node:' || $1::uuid::text))
       and state || '' = 'queued' and exists (select from took)
    returning id
)
update oncue_parts set node_name = $2 where job_id = any(array(select id from moved)) and was_open is null;

-- name: move_to_name
-- Once more after that: what was being written in the meantime, `take_name` has waited for and could not see.
with moved as (
    update oncue_jobs set address = 'node:' || $2, updated_at = greatest(updated_at, created_at)
     where id = any(array(select id from oncue_jobs where {addressed} and address = 'node:' || $1::uuid::text))
       and state || '' = 'queued' and exists (select from oncue_nodes where id = $1 and name = $2 and named)
    returning id
)
update oncue_parts set node_name = $2 where job_id = any(array(select id from moved)) and was_open is null;

-- name: name_holder
-- The node itself, if it has a name, else the one that has the name it asks for.
select {node} from oncue_nodes
 where lost_at is null and named and (id = $1 or name = $2) order by id <> $1 limit 1;

-- name: node_names
select id, name from oncue_nodes where id = any($1::uuid[]);

-- name: declare_lost
-- Nor can it go on with what it held alone: its epoch is over.
with freed as (
    update oncue_leases set expires_at = least(expires_at, $2), epoch = epoch + 1
     where holder = $1 and exists (select from oncue_nodes where id = $1 and lost_at is null)
)
update oncue_nodes set lost_at = $2 where id = $1 and lost_at is null returning id;
