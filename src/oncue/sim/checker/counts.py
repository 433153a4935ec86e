"""Counts conserve: what was written is there or was pruned, and the totals are what ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from oncue.model import TERMINAL
from oncue.sim.checker.evidence import Evidence
from oncue.sim.checker.jobs import may_be_pruned
from oncue.sim.checker.promises import Broken, promise
from oncue.sim.history import Event


@promise("what was written is there, or was pruned")
def _conserved(evidence: Evidence) -> Iterator[Broken]:
    """Every job that was written is a row in the end, or had ended and was pruned; and there are no other rows."""
    if not evidence.complete:
        return
    there = {job.id for job in evidence.final.jobs}
    written = {story.id: story.written for story in evidence.jobs.values() if story.written is not None}
    gone = sorted(written.keys() - there)
    for job_id in gone:
        if not may_be_pruned(evidence, job_id):
            yield Broken(f"job {job_id} was written and is gone", _of(written[job_id]))
    for job_id in sorted(there - written.keys()):
        yield Broken(f"job {job_id} is there, and nobody wrote it")
    if evidence.pruned and len(gone) != evidence.pruned:
        yield Broken(f"{evidence.pruned} jobs were pruned, and {len(gone)} are gone")


def _of(event: Event | None) -> tuple[Event, ...]:
    return () if event is None else (event,)


@promise("the totals are what ended")
def _totals(evidence: Evidence) -> Iterator[Broken]:
    """A job counts where it has ended; one that starts over counts there no more; one that is pruned still does."""
    totals = evidence.final.totals
    if totals is None:
        return
    written: Counter[str] = Counter()
    for story in evidence.jobs.values():
        for turn in story.turns.values():
            for change in turn.changes:
                written[change.fields["state"]] += 1
                written[change.fields["from_state"]] -= 1
    rows = Counter(job.state for job in evidence.final.jobs)
    for state in sorted(TERMINAL):
        if (evidence.complete and totals[state] != written[state]) or totals[state] < rows[state]:
            found = f"{written[state]} were written, {rows[state]} are there"
            yield Broken(f"{totals[state]} jobs are counted as {state}; {found}")
