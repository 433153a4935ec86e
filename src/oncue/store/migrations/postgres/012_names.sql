-- The name of a node is leased with the node's own lease: of the nodes that are not declared lost, one has it.
alter table oncue_nodes add column named boolean not null default false;
create unique index oncue_nodes_named on oncue_nodes (name) where named and lost_at is null;
