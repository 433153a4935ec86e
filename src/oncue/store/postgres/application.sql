-- Whose tables these are, for PostgreSQL.

-- name: owner
select name, given, since from oncue_application;

-- name: own
with took as (
    insert into oncue_application as stored (id, name, given, since)
    select 1, $7, $8, $9 where $10::text is null or exists (select from oncue_application)
        on conflict (id) do update set name = excluded.name, given = excluded.given, since = excluded.since
     where stored.name = $10 and stored.given = $11
    returning id
), noted as ({_note})
select from took;
