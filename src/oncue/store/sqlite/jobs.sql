-- Jobs, for SQLite. Time always arrives as a parameter, in microseconds.
-- Sets travel as JSON, in and out, so that one step of the database does the work of a whole batch: each step hands
-- the interpreter lock to and fro, and five hundred of them would cost more than the work.
-- Lists of three or more states reach SQLite as comparisons, `state = 'a' or state = 'b' ...`: so do the indexes have it.

-- name: reserve
update oncue_job_ids set last = last + :count returning last;

-- name: _of_batch
n.value ->> 0, n.value ->> 1, n.value ->> 2, :task, :queue, :priority, :state, :options, :max_retries, :max_runtime,
       :created_at, :created_at, :order_at, :visible_at, :deadline_at, :enqueued_by, :retry_of, null, null, null,
       :group_name, :address

-- name: enqueue
insert into oncue_jobs ({new_job})
select {_of_batch}
  from json_each(:jobs) as n where true
    on conflict (task, key) where key is not null and state in ('scheduled', 'queued', 'running', 'retrying')
    do nothing;

-- name: wake_group
-- A job of a group can be claimed.
insert into oncue_group_wakeups (queue, name, has_job) values (:queue, :group_name, 1);

-- name: written
-- Which are there; with what was left in place of those that another job stands for.
-- The same id alone proves nothing: a restored file may hand it out again.
select json_group_array(json_array(id, case when state = 'skipped' and reason = 'duplicate' and claim_no = 0 then result end))
  from oncue_jobs
 where id in (select value from json_each(:ids)) and task = :task and created_at = :created_at;

-- name: record_duplicates
-- The id of a duplicate is taken too: a call that was given up and arrives late cannot write its job any more.
insert into oncue_jobs ({new_job}, reason, result, finished_at)
select {_of_batch}, 'duplicate', n.value ->> 3, :created_at
  from json_each(:jobs) as n where true;

-- name: count_duplicates
insert into oncue_counter_deltas (queue, task, state, jobs) values (:queue, :task, 'skipped', json_array_length(:jobs));

-- name: touch
update oncue_jobs set updated_at = max(updated_at, :created_at)
 where id in (select value from json_each(:ids)) and task = :task and created_at = :created_at;

-- name: standing
select json_group_array(json_array(key, id, created_at)) from oncue_jobs
 where task = :task and key is not null and key in (select value from json_each(:keys))
   and state in ('scheduled', 'queued', 'running', 'retrying');

-- name: job
select {job} from oncue_jobs where id = :job_id;

-- name: jobs
select {job} from oncue_jobs where id < :before order by id desc limit :limit offset :offset;

-- name: jobs_by_ids
select {job} from oncue_jobs where id in (select value from json_each(:ids)) order by id desc;

-- name: _kinds
-- Which kinds (queue, task, state) of jobs there are is read off the heads of the two indexes, a step for each.
with recursive waiting (queue, task, state) as (
    select * from (select queue, task, state from oncue_jobs indexed by oncue_jobs_waiting
                    where state in ('scheduled', 'queued', 'retrying') order by queue, task, state limit 1)
    union all
    select j.queue, j.task, j.state from waiting k join oncue_jobs j on j.id = coalesce(
        (select id from oncue_jobs indexed by oncue_jobs_waiting
          where state in ('scheduled', 'queued', 'retrying') and queue = k.queue and task = k.task
            and state > k.state order by state limit 1),
        (select id from oncue_jobs indexed by oncue_jobs_waiting
          where state in ('scheduled', 'queued', 'retrying') and queue = k.queue and task > k.task
          order by task, state limit 1),
        (select id from oncue_jobs indexed by oncue_jobs_waiting
          where state in ('scheduled', 'queued', 'retrying') and queue > k.queue
          order by queue, task, state limit 1))
), ended (queue, task, state) as (
    select * from (select queue, task, state from oncue_jobs indexed by oncue_jobs_ended
                    where state in ('succeeded', 'failed', 'cancelled', 'skipped') order by queue, task, state limit 1)
    union all
    select j.queue, j.task, j.state from ended k join oncue_jobs j on j.id = coalesce(
        (select id from oncue_jobs indexed by oncue_jobs_ended
          where state in ('succeeded', 'failed', 'cancelled', 'skipped') and queue = k.queue and task = k.task
            and state > k.state order by state limit 1),
        (select id from oncue_jobs indexed by oncue_jobs_ended
          where state in ('succeeded', 'failed', 'cancelled', 'skipped') and queue = k.queue and task > k.task
          order by task, state limit 1),
        (select id from oncue_jobs indexed by oncue_jobs_ended
          where state in ('succeeded', 'failed', 'cancelled', 'skipped') and queue > k.queue
          order by queue, task, state limit 1))
)

