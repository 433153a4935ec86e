"""Who a process is, whether it lives, and who leads."""

from __future__ import annotations

import sqlite3
from datetime import datetime, timedelta
from random import Random
from uuid import NAMESPACE_DNS, UUID, uuid5

from oncue import identity
from oncue.engine.exclusivity import Exclusivity
from oncue.engine.leadership import Leadership
from oncue.engine.membership import Membership
from oncue.engine.naming import Naming
from oncue.engine.node import WorkerNode
from oncue.engine.recovery import Recovery
from oncue.errors import StoreError
from oncue.model import Node
from oncue.store.sqlite import values
from oncue.store.sqlite.nodes import SqliteNodes
from tests.sim.bugs import runs
from tests.sim.bugs.kit import Patch, bug


@bug(
    "a node's lease that is renewed by name",
    seen_in="apalis: a worker that died was not given up while another of its name sent heartbeats "
    "(apalis-dev/apalis#507)",
    run=runs.endless,
    caught_by="once faults stop, everything ends in time",
)
def node_lease_by_name(patch: Patch) -> None:
    namesakes = "where name = (select name from oncue_nodes where id = :node)"
    patch.sql("beat", "where id = :node", namesakes)

    async def beat(self: SqliteNodes, node: UUID, now: datetime, expires_at: datetime) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            parameters = {"node": str(node), "now": values.micros(now), "expires_at": values.micros(expires_at)}
            connection.execute(self._db.sql["raise_high_water"], {"now": values.micros(now)})
            return connection.execute(self._db.sql["beat"], parameters).rowcount > 0

        return await self._db.write(work)

    patch.replace(SqliteNodes, "beat", beat)


@bug(
    "a recovery that trusts a name",
    seen_in="apalis: a worker that started took over what another of its name was doing (apalis-dev/apalis#507)",
    run=runs.namesakes,
    caught_by=("only the dead are declared lost", "only a lost node's jobs are rescued"),
)
def recovery_by_name(patch: Patch) -> None:
    async def surely(self: Recovery, predecessor: Node, now: datetime) -> bool:
        return True

    patch.replace(Recovery, "_is_dead", surely)


@bug(
    "a name that two workers have",
    seen_in="Celery: a message to a node was answered by every worker that had been given its name "
    "(celery/celery#2938)",
    run=runs.namesakes,
    caught_by="two living nodes never have the same name",
)
def a_name_for_two(patch: Patch) -> None:
    patch.sql("take_name", "and named = true and lost_at is null)", "and false)")
    patch.schema("create unique index oncue_nodes_named", "create index oncue_nodes_named")


@bug(
    "a worker that waits for its name for ever",
    seen_in="Celery: a worker whose name another one had started and got no jobs (codalab/codalab-competitions#2805)",
    run=runs.replicas,
    caught_by="once faults stop, every node has a name",
)
def waiting_for_a_name(patch: Patch) -> None:
    async def never(self: Naming, now: datetime) -> None:
        return None

    patch.replace(Naming, "_take_another", never)


@bug(
    "the leader's lease that is renewed by name only",
    seen_in="Oban: a node that had lost the lead renewed the new leader's lease, and cron fired twice for 19 days "
    "(oban-bg/oban#1488)",
    run=runs.sleeping_leaders,
    caught_by="epochs only grow, and each has one holder",
)
def leader_lease_by_name(patch: Patch) -> None:
    patch.sql("renew", "and holder = :holder and epoch = :epoch and expires_at > :now", "")


@bug(
    "the host's name as identity",
    seen_in="Oban for Python: the workers of one machine took each other for themselves (oban-bg/oban-py#32)",
    run=runs.work,
    caught_by=(
        "attempts of one job never overlap under valid leases",
        "a job is claimed only when it waits",
        "only a lost node's jobs are rescued",
    ),
)
def host_name_as_identity(patch: Patch) -> None:
    def of_this_host(dice: Random) -> UUID:
        return uuid5(NAMESPACE_DNS, "host")

    patch.replace(identity, "new_node_id", of_this_host)


@bug(
    "a zombie's beat that brings its lost lease back",
    seen_in="leases as keys with a time to live: the late heartbeat sets the key anew, and nobody tells the worker "
    "that it was given up",
    run=runs.sleepers,
    caught_by=("a lease that was lost is not renewed", "a limited queue keeps its limit"),
)
def beat_of_a_zombie(patch: Patch) -> None:
    patch.sql("beat", "set beat_at = :now", "set lost_at = null, beat_at = :now")
    patch.sql("beat", "and lost_at is null", "")


@bug(
    "an error that is taken for the lock",
    seen_in="RedBeat: an error while it asked for the lock was swallowed, and the one that stood by set to work "
    "(sibson/redbeat#208)",
    run=runs.exclusives,
    caught_by="nobody works beside an exclusive node",
)
def lock_by_error(patch: Patch) -> None:
    patch.sql("best", "and holder <> :node and expires_at > :now", "and false")

    async def careless(self: Exclusivity, now: datetime) -> datetime:
        try:
            return await ask(self, now)
        except StoreError:
            self.until = now + timedelta(days=1)
            return self.until

    ask = patch.replace(Exclusivity, "_take", careless)


@bug(
    "one that works on after its lock",
    seen_in="RedBeat: the first instance believed that it still had the lock when the other one had begun to work "
    "(sibson/redbeat#83)",
    run=runs.exclusives,
    caught_by="nobody works beside an exclusive node",
)
def lock_for_ever(patch: Patch) -> None:
    patch.replace(WorkerNode, "may_start", lambda self: True)
    patch.replace(WorkerNode, "abandon", lambda self, why: None)


@bug(
    "a lead that never stays",
    seen_in="Pulsar: brokers took the lead from each other in an endless loop (apache/pulsar#10522)",
    run=runs.work,
    caught_by="once faults stop, one leader stays",
)
def renewed_in_vain(patch: Patch) -> None:
    patch.sql("renew", "expires_at = max(expires_at, :expires_at)", "expires_at = expires_at")


@bug(
    "a leader that goes on after its lease",
    seen_in="Oban: a node that could not hold an election kept what it believed of itself (oban-bg/oban#1488)",
    run=runs.sleeping_leaders,
    caught_by=("only the current leader decides", "a slot is decided once"),
)
def leader_for_ever(patch: Patch) -> None:
    patch.replace(Leadership, "epoch", property(lambda self: None if self.held is None else self.held.epoch))
    patch.sql("leads", "and holder = :node and epoch = :epoch", "")


@bug(
    "a late beat that shortens the lease",
    seen_in="oncue itself: a beat that its node had given up arrived after the next one, and a living node was lost",
    run=runs.held_up,
    caught_by="a lease lasts as long as its holder was told",
)
def beat_out_of_turn(patch: Patch) -> None:
    patch.sql("beat", "and beat_no <= :number", "")


@bug(
    "seats from before a lost lease",
    seen_in="oncue itself: a node that had joined anew went on with the seats that it had read of before it was lost",
    run=runs.limited_sleepers,
    caught_by="a limited queue keeps its limit",
)
def one_life_only(patch: Patch) -> None:
    patch.replace(Membership, "life", property(lambda self: 1 if self.is_alive() else None))
    patch.replace(Membership, "lives", property(lambda self: 1))
