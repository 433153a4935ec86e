-- Groups of a queue, for PostgreSQL.

-- name: next_ready
select case when exists (select from oncue_group_wakeups) then timestamptz '1970-01-01 00:00:00+00' else (
       select min(first.ready_at) from unnest($1::text[]) as wanted (queue) cross join lateral (
                select g.ready_at from oncue_groups g where g.queue = wanted.queue and g.ready_at is not null
                 order by g.ready_at limit 1) as first) end;

-- name: _happened
-- What was told of each group. One whose limit is reached is not ready because a job came: it would take the turn of
-- others. The end of any job that runs in it is told too. `limit 1` makes the planner look each group up: else it would read
-- all groups that there are. While its circuit breaker is open, a group has room for one.
    select t.queue, t.name, t.has_job, coalesce(known.is_known, false) as is_known,
           case when not t.has_job or most.jobs is null then false else (
               select count(*) from (select from oncue_jobs j
                                      where j.group_name is not null and j.state = 'running' and j.queue = t.queue
                                        and j.group_name = t.name limit (select most.jobs)) as live) >= most.jobs end as is_full
      from (select queue, name, bool_or(has_job) as has_job from told group by queue, name) as t
      left join lateral (select true as is_known, k.running_limit, k.trips from oncue_groups k
                          where k.queue = t.queue and k.name = t.name limit 1) as known on true
      left join oncue_queues q on q.name = t.queue
     cross join lateral (select case when known.trips > 0 then 1
                                     else coalesce(known.running_limit, q.group_limit) end as jobs) as most

-- name: _woken
-- A full group is written to as well: a claim that has not seen the new job may be forgetting the row at this moment.
    insert into oncue_groups as g (queue, name, ready_at, version)
    select queue, name, case when not is_full then $1::timestamptz end, 1 from happened
     where is_known or has_job
     order by queue, name
        on conflict (queue, name) do update
       set version = g.version + 1,
           ready_at = case when excluded.ready_at is null then g.ready_at
                           else least(coalesce(g.ready_at, 'infinity'), greatest($1, g.rate_at, g.paused_until)) end

-- name: wake_groups
-- What has happened in groups since the last look: those in which a job can be claimed get a row, if they have none.
with told as (
    delete from oncue_group_wakeups
     where id = any(array(select id from oncue_group_wakeups order by id limit (select $2::int) for update skip locked))
    returning queue, name, has_job
), happened as materialized (
    {_happened}
), woken as (
    {_woken}
)
select (select count(*) from told),
       (select min(first.ready_at) from unnest($3::text[]) as wanted (queue) cross join lateral (
            select g.ready_at from oncue_groups g where g.queue = wanted.queue and g.ready_at is not null
             order by g.ready_at limit 1) as first);

-- name: wake_groups_free
-- The same past the groups that another session holds: what was told of them goes to the end, as one line for each, so that
-- it is in nobody's way. The third column says how many these are.
with told as (
    delete from oncue_group_wakeups
     where id = any(array(select id from oncue_group_wakeups order by id limit (select $2::int) for update skip locked))
    returning queue, name, has_job
), seen as materialized (
    {_happened}
), known as materialized (
    select seen.*, mine.is_free from seen
      left join lateral (select true as is_free from oncue_groups g
                          where g.queue = seen.queue and g.name = seen.name limit 1
                            for no key update skip locked) as mine on true
), kept as (
    insert into oncue_group_wakeups (queue, name, has_job)
    select queue, name, has_job from known where is_known and is_free is null
    returning id
), happened as (
    select * from known where not is_known or is_free
), woken as (
    {_woken}
)
select (select count(*) from happened),
       (select min(first.ready_at) from unnest($3::text[]) as wanted (queue) cross join lateral (
            select g.ready_at from oncue_groups g where g.queue = wanted.queue and g.ready_at is not null
             order by g.ready_at limit 1) as first),
       (select count(*) from kept);

-- name: _held
-- The row of a group, locked, if it still has the version that the statement saw. Those that another claim holds are
-- passed over before the limit counts: nodes that claim at once take different groups.
select k.running_limit, k.rate_count, k.rate_seconds, k.paused_until, k.rate_at, k.trips from oncue_groups k
                     where k.queue = g.queue and k.name = g.name and k.version = g.version
                       for no key update skip locked