-- name: newest_of_kinds
-- The newest of every kind that is wanted: it costs what there are kinds, not what there are jobs.
{_kinds}
select (select json_group_array(id) from (
            select j.id from oncue_jobs j indexed by oncue_jobs_waiting
             where j.state in ('scheduled', 'queued', 'retrying') and j.queue = k.queue and j.task = k.task
               and j.state = k.state and j.id < :before
             order by j.id desc limit :limit))
  from waiting k
 where k.state in (select value from json_each(:states)) and (:queue is null or k.queue = :queue)
   and (:task is null or k.task = :task)
union all
select (select json_group_array(id) from (
            select j.id from oncue_jobs j indexed by oncue_jobs_ended
             where j.state in ('succeeded', 'failed', 'cancelled', 'skipped') and j.queue = k.queue
               and j.task = k.task and j.state = k.state and j.id < :before
             order by j.id desc limit :limit))
  from ended k
 where k.state in (select value from json_each(:states)) and (:queue is null or k.queue = :queue)
   and (:task is null or k.task = :task)
union all
select json_group_array(id) from oncue_jobs indexed by oncue_jobs_running
 where state = 'running' and 'running' in (select value from json_each(:states))
   and (:queue is null or queue = :queue) and (:task is null or task = :task) and id < :before;

-- name: newest
select json_group_array(id) from (select id from oncue_jobs where id < :before order by id desc limit :limit);

-- name: _is_wanted
(:key is null or key = :key) and (:group is null or group_name = :group)
       and (:address is null or address = :address) and (:since is null or created_at >= :since)
       and (:until is null or created_at < :until)

-- name: jobs_among
select {job} from oncue_jobs
 where id in (select value from json_each(:ids)) and {_is_wanted}
 order by id desc limit :limit;

-- name: count
-- It ends after so many rows, whether they match or not.
select count(*), count(*) from (select 1 from oncue_jobs where id < :before order by id desc limit :look);

-- name: count_by_rows
select count(*), coalesce(sum(is_wanted), 0) from (
    select {_is_wanted} as is_wanted from oncue_jobs where id < :before order by id desc limit :look);

-- name: _waiting
waiting k cross join oncue_jobs j indexed by oncue_jobs_waiting
     where j.state in ('scheduled', 'queued', 'retrying') and j.queue = k.queue and j.task = k.task
       and j.state = k.state and j.id < :before and k.state in (select value from json_each(:states))
       and (:queue is null or k.queue = :queue) and (:task is null or k.task = :task)

-- name: _ended
ended k cross join oncue_jobs j indexed by oncue_jobs_ended
     where j.state in ('succeeded', 'failed', 'cancelled', 'skipped') and j.queue = k.queue and j.task = k.task
       and j.state = k.state and j.id < :before and k.state in (select value from json_each(:states))
       and (:queue is null or k.queue = :queue) and (:task is null or k.task = :task)

-- name: _running
oncue_jobs j indexed by oncue_jobs_running
     where j.state = 'running' and j.id < :before and 'running' in (select value from json_each(:states))
       and (:queue is null or j.queue = :queue) and (:task is null or j.task = :task)

-- name: count_of_kinds
-- In no order: the limit ends the walk through the indexes, and no job is read.
{_kinds}
select count(*), count(*) from (
    select 1 from {_waiting}
    union all
    select 1 from {_ended}
    union all
    select 1 from {_running}
    limit :look);

-- name: count_of_kinds_by_rows
{_kinds}
select count(*), coalesce(sum(is_wanted), 0) from (
    select {_is_wanted} as is_wanted from {_waiting}
    union all
    select {_is_wanted} as is_wanted from {_ended}
    union all
    select {_is_wanted} as is_wanted from {_running}
    limit :look);

