-- Minutes and alerts, for SQLite.

-- name: append_minutes
insert into oncue_minutes (minute, node_id, kind, name, figures) values (:minute, :node_id, :kind, :name, :figures)
    on conflict (minute, node_id, kind, name) do update set figures = excluded.figures;

-- name: minutes
select minute, node_id, kind, name, figures from oncue_minutes where minute >= :since order by minute, node_id, kind, name;

-- name: prune_minutes
delete from oncue_minutes
 where (minute, node_id, kind, name) in (select minute, node_id, kind, name from oncue_minutes where minute < :before
                                          order by minute limit :limit);

-- name: any_old_minute
select exists (select 1 from oncue_minutes where minute < :before);

-- name: alert_book
select version, evaluated_at, alerts from oncue_alerts;

-- name: write_alert_book
insert into oncue_alerts (id, version, evaluated_at, alerts) values (1, :version + 1, :now, :alerts)
    on conflict (id) do update set version = excluded.version, evaluated_at = excluded.evaluated_at,
                                   alerts = excluded.alerts
 where version = :version;