-- name: claim_grouped
-- The groups that are ready take turns: those that have waited longest are locked, what runs in them is counted, and each
-- gives its best. The count is of the statement's beginning and a row is locked later, so a group whose version has
-- changed in between is left for the next claim: nothing else could have started a job of it.
-- One job that is kept apart is taken by itself, if there is one in a group that is ready. It is one that no other session
-- holds, nor its group: else it would keep all others waiting.
-- `state || ''` is in the words of the index of groups, and of no other: with statistics from when few jobs waited, any
-- index seems as good to the planner, and it would read all that waits in the queue, for each group. For the same reason
-- jobs are asked for in the order of that index, even where only their number counts: if most of the table is one group,
-- the planner would look for those of the others by reading all of it.
with open (queue, room) as materialized (
    {_open}
), apart as materialized (
    select j.id, j.queue, j.group_name, j.isolation from oncue_jobs j join open on open.queue = j.queue
      join oncue_groups g on g.queue = j.queue and g.name = j.group_name and g.ready_at <= $5
     -- Nearly always there is none: then the groups that are ready are not gone through for it.
     where (select exists (select from oncue_jobs where state = 'queued' and isolation > 0 and group_name is not null))
       and j.state = 'queued' and j.isolation > 0 and j.group_name is not null and j.task = any($3::text[])
       and case when j.isolation = 2 then j.visible_at <= $8::timestamptz else $7::int > 0 end
       and coalesce(open.room, 1) > 0
     order by j.isolation desc, j.crashes, j.priority desc, j.order_at, j.id limit 1
       for update of j skip locked for no key update of g skip locked
), turn as materialized (
    (select apart.queue, g.name, g.ready_at, 1 as room, 1 as seen, held.*
       from apart join oncue_groups g on g.queue = apart.queue and g.name = apart.group_name
      cross join lateral ({_held}) as held)
    union all
    (select open.queue, next.name, next.ready_at, open.room, next.seen, next.running_limit, next.rate_count,
            next.rate_seconds, next.paused_until, next.rate_at, next.trips from open
      cross join lateral (
            select g.name, g.ready_at, head.seen, held.* from oncue_groups g
             cross join lateral (
                   select count(*) as seen from (
                          select from oncue_jobs j where j.state || '' = 'queued' and j.group_name is not null
                             and j.queue = g.queue and j.group_name = g.name and j.task = any($3::text[])
                           order by j.priority desc, j.order_at, j.id limit 3) as best) as head
             cross join lateral ({_held}) as held
             where g.queue = open.queue and g.ready_at is not null and g.ready_at <= $5
               -- One whose jobs are all for other nodes is theirs to look at.
               and (head.seen > 0
                    or (select true from oncue_jobs j where j.state || '' = 'queued' and j.group_name is not null
                           and j.queue = g.queue and j.group_name = g.name
                         order by j.priority desc, j.order_at, j.id limit 1) is null)
             order by g.ready_at, g.name
             -- Of many groups each gives two: what a turn costs is the group's row.
             limit (select least($4::int, open.room, greatest(64, $4::int / 2)))) as next
      where not exists (select from apart)
      order by next.ready_at, open.queue, next.name limit (select $4::int))
), held as materialized (
    select turn.queue, turn.name, turn.ready_at, turn.room, turn.seen, g.most, g.is_set, g.every, paced.burst,
           greatest(turn.rate_at, $5 - paced.burst) as rate_at, count(*) over (partition by turn.queue) as groups
      from turn
      left join oncue_queues q on q.name = turn.queue
     cross join lateral (
           select case when turn.trips > 0 then 1 else coalesce(turn.running_limit, q.group_limit) end as most,
                  case when turn.rate_count is null then q.group_rate_seconds::float8 / q.group_rate_count
                       else turn.rate_seconds::float8 / turn.rate_count end as every,
                  turn.running_limit is not null or turn.rate_count is not null or turn.trips > 0
                  or coalesce(turn.paused_until > $5, false) as is_set) as g
     -- A rate lets so much start at once as it would have let start in 40 ms.
     cross join lateral (select make_interval(secs => floor(0.04 / g.every) * g.every) as burst) as paced
), free as materialized (
    select held.*, busy.running,
           least(ceil(least($4::int, held.room) / held.groups::float8)::int, held.most - busy.running,
                 case when held.every is null then null when held.rate_at > $5 then 0
                      else floor(extract(epoch from $5 - held.rate_at) / held.every)::int + 1
                  end) as share
      from held
     cross join lateral (
           select case when held.most is null then 0 else (
                  select count(*) from (select from oncue_jobs j
                                         where j.state = 'running' and j.group_name is not null
                                           and j.queue = held.queue and j.group_name = held.name
                                         limit (select held.most)) as live) end as running
           offset 0) as busy  -- counted once, though it is asked for twice
), picked as materialized (
    select best.id, free.queue, free.name,
           row_number() over (partition by free.queue order by best.rank, free.ready_at, free.name) as place, free.room
      from free
     cross join lateral unnest(array(
           select j.id from oncue_jobs j
            where j.state || '' = 'queued' and j.group_name is not null and j.queue = free.queue and j.group_name = free.name
              and j.task = any($3::text[])
              and case when exists (select from apart) then j.id = (select id from apart) else j.isolation = 0 end
            order by j.priority desc, j.order_at, j.id limit (select greatest(free.share, 0)) for update skip locked))
           with ordinality as best (id, rank)
     order by best.rank, free.ready_at, free.queue, free.name limit (select $4::int)
), chosen as materialized (
    select id, queue, name from picked where place <= coalesce(room, $4::int)
), claimed as (
    update oncue_jobs
       set {_taken}
     where id = any(array(select id from chosen))
    returning {claim}, order_at
), left_behind as materialized (
    select free.queue, free.name, free.is_set, free.burst, free.running + took.jobs >= free.most as is_full,
           free.rate_at + make_interval(secs => free.every * took.jobs) as rate_at,
           -- What was taken is queued still, as this statement sees it.
           free.seen > took.jobs or (
           select count(*) from (select from oncue_jobs j
                                   where j.state || '' = 'queued' and j.group_name is not null and j.queue = free.queue
                                     and j.group_name = free.name
                                   order by j.priority desc, j.order_at, j.id limit (select took.jobs + 1)) as q
           ) > took.jobs as has_more
      from free
      left join (select queue, name, count(*)::int as jobs from chosen group by queue, name) as taken
             on taken.queue = free.queue and taken.name = free.name
     cross join lateral (select coalesce(taken.jobs, 0) as jobs) as took
), forgotten as (
    delete from oncue_groups g using left_behind l
     where g.queue = l.queue and g.name = l.name and not l.has_more and not l.is_set
       and (l.rate_at is null or l.rate_at <= $5 - l.burst)
), kept as (
    update oncue_groups g
       set version = version + 1, rate_at = l.rate_at,
           ready_at = case when l.has_more and l.is_full then null
                           when l.has_more then greatest($5, l.rate_at)
                           when not l.is_set then l.rate_at + l.burst end
      from left_behind l
     where g.queue = l.queue and g.name = l.name and (l.has_more or l.is_set or l.rate_at > $5 - l.burst)
)
select {claimed} from claimed order by priority desc, order_at, id;

