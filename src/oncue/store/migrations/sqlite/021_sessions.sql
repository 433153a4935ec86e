-- Sessions of browsers, which came in with a token. The secret itself is not kept, only its digest.

create table oncue_sessions (
    id           text primary key,
    digest       text not null,
    token_id     text not null references oncue_tokens (id) on delete cascade,
    created_at   integer not null,
    expires_at   integer not null,
    ended_at     integer,
    last_used_at integer
) strict, without rowid;
-- Pruning and listings read them by when they are over.
create index oncue_sessions_over on oncue_sessions (min(coalesce(ended_at, expires_at), expires_at));
