-- Nodes, for SQLite.

-- name: forget_nodes
delete from oncue_nodes where lost_at < :before
   and not exists (select 1 from oncue_jobs j where j.state = 'running' and j.node_id = oncue_nodes.id);

-- name: register
insert into oncue_nodes ({node})
values (:id, :name, :host, :pid, :boot_id, :version, :queues, :tasks, :concurrency, :address, :started_at, :beat_at,
        :expires_at, :process_start, :exclusive, :schedules, :beat_no, false)
    on conflict (id) do update set beat_at = excluded.beat_at, expires_at = excluded.expires_at, lost_at = null,
                                   left_at = null, beat_no = excluded.beat_no, name = excluded.name, named = false
     where oncue_nodes.beat_no <= excluded.beat_no;

-- name: beat
update oncue_nodes set beat_at = :now, expires_at = :expires_at, beat_no = :number
 where id = :node and lost_at is null and beat_no <= :number;

-- name: expire_nodes
update oncue_nodes set lost_at = :now
 where lost_at is null and expires_at <= :now and (:only is null or id = :only) returning {node};

-- name: next_lease_end
select min(expires_at) from oncue_nodes where lost_at is null;

-- name: leave
update oncue_nodes set lost_at = coalesce(lost_at, :now), left_at = :now, beat_no = max(beat_no, :number)
 where id = :node;

-- name: nodes
select {node} from oncue_nodes where lost_at is null order by started_at, id;

-- name: gone_nodes
-- A node that was declared lost may still leave afterwards.
select id, name, lost_at, coalesce(left_at = lost_at, false) from oncue_nodes
 where lost_at >= :since order by lost_at desc, id limit :limit;

-- name: node_work
select n.value, (select json_group_array(json_array(id, task, started_at)) from
                     (select id, task, started_at from oncue_jobs indexed by oncue_jobs_running
                       where state = 'running' and node_id = n.value limit :limit))
  from json_each(:nodes) as n;

-- name: namesakes
select {node} from oncue_nodes
 where name = :name and id <> :node
   and (lost_at is null or exists (select 1 from oncue_jobs where state = 'running' and node_id = oncue_nodes.id))
 order by started_at;

-- name: take_name
-- One transaction writes at a time, so that no other node takes the name between the look and the write.
update oncue_nodes set name = :name, named = true
 where id = :node and lost_at is null and named = false
   and not exists (select 1 from oncue_nodes where name = :name and named = true and lost_at is null);

-- name: readdress
-- What was addressed to the node while it had no name is addressed to its name from here on.
update oncue_jobs set address = 'node:' || :name
 where id in (select id from oncue_jobs indexed by oncue_jobs_addressed
               where {addressed} and address = 'node:' || :node);

-- name: rename_parts
update oncue_parts set node_name = :name
 where node_id = :node and was_open is null
   and exists (select 1 from oncue_jobs where id = oncue_parts.job_id and address = 'node:' || :name);

-- name: name_holder
-- The node itself, if it has a name, else the one that has the name it asks for.
select {node} from oncue_nodes
 where lost_at is null and named = true and (id = :node or name = :name) order by id <> :node limit 1;

-- name: node_names
select id, name from oncue_nodes where id in (select value from json_each(:ids));

-- name: declare_lost
update oncue_nodes set lost_at = :now where id = :node and lost_at is null;
