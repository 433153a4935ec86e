-- A beat that was given up may reach the database after a later one. Its number tells, where a clock could not.
alter table oncue_nodes add column beat_no integer not null default 0;
