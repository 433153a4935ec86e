"""What a new leader finds after a time without a leader: the slots that came due meanwhile, and what became of each."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from oncue.model import Decided
from oncue.policy.durations import describe

MOST_LINES = 50


class Outage:
    """A stretch of time without a leader, as the next leader tells of it."""

    def __init__(self, since: datetime, until: datetime) -> None:
        self.since = since
        self.until = until
        self.slots = 0
        self._lines: list[str] = []
        self._untold = 0

    def add(self, schedule: str, decided: Decided) -> None:
        if (decided.until or decided.scheduled_for) <= self.since or decided.scheduled_for > self.until:
            return
        self.slots += decided.slots
        if len(self._lines) < MOST_LINES:
            self._lines.append(f"  {schedule} {described(decided)}")
        else:
            self._untold += decided.slots

    def report(self, log: logging.Logger) -> None:
        length = describe(round((self.until - self.since) / timedelta(seconds=1)))
        log.warning(
            "outage report: nobody led from %s to %s (%s); %d %s came due meanwhile",
            self.since.isoformat(timespec="seconds"), self.until.isoformat(timespec="seconds"), length, self.slots,
            "slot" if self.slots == 1 else "slots",
        )  # fmt: skip
        for line in self._lines:
            log.warning("outage report:%s", line)
        if self._untold:
            log.warning("outage report:  and %d more: `oncue audit` tells of each", self._untold)


def described(decided: Decided) -> str:
    """A verdict in words: `2026-11-15T03:00:00+00:00: fired, job 7`."""
    when = decided.scheduled_for.isoformat()
    if decided.until is not None:
        when = f"{when} to {decided.until.isoformat()} ({decided.slots} slots)"
    why = f" ({decided.reason})" if decided.reason else ""
    job = f", job {decided.job_id}" if decided.job_id is not None else ""
    in_the_way = f", job {decided.blocked_by} was in the way" if decided.blocked_by is not None else ""
    return f"{when}: {decided.verdict}{why}{job}{in_the_way}"
