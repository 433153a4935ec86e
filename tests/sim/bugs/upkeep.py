"""Services that look after things, and what they must not rely on."""

from __future__ import annotations

import contextlib
from datetime import datetime
from typing import Any

from oncue.clock import DatabaseClock
from oncue.engine.claimer import Claimer, Throughput
from oncue.engine.reconciler import Reconciler
from oncue.engine.rescue import Rescue
from oncue.errors import StoreError
from oncue.policy.lifecycle import lost
from oncue.sim import driver
from tests.sim.bugs import runs
from tests.sim.bugs.kit import Patch, bug

FINISHED = "state in ('succeeded', 'failed', 'cancelled', 'skipped')"
HOUR = 3600.0


@bug(
    "a recovery that swallows an error",
    seen_in="Solid Queue: a process was gone from the list while its claimed jobs were not given back "
    "(rails/solid_queue#542)",
    run=runs.endless,
    caught_by="once faults stop, everything ends in time",
)
def recovery_half_done(patch: Patch) -> None:
    async def tick(self: Rescue, now: datetime) -> datetime:
        for node in await self._store.nodes.expire(now) if self._steady(now) else ():
            with contextlib.suppress(StoreError):  # it will be fine
                held = await self._store.jobs.held(node.id)
                claims = await self._store.jobs.running([holding.id for holding in held])
                await self._take_away("rescue", claims, lost, now)
        return now + self._interval

    patch.replace(Rescue, "tick", tick)


@bug(
    "a wake-up by notification only",
    seen_in="durable: a job that became ready while the listener reconnected was noticed when the next one came, "
    "if ever (iopsystems/durable#66)",
    run=runs.lost_hints,
    caught_by="once faults stop, everything ends in time",
)
def no_polling(patch: Patch) -> None:
    def deaf(self: Claimer, *rest: Any, poll: float, **kept: Any) -> None:
        make(self, *rest, poll=HOUR, **kept)

    make = patch.replace(Claimer, "__init__", deaf)


@bug(
    "the host's clock",
    seen_in="db-scheduler: heartbeats are judged by the clock of whoever looks, and clocks differ "
    "(kagkarlsson/db-scheduler#433)",
    run=runs.schedules,
    caught_by=(
        "no slot is decided early",
        "a job is claimed only when it waits",
        "epochs only grow, and each has one holder",
        "only a lost node's jobs are rescued",
    ),
)
def own_clock(patch: Patch) -> None:
    def deaf(self: DatabaseClock, told: datetime, sent: float) -> None:
        return None

    patch.replace(DatabaseClock, "learn", deaf)


@bug(
    "a service that its first error ends",
    seen_in="Sidekiq: the poller's thread died of a lost connection, and nothing was scheduled until the restart "
    "(sidekiq/sidekiq#309)",
    run=runs.bad_lines,
    caught_by=("once faults stop, everything ends in time", "once faults stop, somebody leads and no slot waits"),
)
def no_second_try(patch: Patch) -> None:
    """The driver of the simulator does what the runner does after an error: it waits, and tries again."""
    patch.replace(driver, "pause_after", lambda failures: 24 * HOUR)


@bug(
    "pruning by age alone",
    seen_in="Armada: whatever was older than the limit was deleted, also what was still running "
    "(armadaproject/armada#3608)",
    run=runs.keeping_little,
    caught_by=("what was written is there, or was pruned", "nothing acknowledged is lost"),
)
def pruned_unfinished(patch: Patch) -> None:
    patch.sql("pick_old", f"{FINISHED} and finished_at < :before", "created_at < :before")
    patch.sql("prune", f"and {FINISHED}", "")


@bug(
    "a rescue with one limit for everybody",
    seen_in="River: jobs that were declared to have no time limit were rescued while they ran (riverqueue/river#1287)",
    run=runs.sleepers,
    caught_by="nothing is cut off before its time",
)
def rescued_by_the_clock(patch: Patch) -> None:
    patch.sql("overdue", "run_until < :before", "claimed_at < :before - 2000000")


@bug(
    "a rescue that takes its time",
    seen_in="River: what a client held that crashed is running until a fixed time is over, an hour by default "
    "(riverqueue/river#773)",
    run=runs.endless,
    caught_by="what nobody runs is taken over in time",
)
def rescued_late(patch: Patch) -> None:
    patch.sql("expire_nodes", "expires_at <= :now", "expires_at <= :now - 30000000")
    patch.sql("orphaned", "n.expires_at > :now", "n.expires_at > :now - 30000000")


@bug(
    "a worker that hoards",
    seen_in="Celery: workers held tasks that they had no process for, while others were idle "
    "(OasisLMF/OasisPlatform#436)",
    run=runs.crowded,
    caught_by="a claim is begun in time",
)
def hoarded(patch: Patch) -> None:
    def patient(self: Reconciler, *rest: Any, patience: float, **kept: Any) -> None:
        make(self, *rest, patience=HOUR, **kept)

    make = patch.replace(Reconciler, "__init__", patient)
    patch.replace(Throughput, "target", lambda self, ended, now, seats=0: 50)


@bug(
    "retention from the day it was made",
    seen_in="clean-ups that go by when a job was made: what had waited for long is gone as soon as it has ended",
    run=runs.keeping_little,
    caught_by=("what was written is there, or was pruned", "nothing acknowledged is lost"),
)
def pruned_by_age(patch: Patch) -> None:
    patch.sql("pick_old", "finished_at < :before", "created_at < :before")
