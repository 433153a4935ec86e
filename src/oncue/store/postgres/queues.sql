-- Queues, for PostgreSQL.

-- name: pause
with took as (
    insert into oncue_queues (name, paused_at) values ($7, $1)
        on conflict (name) do update set paused_at = excluded.paused_at where oncue_queues.paused_at is null
    returning name
), noted as ({_note})
select from took;

-- name: resume
with took as (
    update oncue_queues set paused_at = null where name = $7 and paused_at is not null returning name
), noted as ({_note})
select from took;

-- name: queues
select name, paused_at, {limits} from oncue_queues;

-- name: limits
select {limits} from oncue_queues where name = $1;

-- name: set_limits
with took as (
    insert into oncue_queues as q (name, {limits}, version) values ($7, $15, $16, $17, $18, $19, $20, $21, 1)
        on conflict (name) do update
       set global_limit = excluded.global_limit, node_limit = excluded.node_limit, group_limit = excluded.group_limit,
           rate_count = excluded.rate_count, rate_seconds = excluded.rate_seconds,
           rate_at = case when ($11::int, $12::int) is not distinct from ($18::int, $19::int) then q.rate_at end,
           group_rate_count = excluded.group_rate_count, group_rate_seconds = excluded.group_rate_seconds,
           version = q.version + 1
     where (q.global_limit, q.node_limit, q.group_limit, q.rate_count, q.rate_seconds, q.group_rate_count,
            q.group_rate_seconds) is not distinct from ($8::int, $9::int, $10::int, $11::int, $12::int, $13::int, $14::int)
    returning name
), held as materialized (
    -- In the order in which looks wake them: else the two would wait for each other.
    select g.queue, g.name from oncue_groups g
     where g.queue in (select name from took) and ($10::int, $13::int, $14::int) is distinct from ($17::int, $20::int, $21::int)
     order by g.queue, g.name for no key update
), woken as (
    -- What has waited for room, or for a rate that holds no more, is looked at again.
    update oncue_groups g
       set version = g.version + 1, ready_at = greatest($1, g.paused_until),
           rate_at = case when ($13::int, $14::int) is distinct from ($20::int, $21::int) and g.rate_count is null
                          then null else g.rate_at end
      from held where g.queue = held.queue and g.name = held.name
), noted as ({_note})
select from took;

-- name: default_limits
insert into oncue_queues (name, {limits}, version) values ($1, $2, $3, $4, $5, $6, $7, $8, 1) on conflict do nothing
returning name;

-- name: seating
select q.name, {limits}, q.version,
       -- Each part in the words of its index: asked for as one they would be looked for in the whole table.
       exists (select from oncue_jobs j
                where {claimable} and j.queue = q.name and j.task = any($2::text[]))
       or exists (select from oncue_jobs j
                   where j.state = 'queued' and j.isolation > 0 and j.queue = q.name and j.task = any($2::text[]))
       or exists (select from oncue_jobs j
                   where {addressed} and j.address = any($3::text[]) and j.queue = q.name and j.task = any($2::text[]))
       or exists (select from oncue_groups g where g.queue = q.name and g.ready_at is not null
                       and g.ready_at < timestamptz '9999-01-01 00:00:00+00'),
       s.node_id, s.seats, s.wanted
  from oncue_queues q
  left join (oncue_seats s join oncue_nodes n on n.id = s.node_id and n.lost_at is null) on s.queue = q.name
 where q.name = any($1::text[]) and (q.global_limit is not null or q.node_limit is not null or q.rate_count is not null)
 order by q.name, s.node_id;

-- name: take_seats
-- A node that was declared lost takes no seats: the other nodes would not count them.
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

-- name: take_turns
-- A rate lets so much start at once as it would have let start in 40 ms. A row that another session holds gives none.
with held as materialized (
    select name, rate_at, rate_seconds::float8 / rate_count as every from oncue_queues
     where name = $1 and rate_count is not null
       and case when $5::bool
                then exists (select from oncue_groups g
                              where g.queue = $1 and g.ready_at is not null and g.ready_at <= $4::timestamptz)
                else exists (select from oncue_jobs j where {claimable} and j.queue = $1 and j.task = any($2::text[]))
                     or exists (select from oncue_jobs j
                                 where j.state = 'queued' and j.isolation > 0 and j.group_name is null
                                   and j.queue = $1 and j.task = any($2::text[]))
                     or exists (select from oncue_jobs j
                                 where {addressed} and j.address = any($6::text[]) and j.queue = $1
                                   and j.task = any($2::text[])) end
       for no key update skip locked
), paced as (
    select name, every, greatest(rate_at, $4::timestamptz - make_interval(secs => floor(0.04 / every) * every)) as used_until from held
), granted as (
    select name, every, used_until,
           case when used_until > $4 then 0
                else least($3::int, floor(extract(epoch from $4 - used_until) / every)::int + 1) end as turns
      from paced
), moved as (
    update oncue_queues q set rate_at = used_until + make_interval(secs => every * turns)
      from granted g where q.name = g.name and turns > 0
)
select turns, used_until + make_interval(secs => every * turns) from granted;

-- name: return_turns
-- Not if the rate has gone on by more than a turn and a burst since.
update oncue_queues set rate_at = rate_at - make_interval(secs => $2::int * rate_seconds::float8 / rate_count)
 where name = $1 and rate_count is not null
   and rate_at <= $3::timestamptz + make_interval(
           secs => rate_seconds::float8 / rate_count * (1 + floor(0.04 * rate_count / rate_seconds)));

-- name: rated_until
select rate_at from oncue_queues where name = $1 and rate_count is not null;
