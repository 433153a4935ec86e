"""Looks after cluster jobs on the leader: writes their parts, waits for a quorum of them, and lets the leader act.

A cluster job waits in the database, addressed to the cluster, so that no node claims it. `policy/quorum.py` says what
becomes of it, from nothing but what the database has of its parts: a new leader goes on where the old one stopped.

    no parts yet           they are written, one for each active node
    a quorum, or time-out  the job is addressed to the leader, which claims it and runs its action
    no quorum can be       the job ends here

Each write holds only while this node leads under its epoch, and while the job still waits.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from oncue.engine.leadership import Leadership
from oncue.engine.service import Signal
from oncue.model import ClusterJob, Node
from oncue.policy import quorum
from oncue.policy.quorum import Lead, Proceed, Wait
from oncue.store.contract import Store
from oncue.telemetry import Telemetry

T = TypeVar("T")

LIMIT = 500
WRITES_AT_ONCE = 25
"""After so many writes it looks again. Many jobs may wait after a time without a leader, on a database that is slow: a
write must not be told a time that is long over, and what has its quorum meanwhile comes before what has no parts."""
LOOKS_APART = timedelta(seconds=0.1)
"""How often to look for new cluster jobs while none waits: on a busy system a hint comes a hundred times a second."""

_log = logging.getLogger("oncue.cluster")


class Coordinator:
    name = "coordinator"

    def __init__(self, store: Store, node: Node, leadership: Leadership, telemetry: Telemetry, *, poll: float) -> None:
        self.signal = Signal()
        self.released = Signal()
        """A leader action may begin, or parts were written."""
        self._store = store
        self._node = node
        self._leadership = leadership
        self._telemetry = telemetry
        self._poll = timedelta(seconds=poll)
        self._gap = min(LOOKS_APART, self._poll)
        self._looked_at: datetime | None = None
        """When it last looked, if nothing waited then."""
        self._after = 0
        """Where the next step goes on: of very many that wait, one step looks at a page."""
        self._nearest: datetime | None = None
        """The first time-out of those that the pages so far have shown."""
        leadership.followers.append(self.signal)

    async def tick(self, now: datetime) -> datetime:
        lead, epoch = self._lead, self._leadership.epoch
        if lead is None or epoch is None:
            return now + self._poll
        looked_at, self._looked_at = self._looked_at, None
        if looked_at is not None and looked_at < now < looked_at + self._gap:
            self._looked_at = looked_at
            return looked_at + self._gap
        waiting = await self._store.cluster.undecided(now, LIMIT, self._after)
        if not waiting and not self._after:
            self._looked_at = now
        decided = self._decided([cluster for cluster in waiting if cluster.spread_at is not None], lead, now)
        ended = await self._written(decided, lambda one: self._end_waiting(*one, lead, epoch, now), WRITES_AT_ONCE)
        new = [cluster for cluster in waiting if cluster.spread_at is None]
        spread = await self._written(new, lambda cluster: self._spread(cluster, epoch, now), WRITES_AT_ONCE - ended)
        if ended + spread == WRITES_AT_ONCE < len(decided) + len(new):
            return now  # this page once more
        is_over = len(waiting) < LIMIT
        self._after = 0 if is_over else waiting[-1].id
        if spread or not is_over:
            return now
        nearest, self._nearest = self._nearest, None
        return now + self._poll if nearest is None else min(max(nearest, now), now + self._poll)

    async def _written(self, wanted: Sequence[T], write: Callable[[T], Awaitable[bool]], most: int) -> int:
        """How many were written. One that could not be, since another session holds its row, is in nobody's way."""
        count = 0
        for one in wanted:
            if count >= most:
                break
            count += await write(one)
        return count

    def _decided(
        self, waiting: Sequence[ClusterJob], lead: Lead, now: datetime
    ) -> list[tuple[ClusterJob, Proceed | quorum.End]]:
        """Those of these jobs that wait no more, with what was decided; the time-outs of the others are noted."""
        decided: list[tuple[ClusterJob, Proceed | quorum.End]] = []
        for cluster in waiting:
            decision = quorum.decide(cluster, lead, now)
            if not isinstance(decision, Wait):
                decided.append((cluster, decision))
            elif decision.until is not None:
                self._nearest = min(self._nearest or decision.until, decision.until)
        return decided

    async def quiet_until(self, now: datetime, store: Store) -> datetime | None:
        """Now, if something can be decided; the nearest time-out, if nothing else happens before."""
        lead = self._lead
        if lead is None:
            return None
        nearest: datetime | None = None
        for cluster in await store.cluster.undecided(now, LIMIT):
            if cluster.spread_at is None:
                return now
            decision = quorum.decide(cluster, lead, now)
            if not isinstance(decision, Wait):
                return now
            if decision.until is not None:
                nearest = decision.until if nearest is None else min(nearest, decision.until)
        return nearest

    @property
    def _lead(self) -> Lead | None:
        held = self._leadership.held
        if held is None or self._leadership.epoch is None:
            return None
        return Lead(self._node.id, held.holder_name, held.acquired_at)

    async def _spread(self, cluster: ClusterJob, epoch: int, now: datetime) -> bool:
        """Write the parts of a new cluster job. Whether that was done here."""
        parts = quorum.terms_of(cluster).parts
        nodes = await self._store.cluster.spread(cluster.id, parts, now, node=self._node.id, epoch=epoch)
        if nodes is None:
            return False
        self.tell_spread(cluster.id, cluster.job.task, nodes)
        self.released.set()
        return True

    def tell_spread(self, job_id: int, task: str, nodes: int) -> None:
        _log.info("cluster job %d (%s) has a part for each of %d nodes", job_id, task, nodes)
        self._telemetry.emit("cluster.spread", {"parts": nodes}, task=task, job_id=job_id)

    async def _end_waiting(
        self, cluster: ClusterJob, decision: Proceed | quorum.End, lead: Lead, epoch: int, now: datetime
    ) -> bool:
        """Let the leader act, or end the job here. Whether that was done: another node may have been quicker."""
        if isinstance(decision, Proceed) and quorum.terms_of(cluster).has_action:
            took = await self._store.cluster.release(cluster.id, decision.quorum, now, node=self._node.id, epoch=epoch)
            self.released.set()
        else:
            change = quorum.as_change(cluster, decision, lead, epoch, now)
            (written,) = await self._store.jobs.apply([change], now, past_locks=True)
            took = written is True
        if took:
            self._tell(cluster, decision, now)
        return took

    def _tell(self, cluster: ClusterJob, decision: Proceed | quorum.End, now: datetime) -> None:
        waited = (now - (cluster.spread_at or now)).total_seconds()
        goes_on = "decided" if quorum.terms_of(cluster).has_action else "succeeded"
        what = decision.state if isinstance(decision, quorum.End) else goes_on
        lost = quorum.statuses_of(cluster).count("lost")
        has_quorum = decision.quorum if isinstance(decision, Proceed) else False
        if isinstance(decision, Proceed) and not decision.quorum:
            _log.warning(
                "cluster job %d (%s) goes on without a quorum: %s",
                cluster.id,
                cluster.job.task,
                quorum.missing(cluster),
            )
        elif isinstance(decision, quorum.End):
            level = logging.WARNING if decision.state == "failed" else logging.INFO
            why = decision.error or decision.reason
            _log.log(level, "cluster job %d (%s) is %s: %s", cluster.id, cluster.job.task, decision.state, why)
        else:
            _log.info("cluster job %d (%s) has its quorum after %.3f s", cluster.id, cluster.job.task, waited)
        self._telemetry.emit(
            "cluster.decided", {"duration": waited, "lost": lost}, task=cluster.job.task, job_id=cluster.id, what=what,
            quorum=has_quorum,
        )  # fmt: skip