-- name: groups
-- Those of which something waits are read off the head of each in the index: a step for each.
with recursive waiting (name) as (
    (select group_name from oncue_jobs where state || '' = 'queued' and group_name is not null and queue = $1
        and ($3::text is null or group_name > $3) order by group_name limit 1)
    union all
    select next.name from waiting cross join lateral (
           select j.group_name as name from oncue_jobs j where j.state || '' = 'queued' and j.group_name is not null
              and j.queue = $1 and j.group_name > waiting.name order by j.group_name limit 1) as next
), known (name) as (
    (select name from waiting limit (select $2::int))
    union
    (select name from oncue_groups where queue = $1 and ($3::text is null or name > $3) order by name
      limit (select $2::int))
    union
    select distinct group_name from oncue_jobs where state = 'running' and group_name is not null and queue = $1
       and ($3::text is null or group_name > $3)
)
{_group}
 order by k.name limit $2;

-- name: group
with known (name) as (select $2::text)
{_group};

-- name: _group
select k.name,
       (select count(*) from (select from oncue_jobs j where j.state || '' = 'queued' and j.group_name is not null
                                 and j.queue = $1 and j.group_name = k.name
                               order by j.priority desc, j.order_at, j.id limit 1000) as q),
       (select count(*) from oncue_jobs j where j.state = 'running' and j.group_name is not null
           and j.queue = $1 and j.group_name = k.name),
       case when g.trips > 0 then 1 else coalesce(g.running_limit, q.group_limit) end,
       case when g.rate_count is null then q.group_rate_count else g.rate_count end,
       case when g.rate_count is null then q.group_rate_seconds else g.rate_seconds end,
       g.rate_at, g.paused_until,
       g.running_limit is not null or g.rate_count is not null or g.paused_until is not null, coalesce(g.trips, 0)
  from known k
  left join oncue_groups g on g.queue = $1 and g.name = k.name
  left join oncue_queues q on q.name = $1

