"""What must hold of every history, each promise by name. Pure: events and final rows in, violations out.

The simulator, tests with real processes and audits use this one module. Two things a history may lack:

    complete   every event is there; a killed process takes some with it
    ordered    the list is in the order of the database's commits; merged files of several processes are only nearly so

Promises that need them are checked only where they hold. The order of a job's claims is always known: by claim_no.

Where to read what: a history is sorted once (`gathering`) into stories (`evidence`). Then each promise looks at them
by itself, in the chapters `jobs`, `attempts`, `endings`, `suspicion`, `delivery`, `queues`, `groups`, `addresses`,
`deliveries`, `breakers`, `cancels`, `operations`, `slots`, `leaders`, `names`, `counts`, `peace`, `expiry`,
`windows` and `cluster`. The work grows with the length of the history, and not faster: a job's story is short, and no
promise searches through all events for what belongs to one.
"""

from __future__ import annotations

from collections.abc import Sequence

from oncue.sim.checker import (
    addresses,
    attempts,
    breakers,
    cancels,
    cluster,
    counts,
    deliveries,
    delivery,
    endings,
    expiry,
    groups,
    jobs,
    leaders,
    names,
    operations,
    peace,
    queues,
    slots,
    suspicion,
    windows,
)
from oncue.sim.checker.evidence import Books, Final, WindowBooks
from oncue.sim.checker.gathering import gather
from oncue.sim.checker.promises import DECLARED, Promise, Violation, report
from oncue.sim.history import Event

__all__ = ["CHAPTERS", "PROMISES", "Books", "Final", "Violation", "WindowBooks", "check", "report"]

CHAPTERS = (
    jobs,
    attempts,
    endings,
    suspicion,
    delivery,
    queues,
    groups,
    addresses,
    deliveries,
    breakers,
    cancels,
    operations,
    slots,
    leaders,
    names,
    counts,
    peace,
    expiry,
    windows,
    cluster,
)
PROMISES: dict[str, Promise] = {
    name: kept for chapter in CHAPTERS for name, kept in DECLARED.items() if kept.__module__ == chapter.__name__
}


def check(
    events: Sequence[Event],
    final: Final,
    *,
    complete: bool = True,
    ordered: bool = True,
    tolerance: float = 0.0,
    drained_within: float | None = None,
    late: float | None = None,
    lease: float | None = None,
    prompt: float | None = None,
) -> list[Violation]:
    """Every violation of every promise.

    `tolerance` is by how many seconds the clocks of the recorders may differ. The rest asks for more than safety:
    `drained_within` for an end of all jobs so many seconds after the last fault, `late` for no decision and no claim
    later than that while nothing disturbs the cluster, `lease`, the length of one, for a leader that stays, `prompt`
    for rescues so soon after the end of a lease.
    """
    evidence = gather(
        events, final, complete=complete, ordered=ordered, tolerance=tolerance,
        drained_within=drained_within, late=late, lease=lease, prompt=prompt,
    )  # fmt: skip
    return [
        Violation(name, broken.message, broken.events) for name, kept in PROMISES.items() for broken in kept(evidence)
    ]
