-- Whose tables these are, for SQLite.

-- name: owner
select name, given, since from oncue_application;

-- name: own
insert into oncue_application as stored (id, name, given, since)
select 1, :name, :given, :since where :known is null or exists (select 1 from oncue_application)
    on conflict (id) do update set name = excluded.name, given = excluded.given, since = excluded.since
 where stored.name = :known and stored.given = :known_given;
