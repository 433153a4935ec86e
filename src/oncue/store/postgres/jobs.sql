-- Jobs, for PostgreSQL. Time always arrives as a parameter.
-- `id = any(array(select …))` keeps its index plan at every batch size, where a join may flip to a sequential scan.

-- name: reserve
select coalesce(array_agg(nextval('oncue_job_ids')), '{}') from generate_series(1, $1);

-- name: enqueue
-- Jobs of any number of batches, all of them or none: $4 says to which batch a job belongs, the arrays after it have
-- what the jobs of a batch share. A hint for the workers travels with it, if the caller wants one sent ($20): once.
with woken as (
    insert into oncue_group_wakeups (queue, name, has_job)
    select distinct queue, name, true from unnest($6::text[], $18::text[], $8::text[]) as b (queue, name, state)
     where name is not null and state = 'queued'
)
insert into oncue_jobs ({new_job})
select n.id, n.args::json, n.key, b.task, b.queue, b.priority, b.state, b.options, b.max_retries, b.max_runtime,
       b.created_at, b.created_at, b.order_at, b.visible_at, b.deadline_at, b.enqueued_by, b.retry_of, null, null, null,
       b.group_name, b.address
  from unnest($1::bigint[], $2::text[], $3::text[], $4::int[]) as n (id, args, key, batch)
  join unnest($5::text[], $6::text[], $7::smallint[], $8::text[], $9::text[], $10::int[], $11::interval[],
              $12::timestamptz[], $13::timestamptz[], $14::timestamptz[], $15::text[], $16::bigint[],
              $17::timestamptz[], $18::text[], $19::text[]) with ordinality
    as b (task, queue, priority, state, options, max_retries, max_runtime, created_at, visible_at, deadline_at,
          enqueued_by, retry_of, order_at, group_name, address, batch) on b.batch = n.batch
    on conflict (task, key) where key is not null and state in ('scheduled', 'queued', 'running', 'retrying')
    do nothing
returning id, (select pg_notify('oncue', '')::text where $20);

-- name: enqueue_keyless
-- The same for one batch without keys: none stands in their way, so none is looked up and none comes back.
with written as (
    insert into oncue_jobs ({new_job})
    select n.id, n.args::json, null, $3, $4, $5, $6, $7, $8, $9, $10, $10, $15, $11, $12, $13, $14, null, null, null,
           $16, $17
      from unnest($1::bigint[], $2::text[]) as n (id, args)
), woken as (
    insert into oncue_group_wakeups (queue, name, has_job) select $4, $16, true where $16::text is not null and $6 = 'queued'
)
select pg_notify('oncue', '')::text where $18;

-- name: enqueue_one
-- The same for a single job without a group, which is what most calls write: without arrays a sixth of the trip is
-- saved. Instants are dear to send: those that are not told are that of its creation.
insert into oncue_jobs ({new_job})
values ($1, $2, null, $3, $4, $5, $6, $7, $8, make_interval(secs => $9::float8), $10, $10,
        coalesce($11::timestamptz, $10), coalesce($12::timestamptz, $10), $13, $14, $15, null, null, null, null, $16)
returning (select pg_notify('oncue', '')::text where $17);

-- name: _one_plain
insert into oncue_jobs (id, args, task, queue, priority, state, options, max_retries, max_runtime, created_at, updated_at,
                        order_at, visible_at, enqueued_by)
values ($1, $2, $3, $4, $5, 'queued', $6, $7, make_interval(secs => $8::float8), $9, $9, $9, $9, $10)

-- name: enqueue_plain
-- A job of which nothing else is told. Each parameter, and an answer with a row, costs both sides; all of them a
-- twentieth of the trip.
{_one_plain};

-- name: enqueue_plain_told
{_one_plain}
returning pg_notify('oncue', '')::text;

-- name: touch
-- The same id alone proves nothing: after a fail-over a sequence may hand it out again.
update oncue_jobs set updated_at = greatest(updated_at, $2)
 where id = any($1::bigint[]) and task = $3 and created_at = $2
returning id, case when state = 'skipped' and reason = 'duplicate' and claim_no = 0 then result::text end;

-- name: record_duplicates
-- The id of a duplicate is taken too: a call that was given up and arrives late cannot write its job any more.
with recorded as (
    insert into oncue_jobs ({new_job}, reason, result, finished_at)
    select n.id, n.args::json, n.key, $5, $6, $7, 'skipped', $8, $9, $10, $11, $11, $16, $12, $13, $14, $15,
           null, null, null, $17, $18, 'duplicate', n.result::json, $11
      from unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) as n (id, args, key, result)
    returning queue, task
)
insert into oncue_counter_deltas (queue, task, state, jobs)
select queue, task, 'skipped', count(*) from recorded group by queue, task;

-- name: standing
select id, created_at, key from oncue_jobs
 where task = $1 and key = any($2::text[]) and state in ('scheduled', 'queued', 'running', 'retrying');

-- name: job
select {job} from oncue_jobs where id = $1;

-- name: jobs
select {job} from oncue_jobs where $1::bigint is null or id < $1 order by id desc limit $2 offset $3;

-- name: _kinds
-- Which kinds (queue, task, state) of jobs there are is read off the heads of the two indexes, a step for each.
with recursive waiting (queue, task, state) as (
    (select queue, task, state from oncue_jobs where state in ('scheduled', 'queued', 'retrying')
      order by queue, task, state limit 1)
    union all
    select next.* from waiting cross join lateral (
           select j.queue, j.task, j.state from oncue_jobs j
            where j.state in ('scheduled', 'queued', 'retrying')
              and (j.queue, j.task, j.state) > (waiting.queue, waiting.task, waiting.state)
            order by j.queue, j.task, j.state limit 1) as next
), ended (queue, task, state) as (
    (select queue, task, state from oncue_jobs where state in ('succeeded', 'failed', 'cancelled', 'skipped')
      order by queue, task, state limit 1)
    union all
    select next.* from ended cross join lateral (
           select j.queue, j.task, j.state from oncue_jobs j
            where j.state in ('succeeded', 'failed', 'cancelled', 'skipped')
              and (j.queue, j.task, j.state) > (ended.queue, ended.task, ended.state)
            order by j.queue, j.task, j.state limit 1) as next
)

