-- Sessions, for PostgreSQL.

-- name: session_limits
select current_user::text, (select setting::bigint from pg_settings where name = 'lock_timeout'),
       (select setting::bigint from pg_settings where name = 'idle_in_transaction_session_timeout');
