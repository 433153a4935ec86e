-- The row of a job is written three times, when it is made, claimed and settled, and its id enters this index each time.
-- In pages with room for that no entry waits for PostgreSQL to look for dead ones, or to split the page.
alter index oncue_jobs_pkey set (fillfactor = 45);