-- name: _newest
-- The newest of every kind that is wanted, then the newest of those: it costs what there are kinds, not what there are
-- jobs.
{_kinds}, found as (
    select newest.id from waiting k cross join lateral (
           select j.id from oncue_jobs j
            where j.state in ('scheduled', 'queued', 'retrying') and j.queue = k.queue and j.task = k.task
              and j.state = k.state and j.id < $4
            order by j.id desc limit (select $5::int)) as newest
     where k.state = any($1::text[]) and ($2::text is null or k.queue = $2) and ($3::text is null or k.task = $3)
    union all
    select newest.id from ended k cross join lateral (
           select j.id from oncue_jobs j
            where j.state in ('succeeded', 'failed', 'cancelled', 'skipped') and j.queue = k.queue and j.task = k.task
              and j.state = k.state and j.id < $4
            order by j.id desc limit (select $5::int)) as newest
     where k.state = any($1::text[]) and ($2::text is null or k.queue = $2) and ($3::text is null or k.task = $3)
    union all
    select id from oncue_jobs
     where state = 'running' and 'running' = any($1::text[]) and ($2::text is null or queue = $2)
       and ($3::text is null or task = $3) and id < $4
)

-- name: jobs_of_kinds
{_newest}
select {job} from oncue_jobs
 where id = any(array(select id from found order by id desc limit (select $5::int - $6::int) offset $6::int)) order by id desc;

-- name: newest_of_kinds
{_newest}
select id from found order by id desc limit (select $5::int);

-- name: newest
select id from oncue_jobs where id < $1 order by id desc limit $2;

-- name: _is_wanted
($1::text is null or key = $1) and ($2::text is null or group_name = $2)
       and ($3::text is null or address = $3) and ($4::timestamptz is null or created_at >= $4)
       and ($5::timestamptz is null or created_at < $5)

-- name: jobs_among
select {job} from oncue_jobs
 where id = any($6::bigint[]) and {_is_wanted}
 order by id desc limit $7;

-- name: count
-- It ends after so many rows, whether they match or not.
select count(*), count(*) from (select from oncue_jobs where id < $1 order by id desc limit (select $2::int)) as seen;

-- name: count_by_rows
select count(*), count(*) filter (where is_wanted) from (
    select {_is_wanted} as is_wanted from oncue_jobs where id < $6 order by id desc limit (select $7::int)) as seen;

-- name: count_of_kinds
-- In the order of the indexes within each kind: the outer limit ends the walk, and no job is read.
{_kinds}, seen as (
    select newest.* from waiting k cross join lateral (
           select true as is_wanted from oncue_jobs j
            where j.state in ('scheduled', 'queued', 'retrying') and j.queue = k.queue and j.task = k.task
              and j.state = k.state and j.id < $1
            order by j.id desc limit (select $2::int)) as newest
     where k.state = any($3::text[]) and ($4::text is null or k.queue = $4) and ($5::text is null or k.task = $5)
    union all
    select newest.* from ended k cross join lateral (
           select true as is_wanted from oncue_jobs j
            where j.state in ('succeeded', 'failed', 'cancelled', 'skipped') and j.queue = k.queue and j.task = k.task
              and j.state = k.state and j.id < $1
            order by j.id desc limit (select $2::int)) as newest
     where k.state = any($3::text[]) and ($4::text is null or k.queue = $4) and ($5::text is null or k.task = $5)
    union all
    select true from oncue_jobs j
     where j.state = 'running' and j.id < $1 and 'running' = any($3::text[]) and ($4::text is null or j.queue = $4)
       and ($5::text is null or j.task = $5)
)
select count(*), count(*) filter (where is_wanted) from (select is_wanted from seen limit (select $2::int)) as few;

-- name: count_of_kinds_by_rows
{_kinds}, seen as (
    select newest.* from waiting k cross join lateral (
           select {_is_wanted} as is_wanted from oncue_jobs j
            where j.state in ('scheduled', 'queued', 'retrying') and j.queue = k.queue and j.task = k.task
              and j.state = k.state and j.id < $6
            order by j.id desc limit (select $7::int)) as newest
     where k.state = any($8::text[]) and ($9::text is null or k.queue = $9) and ($10::text is null or k.task = $10)
    union all
    select newest.* from ended k cross join lateral (
           select {_is_wanted} as is_wanted from oncue_jobs j
            where j.state in ('succeeded', 'failed', 'cancelled', 'skipped') and j.queue = k.queue and j.task = k.task
              and j.state = k.state and j.id < $6
            order by j.id desc limit (select $7::int)) as newest
     where k.state = any($8::text[]) and ($9::text is null or k.queue = $9) and ($10::text is null or k.task = $10)
    union all
    select {_is_wanted} from oncue_jobs j
     where j.state = 'running' and j.id < $6 and 'running' = any($8::text[]) and ($9::text is null or j.queue = $9)
       and ($10::text is null or j.task = $10)
)
select count(*), count(*) filter (where is_wanted) from (select is_wanted from seen limit (select $7::int)) as few;

-- name: job_with_key
-- Among the unfinished jobs of a task a key is unique.
select {job} from oncue_jobs
 where task = $1 and key = $2 and state in ('scheduled', 'queued', 'running', 'retrying');

-- name: jobs_with_key
-- No index has the keys of finished jobs: this reads backwards from the newest.
select {job} from oncue_jobs
 where key = $4 and state = any($1::text[]) and ($2::text is null or queue = $2) and ($3::text is null or task = $3)
   and id < $5
 order by id desc limit $6 offset $7;

