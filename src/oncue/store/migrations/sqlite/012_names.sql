-- The name of a node is leased with the node's own lease: of the nodes that are not declared lost, one has it.
alter table oncue_nodes add column named integer not null default 0 check (named in (0, 1));
create unique index oncue_nodes_named on oncue_nodes (name) where named = true and lost_at is null;
