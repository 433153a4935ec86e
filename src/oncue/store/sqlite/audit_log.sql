-- The audit log, for SQLite.

-- name: add_notes
insert into oncue_audit (at, actor, action, subject, before, after)
select :now, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 from json_each(:notes);

-- name: audit_log
select {audit} from oncue_audit where id < coalesce(:before, 9223372036854775807) order by id desc limit :limit;

-- name: audit_log_by
select {audit} from oncue_audit
 where actor = :actor and id < coalesce(:before, 9223372036854775807) order by id desc limit :limit;

-- name: audit_log_of
select {audit} from oncue_audit
 where subject = :subject and (:actor is null or actor = :actor) and id < coalesce(:before, 9223372036854775807)
 order by id desc limit :limit;

-- name: prune_audit_log
delete from oncue_audit where id in (select id from oncue_audit where at < :before order by at limit :limit);