-- name: jobs_by_rows
-- No index has the groups and addresses of finished jobs, nor when jobs were made: this reads backwards from the newest.
select {job} from oncue_jobs
 where {_is_wanted} and state = any($6::text[]) and ($7::text is null or queue = $7)
   and ($8::text is null or task = $8) and id < $9
 order by id desc limit $10 offset $11;

-- name: attempts
select job_id, attempt, claim_no, node_id, started_at, finished_at, outcome, error, details
  from oncue_attempts where job_id = $1 order by claim_no;

-- name: promote
with due as (
    update oncue_jobs set state = 'queued', updated_at = $1
     where id = any(array(select id from oncue_jobs where state in ('scheduled', 'retrying') and visible_at <= $1
                           order by visible_at limit (select $2::int) for update skip locked))
       and state in ('scheduled', 'retrying')
    returning queue, group_name
), woken as (
    insert into oncue_group_wakeups (queue, name, has_job)
    select distinct queue, group_name, true from due where group_name is not null
)
select count(*) from due;

-- name: next_due
select min(visible_at) from oncue_jobs where state in ('scheduled', 'retrying');

-- name: next_due_after
-- What is due and was not promoted is locked by another session: waiting for it would be a busy loop.
select min(visible_at) from oncue_jobs where state in ('scheduled', 'retrying') and visible_at > $1;

-- name: _open
-- The queues from which this node may take jobs now, and for how many of them it has room.
    select wanted.queue, wanted.room from unnest((select $2::text[]), (select $6::int[])) as wanted (queue, room)
     where not exists (select from oncue_queues
                        where name = wanted.queue and (paused_at is not null or (
                              wanted.room is null
                              and (global_limit is not null or node_limit is not null or rate_count is not null))))
       and exists (select from oncue_nodes where id = $1 and expires_at > $5 and lost_at is null)
       and not exists (select from oncue_leases where name = 'exclusive' and holder <> $1 and expires_at > $5)

-- name: _mine
-- What is addressed to this node: to its name while that is leased to it, and to the leader while it leads under $7.
    select 'node:' || name from oncue_nodes where id = $1 and named and lost_at is null
    union all
    select 'role:leader' from oncue_leases
     where name = 'leader' and holder = $1 and epoch = (select $7::bigint) and expires_at > $5

-- name: _taken
state = 'running', claim_no = claim_no + 1, node_id = $1, claimed_at = $5,
           -- One that waits for its node to be empty has its time counted from when it begins.
           run_until = case when isolation < 2 then $5 + max_runtime end,
           updated_at = $5, started_at = null, finished_at = null, reason = null, result = null, error = null,
           details = null

-- name: _takeable
-- What a process has begun of a cluster job no other process of its name goes on with.
task = any((select $3::text[])::text[])
                     and (attempt = 0 or node_id = $1 or position('"of_cluster":true' in options) = 0)

-- name: claim
-- Each queue's best are locked, then the best of those are taken: a few rows too many are locked for an instant.
-- The limit is a subquery so that the planner does not know it: knowing it, and statistics from when about as many
-- jobs waited, it would read and sort all of them, which takes 20 times as long once 50,000 wait.
-- The other parameters are subqueries too: an estimate that depends on them makes PostgreSQL plan every claim anew, and
-- planning takes longer than a claim of one job.
-- While a job waits that is kept apart, nothing is taken: `claim_apart` is asked then, and where a queue has a limit. To
-- begin that statement takes a quarter of a claim of one job.
-- The rows come as they were written, and are put in order by who asked: a sort here would copy each of them twice.
with open (queue, room) as materialized (
    {_open}
), mine (address) as materialized (
    {_mine}
)
update oncue_jobs
   set {_taken}
 where id = any(array(
           select best.id from (
                  select own.* from open cross join mine
                   cross join lateral (
                         select id, priority, order_at from oncue_jobs
                          where {addressed} and address = mine.address and queue = open.queue and {_takeable}
                          order by priority desc, order_at, id limit (select $4::int) for update skip locked) as own
                  union all
                  select common.* from open
                   cross join lateral (
                         select id, priority, order_at from oncue_jobs
                          where {claimable} and queue = open.queue and task = any((select $3::text[])::text[])
                          order by priority desc, order_at, id limit (select $4::int) for update skip locked) as common) as best
            where not (select exists (select from oncue_jobs where state = 'queued' and isolation > 0
                                         and group_name is null and queue = any((select $2::text[])::text[])))
            order by best.priority desc, best.order_at, best.id limit (select $4::int)))
returning {taken}, date_part('epoch', order_at);

-- name: waits_apart
select exists (select from oncue_jobs where state = 'queued' and isolation > 0 and group_name is null
                  and queue = any($1::text[]));

