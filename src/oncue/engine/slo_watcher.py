"""Watches the SLOs and alerts of the whole cluster, on the leader.

Each evaluation reads the minutes of all nodes, the leader's sample and the totals of queues; `policy/slo.py` and
`policy/prediction.py` say what is a breach. What follows from it is written together with the deliveries that tell of
it, by one compare-and-set under the leader's epoch: a warning begins once and is over once, whichever node leads. The
log is told after the write. If the reply to it is lost, the next look at the database shows whether it took.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from heapq import nlargest
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias
from uuid import UUID

from oncue.engine.counting import latest_sample
from oncue.engine.leadership import Leadership
from oncue.engine.minutes import MOST_NAMED, Minutes
from oncue.engine.service import Signal, can_wait
from oncue.model import AlertBook, AlertState, Batch, FollowUp, Queue, Sample
from oncue.policy import prediction, slo, windows
from oncue.policy.lifecycle import following
from oncue.policy.slo import Judgement, Reading, Rolling, SloRules
from oncue.store.contract import Store
from oncue.telemetry import Telemetry


class AlertNews(NamedTuple):
    """A warning that begins, or is over."""

    event: Literal["slo.breach", "slo.over"]
    state: AlertState
    window_minutes: int
    at: datetime


Announce: TypeAlias = Callable[[Sequence[AlertNews]], Awaitable[Sequence[FollowUp]]]
"""Makes the deliveries that tell of news. They are written with it."""

MINUTES_KEPT = timedelta(days=1)
"""How long it is kept what nodes measured minute by minute. No rolling window is longer."""
PRUNE_LIMIT = 1000

_log = logging.getLogger("oncue.slo")


class SloWatcher:
    name = "slo_watcher"

    def __init__(
        self,
        store: Store,
        node: UUID,
        leadership: Leadership,
        telemetry: Telemetry,
        minutes: Minutes,
        rules: SloRules,
        announce: Announce | None = None,
    ) -> None:
        self.signal = Signal()
        self._store = store
        self._node = node
        self._leadership = leadership
        self._telemetry = telemetry
        self._minutes = minutes
        self._rules = rules
        self._announce = announce
        self._every = timedelta(seconds=rules.every)
        self._in_doubt: tuple[AlertBook, list[AlertNews]] | None = None
        """What was sent, and what it would lead to, while it is not known whether it was written."""
        leadership.followers.append(self.signal)

    quiet_until = can_wait

    async def tick(self, now: datetime) -> datetime:
        epoch = self._leadership.epoch
        if epoch is None:
            return now + self._every
        book = await self._store.alerts.book()
        self._tell_what_took(book)
        due_at = _due_at(book, self._every, now)
        if due_at <= now:
            judgement = slo.judged(book.alerts, await self._readings(now), self._rules, now)
            await self._write(book, judgement, epoch, now)
            due_at = now + self._every
        pruned = await self._store.alerts.prune(now - MINUTES_KEPT, PRUNE_LIMIT)
        return now if pruned >= PRUNE_LIMIT else due_at

    # --- reading ------------------------------------------------------------------------------------------------

    async def _readings(self, now: datetime) -> list[Reading]:
        rolling = Rolling(await self._store.alerts.minutes(slo.first_minute(self._rules, now)))
        sample, queues = await latest_sample(self._store, now), await self._store.queues.all()
        self._note_totals(queues, now)
        found = slo.readings(rolling, sample, queues, self._rules, now)
        return [*found, *await self._predictions(rolling, sample, now)]

    def _note_totals(self, queues: Sequence[Queue], now: datetime) -> None:
        """Later evaluations compare with these: which share of the jobs has failed since."""
        for queue in nlargest(MOST_NAMED, queues, key=lambda queue: (queue.failed, queue.succeeded)):
            self._minutes.note("totals", queue.name, {"failed": queue.failed, "succeeded": queue.succeeded}, now)

    async def _predictions(self, rolling: Rolling, sample: Sample, now: datetime) -> list[Reading]:
        found = []
        for window in await self._store.windows.all():
            going = prediction.speed(window.name, window.queue, rolling)
            if not window.enabled or going is None:
                continue
            days = {day: await self._store.windows.day(window.id, day) for day in prediction.dates_around(now)}
            rule = windows.rule_of(window.expression)
            later = sum(one.jobs for one in sample.counts if one.queue == window.queue and one.kind == "later")
            buckets = prediction.open_buckets(days, rule, now)
            reading = prediction.predicted(window.name, rule, buckets, going, later, self._rules, now)
            found += [] if reading is None else [reading]
        return found

    # --- writing and telling ------------------------------------------------------------------------------------

    async def _write(self, book: AlertBook, judgement: Judgement, epoch: int, now: datetime) -> None:
        news = [
            *(AlertNews("slo.breach", state, self._rules.minutes, now) for state in judgement.begun),
            *(AlertNews("slo.over", state, self._rules.minutes, now) for state in judgement.over),
        ]
        jobs = await self._deliveries(news, now)
        next_book = AlertBook(book.version, now, judgement.states)
        self._in_doubt = (next_book, news)
        took = await self._store.alerts.write(next_book, now, node=self._node, epoch=epoch, jobs=jobs)
        self._in_doubt = None
        if took:
            self._tell(news)

    async def _deliveries(self, news: Sequence[AlertNews], now: datetime) -> list[Batch]:
        if not news or self._announce is None:
            return []
        batches = [following(asked, now) for asked in await self._announce(news)]
        ids = iter(await self._store.jobs.reserve(sum(len(batch.args) for batch in batches)) if batches else [])
        return [batch._replace(ids=list(islice(ids, len(batch.args)))) for batch in batches]

    def _tell_what_took(self, book: AlertBook) -> None:
        """Tell of what was written by a call whose reply was lost."""
        in_doubt, self._in_doubt = self._in_doubt, None
        if in_doubt is not None:
            sent, news = in_doubt
            if (book.version, book.evaluated_at) == (sent.version + 1, sent.evaluated_at):
                self._tell(news)

    def _tell(self, news: Sequence[AlertNews]) -> None:
        for one in news:
            state = one.state
            _log.warning(
                "slo %s alert=%s of=%s value=%g threshold=%g window=%dm due_bucket=%s since=%s: %s",
                "breach" if one.event == "slo.breach" else "over", state.alert, state.of, state.value, state.threshold,
                one.window_minutes, "-" if state.due_bucket is None else state.due_bucket,
                "-" if state.since is None else state.since.isoformat(), state.text,
            )  # fmt: skip
            self._telemetry.emit(
                one.event, {"value": state.value, "threshold": state.threshold},
                alert=state.alert, of=state.of, window_minutes=one.window_minutes, due_bucket=state.due_bucket,
                since=state.since, text=state.text,
            )  # fmt: skip


def _due_at(book: AlertBook, every: timedelta, now: datetime) -> datetime:
    """When the next evaluation is due. An instant in the future was before the database's clock was set back."""
    if book.evaluated_at is None or book.evaluated_at > now:
        return now
    return book.evaluated_at + every
