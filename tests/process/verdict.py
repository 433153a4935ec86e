"""What must hold of a cluster afterwards: the histories, the marks of the handlers and the rows tell the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta

from oncue import Job
from oncue.model import TERMINAL, Schedule
from oncue.sim.checker import Books, Final, Violation, check
from oncue.sim.history import Event
from oncue.store.contract import Store
from tests.process.processes import Mark
from tests.process.program import LEASE, once

TOLERANCE = LEASE / 2
EVERY_SECOND = "* * * * * *"


async def final_of(store: Store, jobs: Sequence[Job]) -> Final:
    """Everything that the database holds."""
    queues = await store.queues.all()
    totals: dict[str, int] = {state: sum(getattr(queue, state) for queue in queues) for state in sorted(TERMINAL)}
    schedules = await store.schedules.page(limit=1000)
    return Final(tuple(jobs), totals, tuple([await _books(store, schedule) for schedule in schedules]))


async def _books(store: Store, schedule: Schedule) -> Books:
    start, end = schedule.created_at - timedelta(days=1), schedule.cursor + timedelta(days=1)
    return Books(
        schedule,
        await store.schedules.revisions(schedule.id),
        await store.slots.between(schedule.id, start, end, 1_000_000),
        await store.slots.doubled(schedule.id, start, end),
    )


def violations(
    events: Sequence[Event], final: Final, marks: Sequence[Mark], *, complete: bool, tolerance: float
) -> list[Violation]:
    """Whatever is wrong. `complete`: no process was killed and no reply lost, so that every event is there."""
    found = check(causal(events), final, complete=complete, ordered=False, tolerance=tolerance)
    found += [Violation("the totals are those of the rows", told, ()) for told in _wrong_totals(final)]
    found += [Violation("the marks tell the same as the rows", told, ()) for told in _wrong_marks(marks, final.jobs)]
    return found + [Violation("every second is decided once", told, ()) for told in _wrong_seconds(final)]


def causal(events: Sequence[Event]) -> list[Event]:
    """The same in a possible order: a claim is before its end, though its reply may have come after that."""
    ends: dict[tuple[int, int], int] = {}
    for event in events:
        if event.kind == "change" and event.fields["accepted"] and event.fields["from_state"] == "running":
            ends.setdefault((event.fields["id"], event.fields["claim_no"]), event.at)
    moved = [
        event._replace(at=min(event.at, ends.get((event.fields["id"], event.fields["claim_no"]), event.at)))
        if event.kind == "claim"
        else event
        for event in events
    ]
    return sorted(moved, key=lambda event: (event.at, event.kind != "claim"))


def _wrong_totals(final: Final) -> Iterator[str]:
    rows = {state: sum(job.state == state for job in final.jobs) for state in sorted(TERMINAL)}
    if final.totals != rows:
        yield f"{final.totals} were counted, {rows} are there"


def _wrong_marks(marks: Sequence[Mark], jobs: Sequence[Job]) -> Iterator[str]:
    rows = {job.id: job for job in jobs}
    starts = Counter((mark.job, mark.attempt) for mark in marks if mark.what == "start")
    ends = Counter((mark.job, mark.attempt) for mark in marks if mark.what == "end")
    begun = Counter(job for job, _ in starts)
    unproved = [job.id for job in jobs if job.state == "succeeded" and (job.id, job.attempt) not in ends]
    wrong = {
        "an attempt began twice": [place for place, times in starts.items() if times > 1],
        "an attempt ended twice": [place for place, times in ends.items() if times > 1],
        "it ran and is not there": [job for job in begun if job not in rows],
        "it ran after its end": [(job, no) for job, no in starts if job in rows and no > rows[job].attempt],
        "it ran more than once": [job.id for job in jobs if job.task == once.name and begun[job.id] > 1],
        "it succeeded without having run to its end": unproved,
    }
    yield from (f"{what}: {places}" for what, places in wrong.items() if places)


def _wrong_seconds(final: Final) -> Iterator[str]:
    """Counted without any of oncue's own arithmetic."""
    for books in final.schedules:
        schedule = books.schedule
        if schedule.expression == EVERY_SECOND and schedule.revision == 1:
            decided = sum(slot.slots for slot in books.slots)
            passed = int(schedule.cursor.timestamp()) - int(schedule.created_at.timestamp())
            if decided != passed:
                yield f"{decided} slots of {schedule.name} in {passed} seconds"