-- name: claim_apart
-- The same where a queue has a limit, or a job waits that is kept apart.
-- Those that are kept apart come first: one that wants the node for itself ($9), with nothing beside it, or else a few
-- ($8) that count among the rest. Of the former, those with the fewest deaths: others that die for no fault of theirs
-- take turns, and none of them dies twice before all have. Both parts of the condition on `isolation` are wanted: the first is the index's.
with open (queue, room) as materialized (
    {_open}
), mine (address) as materialized (
    {_mine}
), alone as materialized (
    select best.id from open
     cross join lateral (
           select id, crashes, priority, order_at from oncue_jobs
            where state = 'queued' and isolation > 0 and isolation = 2 and group_name is null and queue = open.queue
              and (address is null or address in (select address from mine))
              and task = any((select $3::text[])::text[]) and visible_at <= (select $9::timestamptz)
            order by crashes, priority desc, order_at, id limit (select least(1, open.room))
              for update skip locked) as best
     order by best.crashes, best.priority desc, best.order_at, best.id limit 1
), few as materialized (
    select best.id, open.queue from open
     cross join lateral (
           select id, priority, order_at from oncue_jobs
            where state = 'queued' and isolation > 0 and isolation = 1 and group_name is null and queue = open.queue
              and (address is null or address in (select address from mine))
              and task = any((select $3::text[])::text[])
            order by priority desc, order_at, id limit (select least($8::int, open.room))
              for update skip locked) as best
     where not exists (select from alone)
     order by best.priority desc, best.order_at, best.id limit (select least($8::int, $4::int))
), taken (queue, jobs) as materialized (
    select queue, count(*) from few group by queue
), addressed as materialized (
    select ranked.id, ranked.queue, ranked.priority, ranked.order_at from (
           select best.*, open.queue, open.room - coalesce(taken.jobs, 0) as room,
                  row_number() over (partition by open.queue order by best.priority desc, best.order_at, best.id) as place
             from open cross join mine
            cross join lateral (
                  select id, priority, order_at from oncue_jobs
                   where {addressed} and address = mine.address and queue = open.queue and {_takeable}
                   order by priority desc, order_at, id limit (select least($4::int, open.room))
                     for update skip locked) as best
             left join taken on taken.queue = open.queue
            where not exists (select from alone)) as ranked
     where ranked.room is null or ranked.place <= ranked.room
)
update oncue_jobs
   set {_taken}
 where id = any(
           array(select id from alone)
           || array(select id from few)
           || array(select best.id from (
                           select id, priority, order_at from addressed
                           union all
                           select common.id, common.priority, common.order_at from open
                            cross join lateral (
                                  select id, priority, order_at from oncue_jobs
                                   where {claimable} and queue = open.queue
                                     and task = any((select $3::text[])::text[])
                                   order by priority desc, order_at, id
                                   limit (select greatest(least($4::int, open.room - count(*)), 0)
                                            from (select queue from few union all select queue from addressed) as before
                                           where before.queue = open.queue)
                                     for update skip locked) as common
                            where not exists (select from alone)) as best
                     order by best.priority desc, best.order_at, best.id
                     limit (select $4::int - count(*) from few)))
returning {taken}, date_part('epoch', order_at);

