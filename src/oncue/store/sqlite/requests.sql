-- Kept requests, for SQLite.

-- name: begin_request
insert into oncue_requests (actor, key, fingerprint, started_at, ids)
values (:actor, :key, :fingerprint, :started_at, :ids)
    on conflict (actor, key) do nothing;

-- name: request
select fingerprint, started_at, ids, status, answer from oncue_requests where actor = :actor and key = :key;

-- name: end_request
update oncue_requests set status = :status, answer = :answer where actor = :actor and key = :key;

-- name: forget_request
delete from oncue_requests where actor = :actor and key = :key and status is null;

-- name: prune_requests
delete from oncue_requests
 where (actor, key) in (select actor, key from oncue_requests where started_at < :before
                         order by started_at limit :limit);
