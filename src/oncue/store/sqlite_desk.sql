-- The verbs of operators and callers, for SQLite.

-- name: add_notes
insert into oncue_audit (at, actor, action, subject, before, after)
select :now, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 from json_each(:notes);

-- name: limits
select global_limit, node_limit from oncue_queues where name = :queue;

-- name: limit
insert into oncue_queues (name, global_limit, node_limit, version) values (:queue, :globally, :per_node, 1)
    on conflict (name) do update
   set global_limit = excluded.global_limit, node_limit = excluded.node_limit, version = version + 1
 where global_limit is :known_globally and node_limit is :known_per_node;

-- name: seating
select q.name, q.global_limit, q.node_limit, q.version,
       exists (select 1 from oncue_jobs j indexed by oncue_jobs_claimable
                where j.state = 'queued' and j.isolation = 0 and j.queue = q.name
                  and j.task in (select value from json_each(:tasks)))
       or exists (select 1 from oncue_jobs j indexed by oncue_jobs_restricted
                   where j.state = 'queued' and j.isolation > 0 and j.queue = q.name
                     and j.task in (select value from json_each(:tasks))),
       s.node_id, s.seats, s.wanted
  from oncue_queues q
  left join oncue_seats s on s.queue = q.name
        and exists (select 1 from oncue_nodes n where n.id = s.node_id and n.lost_at is null)
 where q.name in (select value from json_each(:queues)) and (q.global_limit is not null or q.node_limit is not null)
 order by q.name, s.node_id;

-- name: take_turn
-- A node that was declared lost takes no seats: nobody would count them.
update oncue_queues set version = version + 1
 where name = :queue and version = :version
   and exists (select 1 from oncue_nodes where id = :node and lost_at is null);

-- name: free_seats
delete from oncue_seats
 where queue = :queue and node_id <> :node
   and not exists (select 1 from oncue_nodes n where n.id = node_id and n.lost_at is null);

-- name: take_seats
insert into oncue_seats (queue, node_id, seats, wanted) values (:queue, :node, :seats, :wanted)
    on conflict (queue, node_id) do update set seats = excluded.seats, wanted = excluded.wanted;

-- name: report_progress
insert into oncue_progress (job_id, claim_no, fraction, note, told_at)
select n.value ->> 0, n.value ->> 1, n.value ->> 2, n.value ->> 3, n.value ->> 4
  from json_each(:progress) as n
  join oncue_jobs j on j.id = n.value ->> 0 and j.claim_no = n.value ->> 1 and j.state = 'running'
 where true
    on conflict (job_id) do update
   set claim_no = excluded.claim_no, fraction = excluded.fraction, note = excluded.note, told_at = excluded.told_at
 where claim_no <= excluded.claim_no;

-- name: keep_sample
insert into oncue_sample (id, sampled_at, counts) values (1, :now, :counts)
    on conflict (id) do update set sampled_at = excluded.sampled_at, counts = excluded.counts
 where sampled_at <= excluded.sampled_at;

-- name: last_sample
select sampled_at, counts from oncue_sample;

-- name: ages
-- The lanes in use are read off their heads, as in `lanes`. What is due and was promoted by nobody waits, too. What runs
-- is little, and read as a whole.
with recursive lane (queue, priority) as (
    select * from (select queue, priority from oncue_jobs where state = 'queued' and isolation = 0
                    order by queue, priority desc limit 1)
    union all
    select coalesce(same.queue, next.queue), coalesce(same.priority, next.priority)
      from lane
      left join oncue_jobs same on same.id = (
           select id from oncue_jobs
            where state = 'queued' and isolation = 0 and queue = lane.queue and priority < lane.priority
            order by queue, priority desc limit 1)
      left join oncue_jobs next on same.id is null and next.id = (
           select id from oncue_jobs where state = 'queued' and isolation = 0 and queue > lane.queue
            order by queue, priority desc limit 1)
     where coalesce(same.id, next.id) is not null
), waiting (queue, since) as (
    select queue, (select min(since) from (
               select max(created_at, visible_at) as since from oncue_jobs indexed by oncue_jobs_claimable
                where state = 'queued' and isolation = 0 and queue = lane.queue and priority = lane.priority
                order by order_at, id limit :heads))
      from lane
    union all
    select * from (select queue, max(created_at, visible_at) from oncue_jobs indexed by oncue_jobs_restricted
                    where state = 'queued' and isolation > 0 limit :heads)
    union all
    select * from (select queue, visible_at from oncue_jobs indexed by oncue_jobs_later
                    where state in ('scheduled', 'retrying') and visible_at <= :now order by visible_at limit :heads)
)
select 'queued', queue, '', min(since) from waiting group by queue
union all
select 'running', queue, task, min(coalesce(started_at, claimed_at)) from oncue_jobs indexed by oncue_jobs_running
 where state = 'running' group by queue, task;

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

-- name: audit_log
select {audit} from oncue_audit
 where (:actor is null or actor = :actor) and (:subject is null or subject = :subject)
   and (:before is null or id < :before)
 order by id desc limit :limit;

-- name: prune_audit_log
delete from oncue_audit where id in (select id from oncue_audit where at < :before order by at limit :limit);

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
