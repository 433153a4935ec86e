-- Nodes, for SQLite.

-- name: forget_nodes
delete from oncue_nodes where lost_at < :before
   and not exists (select 1 from oncue_jobs j where j.state = 'running' and j.node_id = oncue_nodes.id);

-- name: register
insert into oncue_nodes ({node})
values (:id, :name, :host, :pid, :boot_id, :version, :queues, :tasks, :concurrency, :address, :started_at, :beat_at,
        :expires_at, :process_start, :exclusive, :schedules, :beat_no)
    on conflict (id) do update set beat_at = excluded.beat_at, expires_at = excluded.expires_at, lost_at = null,
                                   left_at = null, beat_no = excluded.beat_no
     where oncue_nodes.beat_no <= excluded.beat_no;

-- name: beat
update oncue_nodes set beat_at = :now, expires_at = :expires_at, beat_no = :number
 where id = :node and lost_at is null and beat_no <= :number;

-- name: expire_nodes
update oncue_nodes set lost_at = :now where lost_at is null and expires_at <= :now returning {node};

-- name: next_lease_end
select min(expires_at) from oncue_nodes where lost_at is null;

-- name: leave
update oncue_nodes set lost_at = coalesce(lost_at, :now), left_at = :now where id = :node;

-- name: nodes
select {node} from oncue_nodes where lost_at is null order by started_at, id;

-- name: namesakes
select {node} from oncue_nodes
 where name = :name and id <> :node
   and (lost_at is null or exists (select 1 from oncue_jobs where state = 'running' and node_id = oncue_nodes.id))
 order by started_at;

-- name: node_names
select id, name from oncue_nodes where id in (select value from json_each(:ids));

-- name: declare_lost
update oncue_nodes set lost_at = :now where id = :node and lost_at is null;
