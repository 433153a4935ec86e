"""Writes the outcomes of attempts, in batches. While one write is on its way, the next batch gathers by itself.

A node has two settlers. The second one takes only whole batches: while outcomes come that fast, it makes its batch
ready while the database is busy with the first one's.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from random import Random
from typing import Any
from uuid import UUID

from oncue.clock import Clock
from oncue.engine.applying import apply_past_refusals, listed
from oncue.engine.delivery_lines import log_delivery
from oncue.engine.execution import Execution
from oncue.engine.in_flight import InFlight
from oncue.engine.job_lines import level_of
from oncue.engine.service import Signal
from oncue.engine.texts import bounded
from oncue.engine.window_events import tell_settled_day
from oncue.errors import StoreError, StoreRefused, StoreUnavailable
from oncue.model import DELIVER, TERMINAL, Applied, Batch, Change, Failed, Job, Receipt
from oncue.policy import options, windows
from oncue.policy.error_summary import error_summary
from oncue.policy.lifecycle import Ended, settle
from oncue.store.contract import Store
from oncue.telemetry import Telemetry

LONGEST_REFUSAL = 2000
LOCKED_PAUSE = timedelta(seconds=0.5)
"""How long a row that another session holds is left alone."""

_log = logging.getLogger("oncue.job")


class Settler:
    def __init__(
        self,
        store: Store,
        node: UUID,
        executor: Execution[Any],
        in_flight: InFlight,
        clock: Clock,
        dice: Random,
        telemetry: Telemetry,
        *,
        idle: float,
        limit: int,
        second: bool = False,
    ) -> None:
        """`limit`: how many outcomes one write holds."""
        self.name = "second_settler" if second else "settler"
        self.signal = in_flight.has_whole_batch if second else in_flight.has_ended
        self._store = store
        self._node = node
        self._executor = executor
        self._in_flight = in_flight
        self._clock = clock
        self._dice = dice
        self._telemetry = telemetry
        self._idle = timedelta(seconds=idle)
        self._limit = limit
        self._is_second = second
        self.addressed_ended = Signal()
        """Raised when what was addressed to this node has ended."""
        self._in_doubt: set[tuple[int, int]] = set()
        self._tried_locked_at: datetime | None = None
        self.trouble: StoreError | None = None
        """What kept the last batch from being written, if anything did."""

    async def tick(self, now: datetime) -> datetime:
        batch = self._in_flight.take(self.name, self._limit, at_least=self._limit if self._is_second else 1)
        if batch:
            if any(ended.terms is not None for ended in batch):
                batch[:] = await self._numbered(batch)
            locked = await self._settle(list(batch), now)
            self._in_flight.settled(self.name, locked)
        if self._in_flight.locked and not self._is_second and self._may_try_locked(now):
            await self._settle_locked(now)
        if self._in_flight.is_settled:
            self._in_flight.flushed.set()
        if len(self._in_flight.ended) >= (self._limit if self._is_second else 1):
            return now
        return now + (LOCKED_PAUSE if self._in_flight.locked else self._idle)

    async def quiet_until(self, now: datetime, store: Store) -> datetime | None:
        return None if self._in_flight.is_settled else now

    async def _settle_locked(self, now: datetime) -> None:
        """Try those again that were locked, and wait for none of them: they must not hold up the others."""
        self._tried_locked_at = now
        batch = self._in_flight.locked[: self._limit]
        size, locked = len(batch), await self._settle(batch, now, past_locks=True)
        self._in_flight.locked[:size] = []
        self._in_flight.locked += locked

    def _may_try_locked(self, now: datetime) -> bool:
        tried_at = self._tried_locked_at
        return tried_at is None or not tried_at <= now < tried_at + LOCKED_PAUSE

    async def _numbered(self, batch: list[Ended]) -> list[Ended]:
        """The same, with ids for the jobs that follow. A change that is sent again has to bring the same jobs."""
        wanted = sum(len(template.args) for ended in batch for template in _without_ids(ended))
        if not wanted:
            return batch
        ids = iter(await self._store.jobs.reserve(wanted))

        def numbered(templates: tuple[Batch, ...]) -> tuple[Batch, ...]:
            return tuple(one if one.ids else one._replace(ids=list(islice(ids, len(one.args)))) for one in templates)

        return [
            ended
            if ended.terms is None
            else ended._replace(
                terms=ended.terms._replace(
                    follow_ups=numbered(ended.terms.follow_ups), late_follow_ups=numbered(ended.terms.late_follow_ups)
                )
            )
            for ended in batch
        ]

    async def _settle(self, batch: list[Ended], now: datetime, *, past_locks: bool = False) -> list[Ended]:
        """Write a batch; those whose rows are locked. It stays in flight until the database has answered: a lost reply
        means doing it again."""
        changes = [settle(_as_of(ended, now), self._dice) for ended in batch]
        try:
            took, refused = await apply_past_refusals(
                self._store, changes, now, lambda number, error: self._failed(batch[number], error),
                past_locks=past_locks, latest=self._clock.latest,
            )  # fmt: skip
        except StoreError as error:
            self.trouble = error
            if isinstance(error, StoreUnavailable):
                self._in_doubt.update((change.id, change.claim_no) for change in changes)
            raise
        self.trouble = None
        for number, refusal in refused.items():
            took[number] = False
            self._leave_to_its_limits(changes[number], refusal)
        locked = [place for place, written in enumerate(took) if written is None] if None in took else []
        kept = [batch[place] for place in locked]
        if kept and not past_locks:
            self._tried_locked_at = now
            ids = [ended.claim.id for ended in kept]
            _log.warning("%s: another session holds a lock there, so the outcome is kept for later", listed(ids))
        for place in reversed(locked):
            del batch[place], changes[place], took[place]
        await self._forget(batch, changes, took)
        return kept

    def _tell_leader(self, batch: list[Ended]) -> None:
        """Parts of cluster jobs have ended, perhaps: the leader waits for that."""
        if any(ended.claim.address is not None for ended in batch):
            self.addressed_ended.set()
            self._store.hint()

    async def _forget(self, batch: list[Ended], changes: list[Change], took: list[Applied]) -> None:
        """The database has answered for these: they are no longer in flight."""
        took = await self._with_lost_replies(changes, took)
        self._in_flight.remove([ended.claim for ended in batch])
        if batch:
            written = [change.as_written(answer) for change, answer in zip(changes, took, strict=True)]
            self._tell_followers(written, took)
            self._tell_leader(batch)
            self._tell_days(batch, written, took)
            self._tell(batch, written, [bool(answer) for answer in took])

    async def _with_lost_replies(self, changes: list[Change], took: list[Applied]) -> list[Applied]:
        """A change that is rejected now may have been written before, by the call whose reply was lost."""
        if self._in_doubt and not all(took):
            for number, change in enumerate(changes):
                if not took[number] and (change.id, change.claim_no) in self._in_doubt:
                    job = await self._store.jobs.get(change.id)
                    took[number] = False if job is None else _ending_of(change, job)
        self._in_doubt.difference_update((change.id, change.claim_no) for change in changes)
        return took

    def _failed(self, ended: Ended, refused: StoreRefused) -> Change:
        """The database refuses this outcome: the attempt failed, and why is written instead."""
        reason = bounded(f"its outcome was refused: {refused}", LONGEST_REFUSAL)
        return settle(ended._replace(outcome=Failed(reason)), self._dice)

    def _leave_to_its_limits(self, change: Change, refusal: StoreRefused) -> None:
        """The job stays `running` in the database until its maximum runtime is over."""
        _log.error("job %d: neither its outcome nor its refusal can be written: %s", change.id, refusal)
        self._in_flight.refused.add((change.id, change.claim_no))

    def _tell_followers(self, changes: list[Change], took: list[Applied]) -> None:
        """Jobs that follow are enqueued jobs. Of those with keys it is not known whether they were left out."""
        for change, answer in zip(changes, took, strict=True):
            for made in change.follow_ups if answer else ():
                if made.keys is None:
                    receipts = [Receipt(job_id, made.created_at, True) for job_id in made.ids]
                    self._telemetry.emit(
                        "enqueue", {"jobs": len(receipts), "duplicates": 0},
                        task=made.task, queue=made.queue, batch=made, receipts=receipts,
                    )  # fmt: skip

    def _tell_days(self, batch: list[Ended], changes: list[Change], took: list[Applied]) -> None:
        """Days of windows that are decided now."""
        if not any(change.day_status for change in changes):
            return
        for ended, change, answer in zip(batch, changes, took, strict=True):
            if answer and change.day_status is not None:
                tell_settled_day(self._telemetry, ended, change.day_status)

    def _tell(self, batch: list[Ended], changes: list[Change], took: list[bool]) -> None:
        rejected = len(took) - sum(took)
        emit, wants = self._telemetry.emit, self._telemetry.wants
        emit("settle", {"jobs": len(batch) - rejected, "rejected": rejected}, node=self._node)
        emit(
            "in_flight",
            {
                "in_flight": self._executor.running,
                "buffered": self._executor.waiting,
                "concurrency": self._executor.concurrency,
                "aside": self._executor.aside,
            },
            node=self._node,
        )
        logs = _log.isEnabledFor(logging.INFO)
        failed = any(change.state == "failed" for change in changes)
        if not (logs or rejected or failed or wants("job.stop") or wants("job.retry") or wants("release")):
            return
        for ended, change, written in zip(batch, changes, took, strict=True):
            if not written:
                _log_rejected(ended, change)
                emit("settle.rejected", {}, change=change, node=self._node)
            elif change.outcome is None and change.state not in TERMINAL:
                emit("release", {"jobs": 1}, change=change, node=self._node)
            else:
                self._tell_one(ended, change, logs)

    def _tell_one(self, ended: Ended, change: Change, logs: bool) -> None:
        started_at = ended.started_at or ended.ended_at
        duration = (ended.ended_at - started_at).total_seconds()
        if logs or change.state == "failed":
            (log_delivery if ended.claim.task == DELIVER else _log_end)(ended, change, duration)
        measurements = {"duration": duration} if ended.rows is None else {"duration": duration, "rows": ended.rows}
        self._telemetry.emit("job.stop", measurements, claim=ended.claim, change=change, outcome=ended.outcome)
        if change.state == "retrying":
            delay = (change.visible_at - ended.ended_at).total_seconds()
            self._telemetry.emit("job.retry", {"delay": delay}, claim=ended.claim, change=change)


def _as_of(ended: Ended, now: datetime) -> Ended:
    """The same, with the terms that hold now: its outcome may have waited for the database for days."""
    window = None if ended.terms is None else options.read(ended.claim.options).window
    if ended.terms is None or window is None:
        return ended
    return ended._replace(terms=windows.terms_as_of(ended.terms, window, now))


def _without_ids(ended: Ended) -> Iterator[Batch]:
    """The jobs that follow and have no ids yet."""
    if ended.terms is not None:
        yield from (batch for batch in (*ended.terms.follow_ups, *ended.terms.late_follow_ups) if not batch.ids)


def _ending_of(change: Change, job: Job) -> Applied:
    """Which ending of a change a row shows. Jobs that follow were written with it, or not at all."""
    for ending in (change, change.late, change.released):
        if ending is not None and (job.state, job.claim_no) == (ending.state, ending.claim_no):
            return ending.ending or True
    return False


def _log_rejected(ended: Ended, change: Change) -> None:
    """Of a window's job that is usual: its cutoff came first. It is told where users are told of."""
    is_late = change.day_status is not None
    _log.log(
        level_of(ended.claim, logging.WARNING),
        "job %d: a late %s was rejected (%s), the job had moved on",
        change.id, "success" if is_late else "outcome", change.state,
    )  # fmt: skip


def _log_end(ended: Ended, change: Change, duration: float) -> None:
    claim = ended.claim
    slot = "" if claim.scheduled_for is None else f" slot={claim.scheduled_for.isoformat()}"
    rows = "" if ended.rows is None else f" rows={ended.rows}"
    why = f" reason={change.reason}" if change.reason else ""
    error = f" error={error_summary(change.error)}" if change.error else ""
    if change.ending == "late" and change.day_status is not None:
        why += " (late success)"
    _log.log(
        level_of(claim, logging.WARNING if change.state == "failed" else logging.INFO),
        "job %d %s task=%s queue=%s attempt=%d%s duration=%.3fs%s%s%s",
        claim.id, change.state, claim.task, claim.queue, change.attempt, slot, duration, rows, why, error,
    )  # fmt: skip
