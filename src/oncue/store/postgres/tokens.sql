-- Tokens, for PostgreSQL.

-- name: add_token
with took as (
    insert into oncue_tokens (id, name, digest, scopes, created_by, created_at, expires_at)
    values ($7, $8, $9, $10, $11, $1, $12)
    returning id
), noted as ({_note})
select from took;

-- name: token
select {token} from oncue_tokens where id = $1;

-- name: tokens
select {token} from oncue_tokens order by created_at, id;

-- name: has_tokens
select exists (select from oncue_tokens);

-- name: revoke_token
with took as (
    update oncue_tokens set revoked_at = $1 where id = $7 and revoked_at is null returning id
), noted as ({_note})
select from took;

-- name: mark_token_used
-- No request waits for it: if another session holds the token, the next use is noted.
update oncue_tokens set last_used_at = greatest(last_used_at, $2)
 where id = any(array(select id from oncue_tokens where id = $1 for no key update skip locked));