-- name: job_with_key
-- Among the unfinished jobs of a task a key is unique.
select {job} from oncue_jobs
 where task = :task and key = :key and state in ('scheduled', 'queued', 'running', 'retrying');

-- name: jobs_with_key
-- No index has the keys of finished jobs: this reads backwards from the newest.
select {job} from oncue_jobs
 where key = :key and state in (select value from json_each(:states)) and (:queue is null or queue = :queue)
   and (:task is null or task = :task) and id < :before
 order by id desc limit :limit offset :offset;

-- name: jobs_by_rows
-- No index has the groups and addresses of finished jobs, nor when jobs were made: this reads backwards from the newest.
select {job} from oncue_jobs
 where {_is_wanted} and state in (select value from json_each(:states)) and (:queue is null or queue = :queue)
   and (:task is null or task = :task) and id < :before
 order by id desc limit :limit offset :offset;

-- name: attempts
select job_id, attempt, claim_no, node_id, started_at, finished_at, outcome, error, details
  from oncue_attempts where job_id = :job_id order by claim_no;

-- name: wake_due
-- Before they are promoted.
insert into oncue_group_wakeups (queue, name, has_job)
select distinct queue, group_name, 1 from oncue_jobs
 where group_name is not null and id in (select id from oncue_jobs where state in ('scheduled', 'retrying')
                                            and visible_at <= :now order by visible_at limit :limit);

-- name: promote
update oncue_jobs set state = 'queued', updated_at = :now
 where id in (select id from oncue_jobs where state in ('scheduled', 'retrying') and visible_at <= :now
               order by visible_at limit :limit);

-- name: next_due
select min(visible_at) from oncue_jobs where state in ('scheduled', 'retrying');

-- name: any_queued
select exists (select 1 from oncue_jobs indexed by oncue_jobs_claimable where {claimable})
    or exists (select 1 from oncue_jobs indexed by oncue_jobs_restricted where state = 'queued' and isolation > 0)
    or exists (select 1 from oncue_jobs indexed by oncue_jobs_addressed where {addressed});

-- name: best
-- Of each queue that is open to this node: its best, whether anything is to be kept apart, and whether anything there is
-- addressed to this node.
select wanted.value,
       (select json_group_array(json_array(-priority, order_at, id)) from (
            select priority, order_at, id from oncue_jobs indexed by oncue_jobs_claimable
             where {claimable} and queue = wanted.value
               and task in (select value from json_each(:tasks))
             order by priority desc, order_at, id limit :limit)),
       exists (select 1 from oncue_jobs indexed by oncue_jobs_restricted where state = 'queued' and isolation > 0),
       exists (select 1 from oncue_jobs indexed by oncue_jobs_addressed
                where {addressed} and address in ({_mine}) and queue = wanted.value)
  from json_each(:queues) as wanted
 where {_open};

-- name: _mine
-- What is addressed to this node: to its name while that is leased to it, and to the leader while it leads under :epoch.
select 'node:' || name from oncue_nodes where id = :node and named and lost_at is null
                 union all
                 select 'role:leader' from oncue_leases
                  where name = 'leader' and holder = :node and epoch = :epoch and expires_at > :now

-- name: mine
{_mine};

-- name: addressed
-- What a process has begun of a cluster job no other process of its name goes on with: that ends it when it starts.
select json_group_array(json_array(-priority, order_at, id)) from (
    select priority, order_at, id from oncue_jobs indexed by oncue_jobs_addressed
     where {addressed} and address = :address and queue = :queue and task in (select value from json_each(:tasks))
       and (attempt = 0 or node_id = :node or instr(options, '"of_cluster":true') = 0)
     order by priority desc, order_at, id limit :limit);

-- name: _open
-- The queues from which this node may take jobs now.
not exists (select 1 from oncue_queues
                     where name = wanted.value and (paused_at is not null or (
                           (global_limit is not null or node_limit is not null or rate_count is not null)
                           and name not in (select key from json_each(:rooms)))))
   and exists (select 1 from oncue_nodes where id = :node and expires_at > :now and lost_at is null)
   and not exists (select 1 from oncue_leases where name = 'exclusive' and holder <> :node and expires_at > :now)

