-- Whose tables these are: one row, once the application's first worker has started.
create table oncue_application (
    id    integer primary key check (id = 1),
    name  text not null,
    -- Whether it was named, or is called after the place of its code.
    given boolean not null,
    since timestamptz not null
);
