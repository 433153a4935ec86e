-- The clock, for SQLite: a high-water mark, so that it never runs backwards.

-- name: raise_high_water
update oncue_clock set high_water = max(high_water, :now);

-- name: high_water
select high_water from oncue_clock;