-- name: few
-- Both parts of the condition on `isolation` are wanted: the first is the index's.
select json_group_array(json_array(-priority, order_at, id)) from (
    select priority, order_at, id from oncue_jobs indexed by oncue_jobs_restricted
     where state = 'queued' and isolation > 0 and isolation = 1 and group_name is null and queue = :queue
       and (address is null or address in ({_mine}))
       and task in (select value from json_each(:tasks))
     order by priority desc, order_at, id limit :limit);

-- name: alone
-- Those with the fewest deaths first: what dies for no fault of its own takes turns. A priority is at most 100.
select json_group_array(json_array(101 * crashes - priority, order_at, id)) from (
    select crashes, priority, order_at, id from oncue_jobs indexed by oncue_jobs_restricted
     where state = 'queued' and isolation > 0 and isolation = 2 and group_name is null and queue = :queue
       and (address is null or address in ({_mine}))
       and task in (select value from json_each(:tasks)) and visible_at <= :alone
     order by crashes, priority desc, order_at, id limit :limit);

-- name: take
update oncue_jobs
   set state = 'running', claim_no = claim_no + 1, node_id = :node, claimed_at = :now,
       -- One that waits for its node to be empty has its time counted from when it begins.
       run_until = case when isolation < 2 then :now + max_runtime end,
       updated_at = :now, started_at = null, finished_at = null, reason = null, result = null, error = null,
       details = null
 where id in (select value from json_each(:ids)) and state = 'queued';

-- name: taken
-- In the order of the ids, which is that of their urgency: a cross join goes through them one after the other.
select json_group_array(json_array({claim_out})) from (
    select {claim} from (select value as best from json_each(:ids)) cross join oncue_jobs where id = best);

-- name: apply_plain
-- What nearly every job comes to: success at the first attempt, with nothing to say. Four values instead of fourteen.
update oncue_jobs
   set state = 'succeeded', attempt = 1, run_until = null, updated_at = :now, started_at = c.started_at,
       finished_at = c.ended_at
  from (select value ->> 0 as id, value ->> 1 as claim_no, value ->> 2 as started_at, value ->> 3 as ended_at
          from json_each(:changes)) as c
 where oncue_jobs.id = c.id and oncue_jobs.state = 'running' and oncue_jobs.claim_no = c.claim_no;

-- name: count_plain
insert into oncue_counter_deltas (queue, task, state, jobs)
select queue, task, 'succeeded', count(*) from oncue_jobs where id in (select value ->> 0 from json_each(:changes))
 group by queue, task;

-- name: any_grouped
select exists (select 1 from oncue_jobs indexed by oncue_jobs_group_running
                where state = 'running' and group_name is not null);

-- name: wake_plain
insert into oncue_group_wakeups (queue, name, has_job)
select distinct queue, group_name, 0 from oncue_jobs
 where id in (select value ->> 0 from json_each(:changes)) and group_name is not null;

-- name: forget_changes
delete from temp.change;

-- name: load_changes
-- Row by row: with so many columns, one document of all rows takes longer.
insert into temp.change
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: load_alike_changes
-- Of changes that have all in common but their ids, their fences and the versions of subjects, the rest is told once.
insert into temp.change
select key, value ->> 0, :from_state, value ->> 1, :state, :reason, :outcome, :visible_at, :retry_count, :attempt,
       :crashes, :started_at, :ended_at, :result, :error, :isolation, :details, :day_status, null, null, null,
       value ->> 2, :next_day, :next_opens_at, :next_cutoff_at, :bucket
  from json_each(:own);

-- name: drop_unled_changes
-- A change that holds while a node leads comes with the one that is written if it does not: one of the two stays.
delete from temp.change as c
 where leads is not null
   and leads <> exists (select 1 from oncue_leases where name = 'leader' and holder = c.leader and epoch = c.epoch);

-- name: drop_stale_changes
delete from temp.change as c
 where not exists (select 1 from oncue_jobs j where j.id = c.id and j.state = c.from_state and j.claim_no = c.claim_no);

-- name: drop_second_changes
delete from temp.change where ordinal not in (select min(ordinal) from temp.change group by id);

