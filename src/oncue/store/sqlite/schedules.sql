-- Schedules, for SQLite.

-- name: schedule
select {schedule} from oncue_schedules where name = :name;

-- name: schedule_by_id
select {schedule} from oncue_schedules where id = :schedule_id;

-- name: schedules
select {schedule} from oncue_schedules where name > :after and deleted_at is null order by name limit :limit;

-- name: coming
select {schedule} from oncue_schedules where next_run_at is not null and (next_run_at, id) > (:instant, :number)
 order by next_run_at, id limit :limit;

-- name: declared
select {schedule} from oncue_schedules where declared_by is not null and deleted_at is null order by name;

-- name: schedules_delivering
select {schedule} from oncue_schedules indexed by oncue_schedules_group
 where group_name = :webhook and task = 'oncue.deliver' and name > :after and deleted_at is null
 order by name limit :limit;

-- name: create_schedule
insert into oncue_schedules ({schedule_fields})
values (:name, :description, :task, :args, :queue, :priority, :expression, :tz, :dst, :missed, :grace, :max_instances,
        :enabled, :options, :max_retries, :max_runtime, :deadline, :declared_by, :reason, :revision, :started_at,
        :version, :cursor, :next_run_at, :last_run_at, :horizon, :created_by, :created_at, :updated_at, :deleted_at, :key,
        :group, :address)
    on conflict (name) do nothing;

-- name: change_schedule
update oncue_schedules
   set ({schedule_fields}) =
       (:name, :description, :task, :args, :queue, :priority, :expression, :tz, :dst, :missed, :grace, :max_instances,
        :enabled, :options, :max_retries, :max_runtime, :deadline, :declared_by, :reason, :revision, :started_at,
        :version, :cursor, :next_run_at, :last_run_at, :horizon, :created_by, :created_at, :updated_at, :deleted_at, :key,
        :group, :address)
 where id = :id and version = :expected;

-- name: add_revision
insert into oncue_revisions ({revision})
select id, :revision, :started_at, :task, :args, :queue, :priority, :expression, :tz, :dst, :missed, :grace,
       :max_instances, :enabled, :reason, :changed_by
  from oncue_schedules where name = :name;

-- name: revisions
select {revision} from (
    select * from oncue_revisions where schedule_id = :schedule_id and (:before is null or revision < :before)
     order by revision desc limit :limit)
 order by revision;

-- name: give_up_slots
insert into oncue_slots (schedule_id, scheduled_for, until, slots, verdict, reason, revision, decided_at)
select s.id, d.value ->> 0, d.value ->> 5, d.value ->> 6, d.value ->> 1, d.value ->> 2, :revision, :now
  from json_each(:decided) as d, oncue_schedules s where s.name = :name
    on conflict do nothing;
