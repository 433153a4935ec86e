-- The audit log, for PostgreSQL.

-- name: _note
insert into oncue_audit (at, actor, action, subject, before, after)
    select $1, $2, $3, $4, $5::json, $6::json from took where $2::text is not null

-- name: audit_log
select {audit} from oncue_audit
 where ($1::text is null or actor = $1) and ($2::text is null or subject = $2) and ($3::bigint is null or id < $3)
 order by id desc limit $4;

-- name: prune_audit_log
delete from oncue_audit
 where id = any(array(select id from oncue_audit where at < $1 order by at limit (select $2::int)
                         for update skip locked));