-- name: history
insert into oncue_attempts (job_id, attempt, claim_no, node_id, started_at, finished_at, outcome, error, details)
select c.id, c.attempt, c.claim_no, j.node_id, c.started_at, c.ended_at, c.outcome, c.error,
       coalesce(c.details, j.details)
  from temp.change c join oncue_jobs j on j.id = c.id
 where c.outcome is not null and c.state in ('scheduled', 'queued', 'retrying');

-- name: wake_changed
insert into oncue_group_wakeups (queue, name, has_job)
select j.queue, j.group_name, max(c.state = 'queued') from temp.change c join oncue_jobs j on j.id = c.id
 where j.group_name is not null group by j.queue, j.group_name;

-- name: count_changes
-- A job counts where it has ended; one that starts over counts there no more.
insert into oncue_counter_deltas (queue, task, state, jobs)
select j.queue, j.task, c.state, count(*) from temp.change c join oncue_jobs j on j.id = c.id
 where c.state in ('succeeded', 'failed', 'cancelled', 'skipped') group by j.queue, j.task, c.state
union all
select j.queue, j.task, c.from_state, -count(*) from temp.change c join oncue_jobs j on j.id = c.id
 where c.from_state in ('succeeded', 'failed', 'cancelled', 'skipped') group by j.queue, j.task, c.from_state;

-- name: apply
update oncue_jobs
   set state = c.state, reason = c.reason, retry_count = c.retry_count,
       -- A job that is to be cancelled is due at once, so that the next claim can refuse it.
       visible_at = case when cancel_requested_at is not null and c.state in ('scheduled', 'retrying')
                         then min(c.visible_at, :now) else c.visible_at end,
       attempt = c.attempt, crashes = c.crashes, isolation = c.isolation, started_at = c.started_at,
       result = c.result, error = c.error, details = coalesce(c.details, oncue_jobs.details),
       updated_at = :now, run_until = null,
       finished_at = case when c.state in ('succeeded', 'failed', 'cancelled', 'skipped') then c.ended_at end,
       cancel_requested_at = case when c.from_state = 'running' then cancel_requested_at end,
       -- An operator who starts a finished job over accepts that it is late.
       start_by = case when finished_at is null then start_by end,
       deadline_at = case when finished_at is null then deadline_at else :now + (deadline_at - created_at) end
  from temp.change c where oncue_jobs.id = c.id;

-- name: any_closing
-- Cluster jobs that have ended: their parts end with them.
select exists (select 1 from temp.change c cross join oncue_cluster_jobs k on k.job_id = c.id
                where c.state in ('succeeded', 'failed', 'cancelled', 'skipped'));

-- name: leave_parts_open
update oncue_parts
   set was_open = exists (select 1 from oncue_jobs j where j.id = oncue_parts.job_id
                             and j.state in ('scheduled', 'queued', 'running', 'retrying'))
 where was_open is null
   and cluster_id in (select id from temp.change where state in ('succeeded', 'failed', 'cancelled', 'skipped'));

-- name: _closing_parts
select p.job_id as id, c.state as ending from temp.change c cross join oncue_parts p on p.cluster_id = c.id
                 where c.state in ('succeeded', 'failed', 'cancelled', 'skipped')

-- name: count_parts
insert into oncue_counter_deltas (queue, task, state, jobs)
select j.queue, j.task, iif(part.ending = 'cancelled', 'cancelled', 'skipped'), count(*)
  from ({_closing_parts}) as part cross join oncue_jobs j on j.id = part.id
 where j.state in ('scheduled', 'queued', 'retrying') group by j.queue, j.task, part.ending;

-- name: end_parts
-- What has not begun of them.
update oncue_jobs
   set state = iif(part.ending = 'cancelled', 'cancelled', 'skipped'), reason = 'cluster_job_ended', finished_at = :now,
       updated_at = :now, cancel_requested_at = null
  from ({_closing_parts}) as part
 where oncue_jobs.id = part.id and oncue_jobs.state in ('scheduled', 'queued', 'retrying');

-- name: stop_parts
-- What runs of them goes on, unless the cluster job was cancelled. If it then asks to be tried again, it is past its
-- deadline.
update oncue_jobs
   set deadline_at = :now, updated_at = :now,
       cancel_requested_at = iif(part.ending = 'cancelled', coalesce(cancel_requested_at, :now), cancel_requested_at)
  from ({_closing_parts}) as part
 where oncue_jobs.id = part.id and oncue_jobs.state = 'running';

