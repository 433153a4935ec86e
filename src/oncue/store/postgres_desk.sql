-- The verbs of operators and callers, for PostgreSQL.

-- name: _note
insert into oncue_audit (at, actor, action, subject, before, after)
    select $1, $2, $3, $4, $5::json, $6::json from took where $2::text is not null

-- name: session_limits
select current_user::text, (select setting::bigint from pg_settings where name = 'lock_timeout'),
       (select setting::bigint from pg_settings where name = 'idle_in_transaction_session_timeout');

-- name: limits
select global_limit, node_limit from oncue_queues where name = $1;

-- name: limit
with took as (
    insert into oncue_queues as q (name, global_limit, node_limit, version) values ($7, $10, $11, 1)
        on conflict (name) do update
       set global_limit = excluded.global_limit, node_limit = excluded.node_limit, version = q.version + 1
     where q.global_limit is not distinct from $8 and q.node_limit is not distinct from $9
    returning name
), noted as ({_note})
select from took;

-- name: seating
select q.name, q.global_limit, q.node_limit, q.version,
       -- Each half in the words of its index: asked for as one they would be looked for in the whole table.
       exists (select from oncue_jobs j
                where j.state = 'queued' and j.isolation = 0 and j.queue = q.name and j.task = any($2::text[]))
       or exists (select from oncue_jobs j
                   where j.state = 'queued' and j.isolation > 0 and j.queue = q.name and j.task = any($2::text[])),
       s.node_id, s.seats, s.wanted
  from oncue_queues q
  left join (oncue_seats s join oncue_nodes n on n.id = s.node_id and n.lost_at is null) on s.queue = q.name
 where q.name = any($1::text[]) and (q.global_limit is not null or q.node_limit is not null)
 order by q.name, s.node_id;

-- name: take_seats
-- A node that was declared lost takes none: nobody would count them.
with turn as (
    update oncue_queues set version = version + 1
     where name = $1 and version = $2 and exists (select from oncue_nodes where id = $3 and lost_at is null)
    returning name
), freed as (
    delete from oncue_seats s using turn
     where s.queue = turn.name and s.node_id <> $3
       and not exists (select from oncue_nodes n where n.id = s.node_id and n.lost_at is null)
)
insert into oncue_seats (queue, node_id, seats, wanted) select name, $3, $4, $5 from turn
    on conflict (queue, node_id) do update set seats = excluded.seats, wanted = excluded.wanted
returning queue;

-- name: report_progress
insert into oncue_progress as p (job_id, claim_no, fraction, note, told_at)
select n.job_id, n.claim_no, n.fraction, n.note, n.told_at
  from unnest($1::bigint[], $2::int[], $3::float8[], $4::text[], $5::timestamptz[])
    as n (job_id, claim_no, fraction, note, told_at)
  join oncue_jobs j on j.id = n.job_id and j.claim_no = n.claim_no and j.state = 'running'
 order by n.job_id
    on conflict (job_id) do update
   set claim_no = excluded.claim_no, fraction = excluded.fraction, note = excluded.note, told_at = excluded.told_at
 where p.claim_no <= excluded.claim_no;

-- name: report_progress_free
-- Past the jobs, and their progress, that another session holds.
with free as materialized (
    select id, claim_no from oncue_jobs where id = any($1::bigint[]) and state = 'running' for key share skip locked
), held (ids) as (
    select array(select job_id from oncue_progress where job_id = any($1::bigint[])
                 except select job_id from (select job_id from oncue_progress where job_id = any($1::bigint[])
                                               for no key update skip locked) as open)
)
insert into oncue_progress as p (job_id, claim_no, fraction, note, told_at)
select n.job_id, n.claim_no, n.fraction, n.note, n.told_at
  from unnest($1::bigint[], $2::int[], $3::float8[], $4::text[], $5::timestamptz[])
    as n (job_id, claim_no, fraction, note, told_at)
  join free j on j.id = n.job_id and j.claim_no = n.claim_no
 cross join held
 where n.job_id <> all(held.ids)
 order by n.job_id
    on conflict (job_id) do update
   set claim_no = excluded.claim_no, fraction = excluded.fraction, note = excluded.note, told_at = excluded.told_at
 where p.claim_no <= excluded.claim_no;

-- name: keep_sample
insert into oncue_sample (id, sampled_at, counts) values (1, $1, $2)
    on conflict (id) do update set sampled_at = excluded.sampled_at, counts = excluded.counts
 where oncue_sample.sampled_at <= excluded.sampled_at;

-- name: last_sample
select sampled_at, counts from oncue_sample;

-- name: ages
-- The lanes in use are read off their heads, as in `lanes`. What is due and was promoted by nobody waits, too. What runs
-- is little, and read as a whole.
with recursive lane (queue, priority) as (
    (select queue, priority from oncue_jobs where state = 'queued' and isolation = 0
      order by queue, priority desc limit 1)
    union all
    select head.queue, head.priority from lane
     cross join lateral (
         (select queue, priority from oncue_jobs
           where state = 'queued' and isolation = 0 and queue = lane.queue and priority < lane.priority
           order by queue, priority desc limit 1)
         union all
         (select queue, priority from oncue_jobs where state = 'queued' and isolation = 0 and queue > lane.queue
           order by queue, priority desc limit 1)
         limit 1) as head
), waiting (queue, since) as (
    select lane.queue, head.since from lane
     cross join lateral (
         select greatest(created_at, visible_at) as since from oncue_jobs
          where state = 'queued' and isolation = 0 and queue = lane.queue and priority = lane.priority
          order by order_at, id limit (select $2::int)) as head
    union all
    (select queue, greatest(created_at, visible_at) from oncue_jobs where state = 'queued' and isolation > 0
      limit (select $2::int))
    union all
    (select queue, visible_at from oncue_jobs where state in ('scheduled', 'retrying') and visible_at <= $1
      order by visible_at limit (select $2::int))
)
select 'queued' as kind, queue, '' as task, min(since) from waiting group by queue
union all
select 'running', queue, task, min(coalesce(started_at, claimed_at)) from oncue_jobs where state = 'running'
 group by queue, task;

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

-- name: audit_log
select {audit} from oncue_audit
 where ($1::text is null or actor = $1) and ($2::text is null or subject = $2) and ($3::bigint is null or id < $3)
 order by id desc limit $4;

-- name: prune_audit_log
delete from oncue_audit
 where id = any(array(select id from oncue_audit where at < $1 order by at limit (select $2::int)
                         for update skip locked));

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
