-- The audit log, for PostgreSQL.

-- name: _note
insert into oncue_audit (at, actor, action, subject, before, after)
    select $1, $2, $3, $4, $5::json, $6::json from took where $2::text is not null

-- name: audit_log
select {audit} from oncue_audit where id < coalesce($1, 9223372036854775807) order by id desc limit $2;

-- name: audit_log_by
select {audit} from oncue_audit
 where actor = $1 and id < coalesce($2, 9223372036854775807) order by id desc limit $3;

-- name: audit_log_of
select {audit} from oncue_audit
 where subject = $1 and ($2::text is null or actor = $2) and id < coalesce($3, 9223372036854775807)
 order by id desc limit $4;

-- name: prune_audit_log
delete from oncue_audit
 where id = any(array(select id from oncue_audit where at < $1 order by at limit (select $2::int)
                         for update skip locked));
