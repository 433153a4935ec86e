-- Minutes and alerts, for PostgreSQL.

-- name: append_minutes
insert into oncue_minutes (minute, node_id, kind, name, figures)
select * from unnest($1::timestamptz[], $2::uuid[], $3::text[], $4::text[], $5::json[])
    on conflict (minute, node_id, kind, name) do update set figures = excluded.figures;

-- name: minutes
select minute, node_id, kind, name, figures from oncue_minutes where minute >= $1 order by minute, node_id, kind, name;

-- name: prune_minutes
-- Rows that another session holds wait for the next pass.
with gone as (
    delete from oncue_minutes
     where ctid = any(array(select ctid from oncue_minutes where minute < $1 order by minute limit (select $2::int)
                               for update skip locked))
    returning 1
)
select count(*) from gone;

-- name: alert_book
select version, evaluated_at, alerts from oncue_alerts;

-- name: write_alert_book
with written as (
    insert into oncue_alerts as b (id, version, evaluated_at, alerts)
    select 1, $4 + 1, $1, $5::json
     where exists (select from oncue_leases where name = 'leader' and holder = $2 and epoch = $3)
        on conflict (id) do update set version = excluded.version, evaluated_at = excluded.evaluated_at,
                                       alerts = excluded.alerts
     where b.version = $4
    returning 1
), made as (
    insert into oncue_jobs ({new_job})
    select n.id, n.args::json, null, {_shared}, null, null, null, b.group_name, b.address
      from json_to_recordset($6::json) as b ({_batch})
     cross join lateral json_to_recordset(b.jobs) as n (id bigint, args text)
     where exists (select from written)
    returning queue, group_name, state
), woken as (
    insert into oncue_group_wakeups (queue, name, has_job)
    select queue, group_name, bool_or(state = 'queued') from made where group_name is not null group by queue, group_name
)
select count(*) from written;