-- name: _change
-- A change that holds while a node leads comes with the one that is written if it does not: one of the two counts.
select * from unnest($2::bigint[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::timestamptz[],
                         $9::int[], $10::int[], $11::int[], $12::timestamptz[], $13::timestamptz[], $14::text[],
                         $15::text[], $16::int[], $17::text[], $18::text[], $19::uuid[], $20::bigint[],
                         $21::boolean[], $22::bigint[], $23::date[], $24::timestamptz[], $25::timestamptz[],
                         $26::smallint[])
             with ordinality
        as c (id, from_state, claim_no, state, reason, outcome, visible_at, retry_count, attempt, crashes, started_at,
              ended_at, result, error, isolation, details, day_status, leader, epoch, leads, next_version, next_day,
              next_opens_at, next_cutoff_at, bucket, ordinal)
     where leads is null
        or leads = exists (select from oncue_leases where name = 'leader' and holder = c.leader and epoch = c.epoch)

-- name: _change_alike
-- What changes have in common that are alike but for their ids, their fences and the versions of subjects.
select $3::text as from_state, $5::text as state, $6::text as reason, $7::text as outcome,
           $8::timestamptz as visible_at, $9::int as retry_count, $10::int as attempt, $11::int as crashes,
           $12::timestamptz as started_at, $13::timestamptz as ended_at, $14::text as result, $15::text as error,
           $16::int as isolation, $17::text as details, $18::text as day_status, $19::uuid as leader,
           $20::bigint as epoch, $21::boolean as leads, $23::date as next_day, $24::timestamptz as next_opens_at,
           $25::timestamptz as next_cutoff_at, $26::smallint as bucket

-- name: _applied
update oncue_jobs j
       set state = c.state, reason = c.reason, retry_count = c.retry_count,
           -- A job that is to be cancelled is due at once, so that the next claim can refuse it.
           visible_at = case when j.cancel_requested_at is not null and c.state in ('scheduled', 'retrying')
                             then least(c.visible_at, $1) else c.visible_at end,
           attempt = c.attempt, crashes = c.crashes, isolation = c.isolation, started_at = c.started_at,
           result = c.result::json, details = coalesce(c.details::json, j.details),
           error = c.error, updated_at = $1, run_until = null,
           finished_at = case when c.state in ('succeeded', 'failed', 'cancelled', 'skipped') then c.ended_at end,
           cancel_requested_at = case when c.from_state = 'running' then cancel_requested_at end,
           -- An operator who starts a finished job over accepts that it is late.
           start_by = case when j.finished_at is null then j.start_by end,
           deadline_at = case when j.finished_at is null then j.deadline_at
                              else $1 + (j.deadline_at - j.created_at) end
      from change c

-- name: _told
j.id, j.queue, j.group_name, j.task, j.state, j.claim_no, j.node_id, c.outcome, c.attempt, c.started_at,
              c.ended_at, c.error, c.from_state, j.details, j.reason, j.schedule_id, j.subject, j.scheduled_for,
              j.address, c.day_status, c.next_day, c.next_opens_at, c.next_cutoff_at, c.bucket

-- name: _guarded
j.id = c.id and j.state = c.from_state and j.claim_no = c.claim_no
    returning {_told}, c.ordinal, c.next_version

-- name: _batch
task text, queue text, priority smallint, state text, options text, max_retries integer, max_runtime interval,
              created_at timestamptz, visible_at timestamptz, deadline_at timestamptz, enqueued_by text,
              retry_of bigint, order_at timestamptz, group_name text, address text, jobs json

-- name: _shared
b.task, b.queue, b.priority, b.state, b.options, b.max_retries, b.max_runtime, b.created_at, b.created_at, b.order_at,
           b.visible_at, b.deadline_at, b.enqueued_by, b.retry_of

-- name: _recorded
history as (
    insert into oncue_attempts (job_id, attempt, claim_no, node_id, started_at, finished_at, outcome, error, details)
    select id, attempt, claim_no, node_id, started_at, ended_at, outcome, error, details from done
     where outcome is not null and state in ('scheduled', 'queued', 'retrying')
), closing as materialized (
    -- Cluster jobs that have ended. What has not begun of their parts ends with them. What runs goes on, unless the job
    -- was cancelled; if it then asks to be tried again, it is past its deadline. Their rows are waited for: one that was
    -- passed over would wait for ever, or go on although it was cancelled. A row that is locked here is as it now is.
    select id, state from done
     where address in ('cluster', 'role:leader') and state in ('succeeded', 'failed', 'cancelled', 'skipped')
       and exists (select from oncue_cluster_jobs where job_id = done.id)
), left_open as (
    update oncue_parts p
       set was_open = exists (select from oncue_jobs j where j.id = p.job_id
                                 and j.state || '' in ('scheduled', 'queued', 'running', 'retrying'))
      from closing where p.cluster_id = closing.id and p.was_open is null
), open_parts as materialized (
    select part.id, part.state, closing.state as ending from closing
      join oncue_parts p on p.cluster_id = closing.id
     cross join lateral (select id, state from oncue_jobs where id = p.job_id for no key update) as part
     where part.state in ('scheduled', 'queued', 'retrying', 'running')
), ended_parts as (
    update oncue_jobs j
       set state = case when r.state = 'running' then j.state when r.ending = 'cancelled' then 'cancelled' else 'skipped' end,
           reason = case when r.state <> 'running' then 'cluster_job_ended' end, updated_at = $1,
           finished_at = case when r.state <> 'running' then $1 end,
           deadline_at = case when r.state = 'running' then $1 else j.deadline_at end,
           cancel_requested_at = case when r.state = 'running' and r.ending = 'cancelled'
                                      then coalesce(j.cancel_requested_at, $1)
                                      when r.state = 'running' then j.cancel_requested_at end
      from open_parts r where j.id = r.id
    returning j.queue, j.task, j.state
), counted as (
    -- A job counts where it has ended; one that starts over counts there no more.
    insert into oncue_counter_deltas (queue, task, state, jobs)
    select queue, task, state, count(*) from (
           select queue, task, state from done union all select queue, task, state from ended_parts) as ended
     where state in ('succeeded', 'failed', 'cancelled', 'skipped') group by queue, task, state
    union all
    select queue, task, from_state, -count(*) from done
     where from_state in ('succeeded', 'failed', 'cancelled', 'skipped') group by queue, task, from_state
), followed as (
    -- The jobs that follow from what was written. Few changes bring any: one document has them all, and says once what
    -- many of them share.
    insert into oncue_jobs ({new_job})
    select n.id, n.args::json, n.key, {_shared}, null, null, null, b.group_name, b.address
      from json_to_recordset($27::json) as b ({_batch})
     cross join lateral json_to_recordset(b.jobs) as n (ordinal bigint, id bigint, args text, key text)
      join done on done.ordinal = n.ordinal
     order by b.task, n.key, n.id
        on conflict (task, key) where key is not null and state in ('scheduled', 'queued', 'running', 'retrying')
        do nothing
    returning queue, group_name, state
), woken as (
    insert into oncue_group_wakeups (queue, name, has_job)
    select queue, group_name, bool_or(state = 'queued') from (
           select queue, group_name, state from done union all select queue, group_name, state from followed) as changed
     where group_name is not null group by queue, group_name
), finalized as (
    -- The job of a window's day ends it: what the day comes to is written with the end of the job.
    -- The subject moves on to its next day at once, if that was worked out from the row as it is.
    -- `= any(array[…])` leaves one way to plan the join: a look into the index for each day. By `=` a plan from when
    -- there was no subject merges all subjects that there are now with the few that have ended.
    update oncue_subjects s
       set last_date = s.day, status = done.day_status, version = s.version + 1, updated_at = $1,
           reason = case when done.day_status <> 'success' then nullif(done.reason, done.day_status) end,
           last_run_at = case when done.day_status = 'success' then done.ended_at else s.last_run_at end,
           day = case when s.version = done.next_version then done.next_day else s.day end,
           opens_at = case when s.version = done.next_version then done.next_opens_at else s.opens_at end,
           cutoff_at = case when s.version = done.next_version then done.next_cutoff_at else s.cutoff_at end,
           next_at = case when s.version = done.next_version then done.next_opens_at else s.next_at end,
           job_id = case when s.version = done.next_version then null else s.job_id end
      from done
     where done.day_status is not null and s.schedule_id = any(array[done.schedule_id])
       and s.name = any(array[done.subject]) and s.job_id = done.id and (s.last_date is null or s.last_date < s.day)
    returning s.schedule_id, (done.scheduled_for at time zone 'UTC')::date as day, s.status,
              coalesce(done.bucket, extract(epoch from s.cutoff_at)::bigint / 60 % 1440)::smallint as bucket
), tallied as (
    insert into oncue_window_deltas (schedule_id, day, bucket, event, subjects)
    select schedule_id, day, bucket, status, count(*) from finalized group by schedule_id, day, bucket, status
)

-- name: apply
with change as (
    {_change}
), done as (
    {_applied}
     where j.id = any($2::bigint[]) and {_guarded}
), {_recorded}
select coalesce(array_agg(ordinal), '{}') from done;

-- name: apply_alike
-- The same for a crowd of days that come to the same. As in `_plain`, there is no join: the ids ascend strictly.
with change as (
    {_change_alike}
), done as (
    {_applied}
     where j.id = any($2::bigint[]) and j.state || '' = c.from_state
       and j.claim_no = ($4::int[])[width_bucket(j.id, $2::bigint[])]
    returning {_told}, width_bucket(j.id, $2::bigint[]) as ordinal,
              ($22::bigint[])[width_bucket(j.id, $2::bigint[])] as next_version
), {_recorded}
select coalesce(array_agg(ordinal), '{}') from done;

-- name: apply_noted
-- The same by hand: with the lines of the audit log, and, for a schedule's job that runs again, on its version.
with held as (
    update oncue_schedules set version = version + 1 where id = $33::bigint and version = $34::bigint returning id
), change as (
    {_change}
), done as (
    {_applied}
     where j.id = any($2::bigint[]) and ($33::bigint is null or exists (select from held)) and {_guarded}
), {_recorded}, noted as (
    insert into oncue_audit (at, actor, action, subject, before, after)
    select $1, n.actor, n.action, n.subject, n.before::json, n.after::json
      from unnest($28::text[], $29::text[], $30::text[], $31::text[], $32::text[]) with ordinality
        as n (actor, action, subject, before, after, ordinal)
      join done on done.ordinal = n.ordinal
     where n.actor is not null order by n.ordinal
)
select coalesce(array_agg(ordinal), '{}') from done;

-- name: apply_free
-- The same once a lock has kept `apply` or `apply_plain` waiting for too long: rows that another session holds are
-- passed over. The second array tells which these are.
-- The job of a window's day ends with its subject's row, and a cluster job with its parts: it is passed over if another
-- session holds one of these.
with reachable (ids) as materialized (
    select array(select id from oncue_jobs where id = any($2::bigint[]) order by id for no key update skip locked)
), days as materialized (
    select j.id, s.place from oncue_jobs j
     cross join lateral (select ctid as place from oncue_subjects s
                          where s.schedule_id = j.schedule_id and s.name = j.subject
                            for no key update skip locked) as s
     where j.id = any((select ids from reachable)::bigint[]) and j.subject is not null
), closed (ids) as materialized (
    select array(select e.id from unnest($2::bigint[], $5::text[]) as e (id, state)
                  where e.state in ('succeeded', 'failed', 'cancelled', 'skipped')
                    and exists (select from oncue_cluster_jobs where job_id = e.id))
), records as materialized (
    select cluster_id, node_id from oncue_parts where cluster_id = any((select ids from closed)::bigint[])
       for no key update skip locked
), part_jobs (ids) as materialized (
    select array(select id from oncue_jobs
                  where id = any(array(select job_id from oncue_parts
                                        where cluster_id = any((select ids from closed)::bigint[])))
                    and finished_at is null
                  order by id for no key update skip locked)
), held (ids) as materialized (
    select array(select p.cluster_id from oncue_parts p
                  where p.cluster_id = any((select ids from closed)::bigint[])
                    and ((p.cluster_id, p.node_id) not in (select cluster_id, node_id from records)
                         or p.job_id <> all((select ids from part_jobs)::bigint[])
                            and exists (select from oncue_jobs where id = p.job_id and finished_at is null)))
        || array(select j.id from oncue_jobs j
                  cross join lateral (select from oncue_subjects s
                                       where s.schedule_id = j.schedule_id and s.name = j.subject offset 0) as s
                  where j.id = any((select ids from reachable)::bigint[]) and j.subject is not null
                    and j.id not in (select id from days))
), free (ids) as materialized (
    select array(select id from unnest((select ids from reachable)) as id where id <> all ((select ids from held)::bigint[]))
), change as (
    {_change}
), done as (
    {_applied}
     where j.id = any((select ids from free)::bigint[]) and {_guarded}
), {_recorded}
select (select coalesce(array_agg(ordinal), '{}') from done),
       (select coalesce(array_agg(c.ordinal), '{}') from change c cross join free
          join oncue_jobs j on j.id = c.id and j.state = c.from_state and j.claim_no = c.claim_no
         where j.id = any($2::bigint[]) and j.id <> all(free.ids));

-- name: _plain
-- The ids come sorted, so that `width_bucket` finds a row's place in the other arrays: there is no join that could be
-- planned badly. Instants come as seconds: the driver writes a number in a third of the time. `state || ''` keeps the planner from the index of running jobs, whose entries are mostly dead.
update oncue_jobs
       set state = 'succeeded', attempt = 1, run_until = null, updated_at = $1,
           started_at = to_timestamp(($4::float8[])[width_bucket(id, $2::bigint[])]),
           finished_at = to_timestamp(($5::float8[])[width_bucket(id, $2::bigint[])])

-- name: _plain_guarded
where id = any($2::bigint[]) and state || '' = 'running'
       and claim_no = ($3::int[])[width_bucket(id, $2::bigint[])]
    returning width_bucket(id, $2::bigint[]) as ordinal, queue, task, group_name
), counted as (
    insert into oncue_counter_deltas (queue, task, state, jobs)
    select queue, task, 'succeeded', count(*) from done group by queue, task
), woken as (
    insert into oncue_group_wakeups (queue, name, has_job)
    select distinct queue, group_name, false from done where group_name is not null
)
select coalesce(array_agg(ordinal), '{}') from done

