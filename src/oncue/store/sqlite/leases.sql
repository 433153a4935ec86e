-- Leases, for SQLite.

-- name: acquire
insert into oncue_leases (name, holder, holder_name, epoch, acquired_at, renewed_at, expires_at)
select :name, :holder, :holder_name, 1, :now, :now, :expires_at
 where not exists (select 1 from oncue_leases where name = :respect and holder <> :holder and expires_at > :now)
    on conflict (name) do update
   set holder = excluded.holder, holder_name = excluded.holder_name, epoch = epoch + 1,
       acquired_at = excluded.acquired_at, renewed_at = excluded.renewed_at, expires_at = excluded.expires_at
 where expires_at <= :now;

-- name: renew
-- One that was given up may come after a later one: a lease is never made shorter by renewing it.
update oncue_leases set renewed_at = max(renewed_at, :now), expires_at = max(expires_at, :expires_at)
 where name = :name and holder = :holder and epoch = :epoch and expires_at > :now
   and not exists (select 1 from oncue_leases as other
                    where other.name = :respect and other.holder <> :holder and other.expires_at > :now);

-- name: release_lease
update oncue_leases set renewed_at = :now, expires_at = min(expires_at, :now)
 where name = :name and holder = :holder and epoch = :epoch;

-- name: lease
select {lease} from oncue_leases where name = :name;

-- name: free_leases
-- Nor can it go on with what it held alone: its epoch is over.
update oncue_leases set expires_at = min(expires_at, :now), epoch = epoch + 1 where holder = :node;
