-- Leases, for PostgreSQL.

-- name: acquire
insert into oncue_leases as held (name, holder, holder_name, epoch, acquired_at, renewed_at, expires_at)
select $1, $2, $3, 1, $4, $4, $5
 where not exists (select from oncue_leases where name = $6 and holder <> $2 and expires_at > $4)
    on conflict (name) do update
   set holder = excluded.holder, holder_name = excluded.holder_name, epoch = held.epoch + 1,
       acquired_at = excluded.acquired_at, renewed_at = excluded.renewed_at, expires_at = excluded.expires_at
 where held.expires_at <= $4
returning {lease};

-- name: renew
-- One that was given up may come after a later one: a lease is never made shorter by renewing it.
update oncue_leases set renewed_at = greatest(renewed_at, $4), expires_at = greatest(expires_at, $5)
 where name = $1 and holder = $2 and epoch = $3 and expires_at > $4
   and not exists (select from oncue_leases as other
                    where other.name = $6 and other.holder <> $2 and other.expires_at > $4)
returning name;

-- name: release_lease
update oncue_leases set renewed_at = $4, expires_at = least(expires_at, $4)
 where name = $1 and holder = $2 and epoch = $3;

-- name: lease
select {lease} from oncue_leases where name = $1;