-- name: apply_plain
-- What nearly every job comes to: success at the first attempt, with nothing to say.
with done as (
    {_plain}
     {_plain_guarded};

-- name: apply_plain_details
-- The same with what the attempts told of themselves, as deliveries do.
with done as (
    {_plain}, details = coalesce((($6::text[])[width_bucket(id, $2::bigint[])])::json, details)
     {_plain_guarded};

-- name: mark_started
-- As in `apply_plain`: sorted ids and no join.
update oncue_jobs set started_at = ($3::timestamptz[])[width_bucket(id, $1::bigint[])]
 where id = any($1::bigint[]) and state || '' = 'running' and claim_no = ($2::int[])[width_bucket(id, $1::bigint[])];

-- name: mark_started_free
-- Past the rows that another session holds: which these are.
with free (ids) as materialized (
    select array(select id from oncue_jobs where id = any($1::bigint[]) order by id for no key update skip locked)
), marked as (
    update oncue_jobs set started_at = ($3::timestamptz[])[width_bucket(id, $1::bigint[])]
     where id = any((select ids from free)::bigint[]) and state || '' = 'running'
       and claim_no = ($2::int[])[width_bucket(id, $1::bigint[])]
)
select j.id from oncue_jobs j cross join free
 where j.id = any($1::bigint[]) and j.state || '' = 'running' and j.id <> all(free.ids);

-- name: report_details
-- As in `mark_started`. What an attempt tells is kept if its node is lost; its end writes it once more.
update oncue_jobs set details = (($3::text[])[width_bucket(id, $1::bigint[])])::json
 where id = any($1::bigint[]) and state || '' = 'running' and claim_no = ($2::int[])[width_bucket(id, $1::bigint[])];

-- name: report_details_free
-- Past the rows that another session holds: which these are.
with free (ids) as materialized (
    select array(select id from oncue_jobs where id = any($1::bigint[]) order by id for no key update skip locked)
), told as (
    update oncue_jobs set details = (($3::text[])[width_bucket(id, $1::bigint[])])::json
     where id = any((select ids from free)::bigint[]) and state || '' = 'running'
       and claim_no = ($2::int[])[width_bucket(id, $1::bigint[])]
)
select j.id from oncue_jobs j cross join free
 where j.id = any($1::bigint[]) and j.state || '' = 'running' and j.id <> all(free.ids);

-- name: begin
-- As in `mark_started`, but before they begin, and their time counts from here.
update oncue_jobs set started_at = ($3::timestamptz[])[width_bucket(id, $1::bigint[])],
       run_until = ($3::timestamptz[])[width_bucket(id, $1::bigint[])] + max_runtime
 where id = any($1::bigint[]) and state || '' = 'running' and claim_no = ($2::int[])[width_bucket(id, $1::bigint[])]
returning id, claim_no, false;

-- name: begin_free
-- Past the rows that another session holds, which come last, marked as such.
with free (ids) as materialized (
    select array(select id from oncue_jobs where id = any($1::bigint[]) order by id for no key update skip locked)
), begun as (
    update oncue_jobs set started_at = ($3::timestamptz[])[width_bucket(id, $1::bigint[])],
           run_until = ($3::timestamptz[])[width_bucket(id, $1::bigint[])] + max_runtime
     where id = any((select ids from free)::bigint[]) and state || '' = 'running'
       and claim_no = ($2::int[])[width_bucket(id, $1::bigint[])]
    returning id, claim_no
)
select id, claim_no, false from begun
union all
select j.id, j.claim_no, true from oncue_jobs j cross join free
 where j.id = any($1::bigint[]) and j.state || '' = 'running' and j.id <> all(free.ids);

-- name: held
select id, claim_no, cancel_requested_at is not null from oncue_jobs where state = 'running' and node_id = $1;

-- name: running
select {claim} from oncue_jobs where state = 'running' and id = any($1::bigint[]) order by id;

-- name: orphaned
-- Ordered by id alone, it would be read off the primary key, past every finished job.
select {claim} from oncue_jobs
 where state = 'running'
   and not exists (select from oncue_nodes n where n.id = node_id and n.lost_at is null and n.expires_at > $1)
 order by claimed_at, id limit $2;

-- name: overdue
select {claim} from oncue_jobs where state = 'running' and run_until < $1 order by run_until limit $2;

-- name: expired
-- The limits are subqueries, as in `claim`: however few jobs the planner thinks there are, it is not to read and sort all.
select {job} from oncue_jobs
 where id = any(array(
           (select id from oncue_jobs
             where deadline_at <= $1 and state in ('scheduled', 'queued', 'retrying')
               and visible_at < timestamptz '9999-01-01 00:00:00+00'
             order by deadline_at limit (select $2::int))
           union
           (select id from oncue_jobs
             where start_by < $1 and attempt = 0 and state in ('scheduled', 'queued', 'retrying')
               and visible_at < timestamptz '9999-01-01 00:00:00+00'
             order by start_by limit (select $2::int))))
 order by id limit $2;

-- name: expired_among
-- `state || ''` keeps the planner from the index of all that waits.
select {job} from oncue_jobs
 where id = any($3::bigint[]) and state || '' in ('scheduled', 'queued', 'retrying')
   and visible_at < timestamptz '9999-01-01 00:00:00+00' and (deadline_at <= $1 or (start_by < $1 and attempt = 0))
 order by id limit $2;

-- name: outlook
-- Each part is read off the head of an index.
with recursive waiting (queue) as (
    (select queue from oncue_jobs where {claimable} order by queue limit 1)
    union all
    select head.queue from waiting
     cross join lateral (select queue from oncue_jobs
                          where {claimable} and queue > waiting.queue order by queue limit 1) as head
)
select array(select queue from waiting
             union
             select queue from oncue_jobs where state = 'queued' and isolation > 0),
       array(select distinct queue from oncue_jobs
              where {set_apart} and (group_name is not null or address is not null)),
       array(select distinct address from oncue_jobs where {addressed}),
       exists (select from oncue_jobs join oncue_nodes on oncue_nodes.id = node_id
                where state = 'running' and lost_at is not null),
       exists (select from oncue_jobs
                where schedule_id is not null and state = 'scheduled' and visible_at = timestamptz '9999-01-01 00:00:00+00'),
       (select min(visible_at) from oncue_jobs where state in ('scheduled', 'retrying')),
       least((select min(deadline_at) from oncue_jobs
               where deadline_at is not null and state in ('scheduled', 'queued', 'retrying')
                 and visible_at < timestamptz '9999-01-01 00:00:00+00'),
             (select min(start_by) + interval '1 microsecond' from oncue_jobs
               where start_by is not null and attempt = 0 and state in ('scheduled', 'queued', 'retrying')
                 and visible_at < timestamptz '9999-01-01 00:00:00+00')),
       (select min(run_until) from oncue_jobs where state = 'running');

-- name: _levels
-- The levels in use, read off the head of each (queue, priority) in the claim index: no scan. The index of what is set
-- apart has the same columns there.
    (select queue, priority from oncue_jobs where {claimable}
      order by queue, priority desc limit 1)
    union all
    select head.queue, head.priority from level
     cross join lateral (
         (select queue, priority from oncue_jobs
           where {claimable} and queue = level.queue and priority < level.priority
           order by queue, priority desc limit 1)
         union all
         (select queue, priority from oncue_jobs where {claimable} and queue > level.queue
           order by queue, priority desc limit 1)
         limit 1) as head

-- name: _levels_apart
    (select queue, priority from oncue_jobs where {set_apart}
      order by queue, priority desc limit 1)
    union all
    select head.queue, head.priority from level_apart
     cross join lateral (
         (select queue, priority from oncue_jobs
           where {set_apart} and queue = level_apart.queue and priority < level_apart.priority
           order by queue, priority desc limit 1)
         union all
         (select queue, priority from oncue_jobs where {set_apart} and queue > level_apart.queue
           order by queue, priority desc limit 1)
         limit 1) as head

-- name: levels
with recursive level (queue, priority) as (
    {_levels}
), level_apart (queue, priority) as (
    {_levels_apart}
)
select queue, priority from (select * from level union select * from level_apart) as used
 where priority < 100 order by priority desc;

-- name: age
-- By the time that jobs have waited, whatever instant they are ordered by.
update oncue_jobs set priority = least(priority + $5, 100), age_round = $1, updated_at = $6
 where id = any(array(select id from oncue_jobs
                       where {claimable} and queue = $2 and priority = $3 and order_at <= $4
                         and greatest(created_at, visible_at) <= $4 and age_round < $1
                       order by order_at, id limit (select $7::int) for update skip locked)
                || array(select id from oncue_jobs
                          where {set_apart} and queue = $2 and priority = $3 and created_at <= $4
                            and visible_at <= $4 and age_round < $1
                          order by created_at, id limit (select $7::int) for update skip locked))
   and state = 'queued';

-- name: prune
-- A job goes once the ledger has what became of its slot. Rows that another session holds wait for the next pass.
-- `state || ''` keeps the planner from the index of finished jobs, which it would read from end to end.
with old as materialized (
    select id, schedule_id from oncue_jobs
     where state in ('succeeded', 'failed', 'cancelled', 'skipped') and finished_at < $6
       and not exists (select from oncue_parts where job_id = oncue_jobs.id)
       and not exists (select from oncue_parts p
                        cross join lateral (select from oncue_jobs part
                                             where part.id = p.job_id and part.finished_at is null offset 0) as unfinished
                        where p.cluster_id = oncue_jobs.id)
     order by finished_at limit (select $7::int) for update skip locked
), told as materialized (
    select job_id from oncue_slots
     where job_id = any(array(select id from old where schedule_id is not null)) and job_id is not null
       and outcome is null
       for update skip locked
), kept as (
    {_keep_outcomes}
), untold (ids) as (
    select array(select job_id from oncue_slots
                  where job_id = any(array(select id from old where schedule_id is not null)) and job_id is not null
                    and outcome is null
                 except select job_id from told)
), gone as (
    delete from oncue_jobs
     where id = any(array(select old.id from old cross join untold where old.id <> all(untold.ids)))
       and state || '' in ('succeeded', 'failed', 'cancelled', 'skipped')
    returning id
), forgotten as (
    delete from oncue_cluster_jobs where job_id = any(array(select id from gone))
), parts as (
    -- The parts of a cluster job go with it, once all of them have ended.
    delete from oncue_parts where cluster_id = any(array(select id from gone)) returning job_id
), part_jobs as (
    delete from oncue_jobs where id = any(array(select job_id from parts))
                             and state || '' in ('succeeded', 'failed', 'cancelled', 'skipped')
), noted as (
    insert into oncue_audit (at, actor, action, subject, before, after)
    select $1, $2, $3, $4, $5::json, json_build_object('jobs', count(*)) from gone
     where $2::text is not null having count(*) > 0
)
select count(*) from gone;

-- name: prune_attempts
delete from oncue_attempts
 where ctid = any(array(select ctid from oncue_attempts where finished_at < $1
                         order by finished_at limit (select $2::int) for update skip locked));

-- name: prioritize
with took as (
    update oncue_jobs set priority = $9, updated_at = $1
     where id = $7 and state in ('scheduled', 'queued', 'running', 'retrying') and priority = $8
    returning id
), noted as ({_note})
select from took;

-- name: request_cancel
with took as (
    update oncue_jobs set cancel_requested_at = $1, updated_at = $1
     where id = $7 and state = 'running' and claim_no = $8 and cancel_requested_at is null returning id
), noted as ({_note})
select from took;

-- name: retries_of
with recursive again (id) as (
    select id from oncue_jobs where retry_of = $1
    union
    select j.id from again cross join lateral (select id from oncue_jobs where retry_of = again.id offset 0) as j
)
select {job} from oncue_jobs where id = any(array(select id from again)) order by id;

-- name: count_ahead
select count(*) from (
    select from oncue_jobs
     where {claimable} and queue = $1
       and (priority > $2 or (priority = $2 and (order_at, id) < ($3, $4)))
     limit (select $5::int)) as before;

-- name: count_ahead_in_group
select count(*) from (
    select from oncue_jobs
     where {grouped} and state || '' = 'queued' and queue = $1 and group_name = $6
       and (priority > $2 or (priority = $2 and (order_at, id) < ($3, $4)))
     order by priority desc, order_at, id limit (select $5::int)) as before;

-- name: count_ahead_at_address
select count(*) from (
    select from oncue_jobs
     where {addressed} and address = $6 and queue = $1
       and (priority > $2 or (priority = $2 and (order_at, id) < ($3, $4)))
     order by priority desc, order_at, id limit (select $5::int)) as before;

-- name: report_progress
insert into oncue_progress as p (job_id, claim_no, fraction, note, told_at)
select n.job_id, n.claim_no, n.fraction, n.note, n.told_at
  from unnest($1::bigint[], $2::int[], $3::float8[], $4::text[], $5::timestamptz[])
    as n (job_id, claim_no, fraction, note, told_at)
  join oncue_jobs j on j.id = n.job_id and j.claim_no = n.claim_no and j.state || '' = 'running'
 where j.id = any($1::bigint[])
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
