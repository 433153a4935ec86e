-- Sessions of browsers, for PostgreSQL.

-- name: add_session
with took as (
    insert into oncue_sessions (id, digest, token_id, created_at, expires_at) values ($7, $8, $9, $1, $10)
    returning id
), noted as ({_note})
select from took;

-- name: session
select {session} from oncue_sessions where id = $1;

-- name: standing_sessions
-- The words of the index: what is over is not read.
select {session} from oncue_sessions
 where least(ended_at, expires_at) > $1 and ended_at is null order by created_at desc, id;

-- name: end_session
with took as (
    update oncue_sessions set ended_at = $1 where id = $7 and ended_at is null returning id
), noted as ({_note})
select from took;

-- name: mark_session_used
-- No request waits for it: if another transaction holds the row, the next use is noted.
update oncue_sessions set last_used_at = greatest(last_used_at, $2)
 where id = any(array(select id from oncue_sessions where id = $1 for no key update skip locked));

-- name: prune_sessions
delete from oncue_sessions
 where id = any(array(select id from oncue_sessions where least(ended_at, expires_at) < $1
                       order by least(ended_at, expires_at) limit (select $2::int) for update skip locked));