-- name: tally_finalized
-- What days come to with the ends of their jobs, counted before it is written.
insert into oncue_window_deltas (schedule_id, day, bucket, event, subjects)
select s.schedule_id, s.day, s.cutoff_at / 60000000 % 1440, c.day_status, count(*)
  from temp.change c cross join oncue_jobs j on j.id = c.id
 cross join oncue_subjects s on s.schedule_id = j.schedule_id and s.name = j.subject
 where c.day_status is not null and s.job_id = c.id and (s.last_date is null or s.last_date < s.day)
 group by s.schedule_id, s.day, s.cutoff_at / 60000000 % 1440, c.day_status;

-- name: finalize
-- The job of a window's day ends it: what the day comes to is written with the end of the job. The subject moves on to
-- its next day at once, if that was worked out from the row as it is.
update oncue_subjects
   set last_date = day, status = c.day_status, version = version + 1, updated_at = :now,
       reason = case when c.day_status <> 'success' then nullif(c.reason, c.day_status) end,
       last_run_at = case when c.day_status = 'success' then c.ended_at else last_run_at end,
       day = iif(version is c.next_version, c.next_day, day),
       opens_at = iif(version is c.next_version, c.next_opens_at, opens_at),
       cutoff_at = iif(version is c.next_version, c.next_cutoff_at, cutoff_at),
       next_at = iif(version is c.next_version, c.next_opens_at, next_at),
       job_id = iif(version is c.next_version, null, job_id)
  from temp.change c join oncue_jobs j on j.id = c.id
 where c.day_status is not null and oncue_subjects.schedule_id = j.schedule_id and oncue_subjects.name = j.subject
   and oncue_subjects.job_id = c.id and (last_date is null or last_date < day);

-- name: took
select json_group_array(ordinal) from temp.change;

-- name: mark_started
update oncue_jobs set started_at = s.started_at
  from (select value ->> 0 as id, value ->> 1 as claim_no, value ->> 2 as started_at from json_each(:started)) as s
 where oncue_jobs.id = s.id and oncue_jobs.state = 'running' and oncue_jobs.claim_no = s.claim_no;

-- name: report_details
-- What an attempt tells is kept if its node is lost; its end writes it once more.
update oncue_jobs set details = t.details
  from (select value ->> 0 as id, value ->> 1 as claim_no, value ->> 2 as details from json_each(:told)) as t
 where oncue_jobs.id = t.id and oncue_jobs.state = 'running' and oncue_jobs.claim_no = t.claim_no;

-- name: begin
-- As in `mark_started`, but before they begin, and their time counts from here.
update oncue_jobs set started_at = s.started_at, run_until = s.started_at + max_runtime
  from (select value ->> 0 as id, value ->> 1 as claim_no, value ->> 2 as started_at from json_each(:started)) as s
 where oncue_jobs.id = s.id and oncue_jobs.state = 'running' and oncue_jobs.claim_no = s.claim_no
returning oncue_jobs.id, oncue_jobs.claim_no;

-- name: held
select id, claim_no, cancel_requested_at is not null from oncue_jobs where state = 'running' and node_id = :node;

-- name: running
select json_group_array(json_array({claim_out})) from (
    select {claim} from oncue_jobs
     where state = 'running' and id in (select value from json_each(:ids)) order by id);

-- name: orphaned
select json_group_array(json_array({claim_out})) from (
    select {claim} from oncue_jobs indexed by oncue_jobs_running
     where state = 'running' and not exists (
           select 1 from oncue_nodes n where n.id = node_id and n.lost_at is null and n.expires_at > :now)
     order by claimed_at, id limit :limit);

-- name: overdue
select json_group_array(json_array({claim_out})) from (
    select {claim} from oncue_jobs indexed by oncue_jobs_running
     where state = 'running' and run_until < :before order by run_until limit :limit);

