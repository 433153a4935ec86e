-- Nothing to do here: SQLite writes a row where it is. Both dialects count the same steps.
select 1;
