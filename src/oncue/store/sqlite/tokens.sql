-- Tokens, for SQLite.

-- name: add_token
insert into oncue_tokens (id, name, digest, scopes, created_by, created_at, expires_at)
values (:id, :name, :digest, :scopes, :created_by, :created_at, :expires_at);

-- name: token
select {token} from oncue_tokens where id = :token_id;

-- name: tokens
select {token} from oncue_tokens order by created_at, id;

-- name: has_tokens
select exists (select 1 from oncue_tokens);

-- name: revoke_token
update oncue_tokens set revoked_at = :now where id = :token_id and revoked_at is null;

-- name: mark_token_used
update oncue_tokens set last_used_at = max(coalesce(last_used_at, 0), :now) where id = :token_id;