-- name: expired
select {job} from oncue_jobs
 where id in (select id from (select id from oncue_jobs indexed by oncue_jobs_deadline
                               where deadline_at <= :now and state in ('scheduled', 'queued', 'retrying')
                                 and visible_at < 253370764800000000
                               order by deadline_at limit :limit)
               union
              select id from (select id from oncue_jobs indexed by oncue_jobs_start_by
                               where start_by < :now and attempt = 0 and state in ('scheduled', 'queued', 'retrying')
                                 and visible_at < 253370764800000000
                               order by start_by limit :limit))
 order by id limit :limit;

-- name: expired_among
select {job} from oncue_jobs
 where id in (select value from json_each(:ids)) and state in ('scheduled', 'queued', 'retrying')
   and visible_at < 253370764800000000 and (deadline_at <= :now or (start_by < :now and attempt = 0))
 order by id limit :limit;

-- name: outlook
-- Each part is read off the head of an index.
with recursive waiting (queue) as (
    select min(queue) from oncue_jobs indexed by oncue_jobs_claimable where {claimable}
    union all
    select (select min(queue) from oncue_jobs indexed by oncue_jobs_claimable
             where {claimable} and queue > waiting.queue)
      from waiting where queue is not null
)
select (select json_group_array(queue) from (
            select queue from waiting where queue is not null
            union
            select queue from oncue_jobs indexed by oncue_jobs_restricted where state = 'queued' and isolation > 0)),
       (select json_group_array(distinct queue) from oncue_jobs indexed by oncue_jobs_set_apart
         where {set_apart} and (group_name is not null or address is not null)),
       (select json_group_array(distinct address) from oncue_jobs indexed by oncue_jobs_addressed where {addressed}),
       exists (select 1 from oncue_nodes join oncue_jobs on oncue_jobs.node_id = oncue_nodes.id
                where lost_at is not null and state = 'running'),
       exists (select 1 from oncue_jobs indexed by oncue_jobs_parked
                where schedule_id is not null and state = 'scheduled' and visible_at = 253370764800000000),
       (select min(visible_at) from oncue_jobs where state in ('scheduled', 'retrying')),
       (select min(deadline_at) from oncue_jobs indexed by oncue_jobs_deadline
         where deadline_at is not null and state in ('scheduled', 'queued', 'retrying')
           and visible_at < 253370764800000000),
       (select min(start_by) + 1 from oncue_jobs indexed by oncue_jobs_start_by
         where start_by is not null and attempt = 0 and state in ('scheduled', 'queued', 'retrying')
           and visible_at < 253370764800000000),
       (select min(run_until) from oncue_jobs indexed by oncue_jobs_running where state = 'running');

-- name: _levels
-- The levels in use, read off the head of each (queue, priority) in the claim index: no scan. The index of what is set
-- apart has the same columns there.
    select * from (select queue, priority from oncue_jobs where {claimable}
                    order by queue, priority desc limit 1)
    union all
    select coalesce(same.queue, next.queue), coalesce(same.priority, next.priority)
      from level
      left join oncue_jobs same on same.id = (
           select id from oncue_jobs
            where {claimable} and queue = level.queue and priority < level.priority
            order by queue, priority desc limit 1)
      left join oncue_jobs next on same.id is null and next.id = (
           select id from oncue_jobs where {claimable} and queue > level.queue
            order by queue, priority desc limit 1)
     where coalesce(same.id, next.id) is not null

-- name: _levels_apart
    select * from (select queue, priority from oncue_jobs where {set_apart}
                    order by queue, priority desc limit 1)
    union all
    select coalesce(same.queue, next.queue), coalesce(same.priority, next.priority)
      from level_apart
      left join oncue_jobs same on same.id = (
           select id from oncue_jobs
            where {set_apart} and queue = level_apart.queue and priority < level_apart.priority
            order by queue, priority desc limit 1)
      left join oncue_jobs next on same.id is null and next.id = (
           select id from oncue_jobs where {set_apart} and queue > level_apart.queue
            order by queue, priority desc limit 1)
     where coalesce(same.id, next.id) is not null

-- name: levels
with recursive level (queue, priority) as (
    {_levels}
), level_apart (queue, priority) as (
    {_levels_apart}
)
select queue, priority from (select * from level union select * from level_apart)
 where priority < 100 order by priority desc;

