-- Schedules, for PostgreSQL.

-- name: schedule
select {schedule} from oncue_schedules where name = $1;

-- name: schedule_by_id
select {schedule} from oncue_schedules where id = $1;

-- name: schedules
select {schedule} from oncue_schedules where name > $1 and deleted_at is null order by name limit $2;

-- name: coming
select {schedule} from oncue_schedules where next_run_at is not null and (next_run_at, id) > ($1, $2::bigint)
 order by next_run_at, id limit $3;

-- name: declared
select {schedule} from oncue_schedules where declared_by is not null and deleted_at is null order by name;

-- name: schedules_delivering
-- The subquery keeps the planner from reading all schedules in the order of their names.
select {schedule} from oncue_schedules
 where id = any(array(select id from oncue_schedules where group_name = $1 and task = 'oncue.deliver'))
   and name > $2 and deleted_at is null
 order by name limit $3;

-- name: _revised
revised as (
    insert into oncue_revisions ({revision})
    select took.id, $40, $41, $42, $43, $44, $45, $46, $47, $48, $49, $50, $51, $52, $53, $54
      from took where $40::integer is not null
), given_up as (
    insert into oncue_slots (schedule_id, scheduled_for, until, slots, verdict, reason, revision, decided_at)
    select took.id, d.scheduled_for, d.until, d.slots, d.verdict, d.reason, $55, $1
      from took
     cross join unnest($56::timestamptz[], $57::timestamptz[], $58::bigint[], $59::text[], $60::text[])
                as d (scheduled_for, until, slots, verdict, reason)
        on conflict do nothing
), noted as ({_note})
select id from took

-- name: create_schedule
-- A schedule, its revision, the slots that it gives up on and its line of the audit log, in one statement.
with took as (
    insert into oncue_schedules ({schedule_fields})
    values ($7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28,
            $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39)
        on conflict (name) do nothing returning id
), {_revised};

-- name: change_schedule
with took as (
    update oncue_schedules
       set ({schedule_fields}) = (
               $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27,
               $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39)
     where id = $62 and version = $61 returning id
), {_revised};

-- name: revisions
select {revision} from (
    select * from oncue_revisions where schedule_id = $1 and ($2::bigint is null or revision < $2::bigint)
     order by revision desc limit $3) as last
 order by revision;
