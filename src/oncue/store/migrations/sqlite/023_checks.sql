-- Nothing to do here: SQLite's checks cost next to nothing. Both dialects count the same steps.
select 1;
