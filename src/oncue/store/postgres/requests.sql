-- Kept requests, for PostgreSQL.

-- name: begin_request
insert into oncue_requests (actor, key, fingerprint, started_at, ids) values ($1, $2, $3, $4, $5)
    on conflict (actor, key) do nothing
returning key;

-- name: request
select fingerprint, started_at, ids, status, answer from oncue_requests where actor = $1 and key = $2;

-- name: end_request
update oncue_requests set status = $3, answer = $4 where actor = $1 and key = $2;

-- name: forget_request
delete from oncue_requests where actor = $1 and key = $2 and status is null;

-- name: prune_requests
delete from oncue_requests
 where ctid = any(array(select ctid from oncue_requests where started_at < $1
                         order by started_at limit (select $2::int) for update skip locked));
