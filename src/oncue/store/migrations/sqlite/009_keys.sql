-- The key that the jobs of a schedule share, if its task declares one: resolved where the code is, when the schedule is
-- made, edited or declared.
alter table oncue_schedules add column key text;