-- name: group_settings
select running_limit, rate_count, rate_seconds, paused_until, trips from oncue_groups where queue = $1 and name = $2;

-- name: trip
-- The circuit breaker of a group: $4 is the new number of its trips, $5 the instant up to which it holds its jobs back.
-- Closing ($4 is 0) ends the pause that the breaker had set ($7) and no other.
with changed as (
    update oncue_groups
       set trips = $4, version = version + 1, paused_until = {_tripped_until},
           ready_at = greatest($6::timestamptz, rate_at, {_tripped_until})
     where queue = $1 and name = $2 and trips = $3::int
    returning name
), made as (
    insert into oncue_groups (queue, name, trips, paused_until, ready_at, version)
    select $1, $2, $4, $5, greatest($6, $5), 1
     where $3 = 0 and $4 > 0 and not exists (select from oncue_groups where queue = $1 and name = $2)
        on conflict do nothing
    returning name
)
select name from changed union all select name from made;

-- name: tripped
select name, trips, paused_until from oncue_groups where queue = $1 and name = any($2::text[]) and trips > 0;

-- name: forget_tripped
-- A row that was written meanwhile has another version, and stays: a job may have come. One that comes later is told of, and
-- makes a row again.
delete from oncue_groups g
 using (select k.queue, k.name, k.version from oncue_groups k
         where (k.paused_until is not null or k.trips > 0) and k.trips > 0 and k.paused_until < $1
           and k.running_limit is null and k.rate_count is null
           and not exists (select from oncue_jobs j where j.state || '' = 'queued' and j.group_name is not null
                              and j.queue = k.queue and j.group_name = k.name)
           and not exists (select from oncue_jobs j where j.state = 'running' and j.group_name is not null
                              and j.queue = k.queue and j.group_name = k.name)
         limit $2::int) as old
 where g.queue = old.queue and g.name = old.name and g.version = old.version
returning 1;

-- name: held_back
select queue, name, trips, paused_until from oncue_groups
 where (paused_until is not null or trips > 0) and (paused_until > $1 or trips > 0)
 order by queue, name limit $2;

-- name: _tripped_until
case when $4::int > 0 then greatest(paused_until, $5::timestamptz)
                               when paused_until is distinct from $7::timestamptz then paused_until end

-- name: set_group
with changed as (
    update oncue_groups
       set running_limit = $13, rate_count = $14, rate_seconds = $15, paused_until = $16::timestamptz,
           rate_at = case when ($10::int, $11::int) is not distinct from ($14::int, $15::int) then rate_at end,
           ready_at = greatest($1, $16::timestamptz), version = version + 1
     where queue = $7 and name = $8 and running_limit is not distinct from $9 and rate_count is not distinct from $10
       and rate_seconds is not distinct from $11 and paused_until is not distinct from $12
    returning name
), made as (
    insert into oncue_groups (queue, name, running_limit, rate_count, rate_seconds, paused_until, ready_at, version)
    select $7, $8, $13::int, $14::int, $15::int, $16::timestamptz, greatest($1, $16::timestamptz), 1
     where num_nonnulls($9::int, $10::int, $11::int, $12::timestamptz) = 0
       and not exists (select from oncue_groups where queue = $7 and name = $8)
        on conflict do nothing
    returning name
), took as (
    select name from changed union all select name from made
), noted as ({_note})
select from took;
