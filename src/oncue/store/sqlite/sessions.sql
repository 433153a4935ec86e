-- Sessions of browsers, for SQLite.

-- name: add_session
insert into oncue_sessions (id, digest, token_id, created_at, expires_at)
values (:id, :digest, :token_id, :now, :expires_at);

-- name: session
select {session} from oncue_sessions where id = :session_id;

-- name: standing_sessions
-- The words of the index: what is over is not read.
select {session} from oncue_sessions
 where min(coalesce(ended_at, expires_at), expires_at) > :now and ended_at is null order by created_at desc, id;

-- name: end_session
update oncue_sessions set ended_at = :now where id = :session_id and ended_at is null;

-- name: mark_session_used
update oncue_sessions set last_used_at = max(coalesce(last_used_at, 0), :now) where id = :session_id;

-- name: prune_sessions
delete from oncue_sessions
 where id in (select id from oncue_sessions where min(coalesce(ended_at, expires_at), expires_at) < :before
               order by min(coalesce(ended_at, expires_at), expires_at) limit :limit);