-- name: age
-- By the time that jobs have waited, whatever instant they are ordered by.
update oncue_jobs set priority = min(priority + :gain, 100), age_round = :round_no, updated_at = :now
 where id in (select id from (select id from oncue_jobs indexed by oncue_jobs_claimable
                               where {claimable} and queue = :queue and priority = :priority
                                 and order_at <= :waiting_since and max(created_at, visible_at) <= :waiting_since
                                 and age_round < :round_no
                               order by order_at, id limit :limit)
              union all
              select id from (select id from oncue_jobs indexed by oncue_jobs_set_apart
                               where {set_apart} and queue = :queue and priority = :priority
                                 and created_at <= :waiting_since and visible_at <= :waiting_since
                                 and age_round < :round_no
                               order by created_at, id limit :limit));

-- name: pick_old
-- The literal states are those of the index: without them SQLite would read the whole table. Parts go with their cluster
-- job, once all of them have ended.
select json_group_array(id) from (
    select id from oncue_jobs
     where state in ('succeeded', 'failed', 'cancelled', 'skipped') and finished_at < :before
       and not exists (select 1 from oncue_parts where job_id = oncue_jobs.id)
       and not exists (select 1 from oncue_parts p cross join oncue_jobs part on part.id = p.job_id
                        where p.cluster_id = oncue_jobs.id and part.finished_at is null)
     order by finished_at limit :limit);

-- name: forget_cluster_jobs
delete from oncue_cluster_jobs where job_id in (select value from json_each(:ids));

-- name: prune_part_jobs
delete from oncue_jobs
 where id in (select job_id from oncue_parts where cluster_id in (select value from json_each(:ids)))
   and state in ('succeeded', 'failed', 'cancelled', 'skipped');

-- name: forget_parts
delete from oncue_parts where cluster_id in (select value from json_each(:ids));

-- name: prune
delete from oncue_jobs where id in (select value from json_each(:ids))
   and state in ('succeeded', 'failed', 'cancelled', 'skipped');

-- name: prune_attempts
delete from oncue_attempts
 where (job_id, claim_no) in (select job_id, claim_no from oncue_attempts where finished_at < :before
                               order by finished_at limit :limit);

-- name: prioritize
update oncue_jobs set priority = :priority, updated_at = :now
 where id = :job_id and state in ('scheduled', 'queued', 'running', 'retrying') and priority = :known;

-- name: request_cancel
update oncue_jobs set cancel_requested_at = :now, updated_at = :now
 where id = :job_id and state = 'running' and claim_no = :claim_no and cancel_requested_at is null;

-- name: retries_of
with recursive again (id) as (
    select id from oncue_jobs where retry_of = :job_id
    union
    select j.id from again cross join oncue_jobs j on j.retry_of = again.id
)
select {job} from oncue_jobs where id in (select id from again) order by id;

-- name: count_ahead
select count(*) from (
    select 1 from oncue_jobs indexed by oncue_jobs_claimable
     where {claimable} and queue = :queue
       and (priority > :priority or (priority = :priority and (order_at, id) < (:order_at, :id)))
     limit :limit);

-- name: count_ahead_in_group
select count(*) from (
    select 1 from oncue_jobs indexed by oncue_jobs_grouped
     where {grouped} and queue = :queue and group_name = :group
       and (priority > :priority or (priority = :priority and (order_at, id) < (:order_at, :id)))
     limit :limit);

-- name: count_ahead_at_address
select count(*) from (
    select 1 from oncue_jobs indexed by oncue_jobs_addressed
     where {addressed} and address = :address and queue = :queue
       and (priority > :priority or (priority = :priority and (order_at, id) < (:order_at, :id)))
     limit :limit);

-- name: report_progress
insert into oncue_progress (job_id, claim_no, fraction, note, told_at)
select n.value ->> 0, n.value ->> 1, n.value ->> 2, n.value ->> 3, n.value ->> 4
  from json_each(:progress) as n
  join oncue_jobs j on j.id = n.value ->> 0 and j.claim_no = n.value ->> 1 and j.state = 'running'
 where true
    on conflict (job_id) do update
   set claim_no = excluded.claim_no, fraction = excluded.fraction, note = excluded.note, told_at = excluded.told_at
 where claim_no <= excluded.claim_no;
