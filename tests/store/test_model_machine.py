"""One random life, three times: on SQLite, on PostgreSQL and in a plain Python model. They must never disagree.

The model is a dictionary of jobs and says in the simplest words what each verb means. `ONCUE_EXAMPLES=1000` runs a
longer search than the few dozen lives of a normal run, with fresh dice.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from oncue.errors import Conflict
from oncue.model import (
    TERMINAL,
    UNFINISHED,
    WAITING,
    Attempt,
    Batch,
    Cancelled,
    Change,
    Claim,
    Failed,
    Job,
    JobFilter,
    Lost,
    Node,
    Outcome,
    Released,
    Skipped,
    Snoozed,
    State,
    Succeeded,
)
from oncue.policy import lifecycle
from oncue.store import PostgresStore, SqliteStore, Store
from tests.conftest import EMPTY_TABLES
from tests.store.scene import NOW, a_batch, a_node, age_all

EXAMPLES = int(os.environ.get("ONCUE_EXAMPLES", "0"))
SETTINGS = settings(
    max_examples=EXAMPLES or 15,
    stateful_step_count=50,
    derandomize=not EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)

QUEUES, TASKS, KEYS = ("mail", "web"), ("send", "fetch"), ("a", "b")
LEASE = timedelta(seconds=15)
# As often as they stand here: a life is mostly work. One rule draws them all, since a rule each would be picked evenly.
COMMANDS = (
    *("enqueue",) * 8,
    *("claim",) * 8,
    *("settle",) * 8,
    *("settle_again_too_late", "rescue", "promote", "cancel", "revive", "set_by_hand", "age", "fold", "read_attempts")
    * 2,
    *("beat", "bury", "leave", "register", "cut_off_what_overran", "prioritize", "pause_or_resume", "wait", "prune"),
)
OUTCOMES: tuple[Outcome, ...] = (
    Succeeded('"done"'),
    Failed("it broke"),
    Failed("for good", final=True),
    Failed("soon", delay=5.0),
    Lost(),
    Released(),
    Snoozed(30.0, "not yet"),
    Skipped("late"),
    Cancelled(),
)


@dataclass
class Row:
    """A job of the model."""

    id: int
    task: str
    queue: str
    key: str | None
    priority: int
    state: State
    created_at: datetime
    visible_at: datetime
    max_retries: int
    claim_no: int = 0
    attempt: int = 0
    retry_count: int = 0
    crashes: int = 0
    isolation: int = 0
    age_round: int = 0
    node: UUID | None = None
    claimed_at: datetime | None = None
    run_until: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    cancel_requested: bool = False
    reason: str | None = None
    error: str | None = None
    attempts: list[tuple[int, int, str, str | None]] = field(default_factory=list)
    attempt_ends: dict[int, datetime] = field(default_factory=dict)

    def seen(self) -> tuple[Any, ...]:
        return (
            *(self.state, self.priority, self.claim_no, self.attempt, self.retry_count, self.crashes, self.visible_at),
            *(self.node, self.run_until, self.started_at, self.finished_at, self.cancel_requested),
            *(self.reason, self.error),
        )


def shown(job: Job) -> tuple[Any, ...]:
    """The same of a stored job."""
    return (
        *(job.state, job.priority, job.claim_no, job.attempt, job.retry_count, job.crashes, job.visible_at),
        *(job.node_id, job.run_until, job.started_at, job.finished_at, job.cancel_requested_at is not None),
        *(job.reason, job.error),
    )


class Model:
    """What the verbs mean."""

    def __init__(self) -> None:
        self.jobs: dict[int, Row] = {}
        self.leases: dict[UUID, datetime] = {}
        self.lost: set[UUID] = set()
        self.paused: set[str] = set()
        self.totals: Counter[tuple[str, str]] = Counter()

    def holder(self, task: str, key: str | None) -> Row | None:
        return next(
            (
                row
                for row in self.jobs.values()
                if key is not None and (row.task, row.key) == (task, key) and row.state in UNFINISHED
            ),
            None,
        )

    def record_duplicates(self, batch: Batch, answers: list[tuple[int, bool]]) -> None:
        """In doubt, a job that another one stands for takes its id all the same."""
        for job_id, key, (_, created) in zip(batch.ids, batch.keys or batch.ids, answers, strict=True):
            if not created:
                self.jobs[job_id] = Row(
                    job_id, batch.task, batch.queue, str(key), batch.priority, "skipped", batch.created_at,
                    batch.visible_at, batch.max_retries, finished_at=batch.created_at, reason="duplicate",
                )  # fmt: skip
                self.totals[batch.queue, "skipped"] += 1

    def enqueue(self, batch: Batch) -> list[tuple[int, bool]]:
        answers = []
        for number, job_id in enumerate(batch.ids):
            key = batch.keys[number] if batch.keys else None
            if (there := self.holder(batch.task, key)) is not None:
                answers.append((there.id, False))
                continue
            row = Row(
                id=job_id,
                task=batch.task,
                queue=batch.queue,
                key=key,
                priority=batch.priority,
                state=batch.state,
                created_at=batch.created_at,
                visible_at=batch.visible_at,
                max_retries=batch.max_retries,
            )
            self.jobs[row.id] = row
            answers.append((job_id, True))
        return answers

    def alive(self, node: UUID, now: datetime) -> bool:
        return node in self.leases and node not in self.lost and self.leases[node] > now

    def promote(self, now: datetime, limit: int) -> datetime | None:
        waiting = [row for row in self.jobs.values() if row.state in ("scheduled", "retrying")]
        for row in sorted((row for row in waiting if row.visible_at <= now), key=lambda row: row.visible_at)[:limit]:
            row.state = "queued"
        return min((row.visible_at for row in waiting if row.state != "queued"), default=None)

    def claim(
        self, node: UUID, queues: list[str], tasks: list[str], limit: int, now: datetime, few: int, alone: bool
    ) -> list[int]:
        if not self.alive(node, now):
            return []
        ready = sorted(
            (
                row
                for row in self.jobs.values()
                if row.state == "queued" and row.queue in queues and row.queue not in self.paused and row.task in tasks
            ),
            key=lambda row: (-row.priority, row.created_at, row.id),
        )
        alike = sorted(ready, key=lambda row: row.crashes)
        best = [row for row in alike if row.isolation == 2 and row.visible_at <= now][: int(alone)]
        if not best:
            cohort = [row for row in ready if row.isolation == 1][: min(few, limit)]
            best = cohort + [row for row in ready if not row.isolation][: limit - len(cohort)]
        for row in best:
            row.state, row.node, row.claimed_at = "running", node, now
            row.claim_no += 1
            row.run_until = now + timedelta(hours=1) if row.isolation < 2 else None
            row.started_at = row.finished_at = row.reason = row.error = None
        return [row.id for row in ready if row in best]

    def holds(self, change: Change) -> bool:
        row = self.jobs.get(change.id)
        return row is not None and (row.state, row.claim_no) == (change.from_state, change.claim_no)

    def apply(self, changes: list[Change], now: datetime) -> list[bool]:
        took = []
        for change in changes:
            took.append(self.holds(change))
            if took[-1]:
                self.write(self.jobs[change.id], change, now)
        return took

    def write(self, row: Row, change: Change, now: datetime) -> None:
        ended = change.state in TERMINAL
        row.state, row.reason, row.error = change.state, change.reason, change.error
        row.retry_count, row.attempt = change.retry_count, change.attempt
        to_be_refused = row.cancel_requested and change.state in ("scheduled", "retrying")
        row.visible_at = min(change.visible_at, now) if to_be_refused else change.visible_at
        row.crashes, row.started_at, row.run_until = change.crashes, change.started_at, None
        row.isolation = change.isolation
        row.finished_at = change.ended_at if ended else None
        row.cancel_requested = row.cancel_requested and change.from_state == "running"
        if change.from_state in TERMINAL:
            self.totals[row.queue, change.from_state] -= 1
        if ended:
            self.totals[row.queue, change.state] += 1
        elif change.outcome is not None:
            row.attempts.append((change.attempt, change.claim_no, change.outcome, change.error))
            assert change.ended_at is not None
            row.attempt_ends[change.claim_no] = change.ended_at

    def stranded(self, now: datetime) -> set[int]:
        running = (row for row in self.jobs.values() if row.state == "running")
        return {row.id for row in running if row.node is None or not self.alive(row.node, now)}

    def age(self, round_no: int, waiting_since: datetime, gain: int) -> int:
        old = [
            row
            for row in self.jobs.values()
            if row.state == "queued"
            and not row.isolation
            and row.priority < 100
            and max(row.created_at, row.visible_at) <= waiting_since
            and row.age_round < round_no
        ]
        for row in old:
            row.priority, row.age_round = min(row.priority + gain, 100), round_no
        return len(old)

    def prune(self, before: datetime) -> int:
        old = [row.id for row in self.jobs.values() if row.finished_at is not None and row.finished_at < before]
        for job_id in old:
            del self.jobs[job_id]
        for row in self.jobs.values():
            row.attempts = [told for told in row.attempts if row.attempt_ends[told[1]] >= before]
        return len(old)


class Lives(RuleBasedStateMachine):
    """The random commands."""

    url: str
    runner: asyncio.Runner

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.now = NOW
        self.round_no = 0
        self.dice = Random(7)
        self.claims: list[Claim] = []
        self.spent: list[Change] = []
        self.nodes: list[UUID] = []
        self.stores: list[Store] = [SqliteStore(":memory:", inline=True), PostgresStore(self.url)]
        for store in self.stores:
            self.runner.run(store.open())

    @initialize()
    def begin(self) -> None:
        self.everywhere(empty)
        self.register()
        self.register()

    def teardown(self) -> None:
        for store in self.stores:
            self.runner.run(store.close())

    def everywhere(self, ask: Callable[[Store], Any]) -> Any:
        """Ask every store the same; they must give the same answer."""
        answers = [self.runner.run(ask(store)) for store in self.stores]
        assert answers.count(answers[0]) == len(answers), answers
        return answers[0]

    @rule(data=st.data(), command=st.sampled_from(COMMANDS))
    def live_on(self, data: st.DataObject, command: str) -> None:
        getattr(self, command)(data)

    # --- jobs ---------------------------------------------------------------------------------------------------

    def enqueue(self, data: st.DataObject) -> None:
        count, keyed, again = data.draw(st.tuples(st.integers(1, 6), st.booleans(), st.booleans()))
        delay = data.draw(st.sampled_from([0, 0, 0, 20]))
        self.now += timedelta(seconds=1)
        due = self.now + timedelta(seconds=delay)
        keys = data.draw(st.lists(st.sampled_from(KEYS), min_size=count, max_size=count)) if keyed else None
        batch = a_batch(
            count,
            queue=data.draw(st.sampled_from(QUEUES)),
            task=data.draw(st.sampled_from(TASKS)),
            priority=data.draw(st.sampled_from([0, 0, 5, 95, 100])),
            state=lifecycle.entry_state(due, self.now),
            max_retries=2,
            created_at=self.now,
            visible_at=due,
            keys=keys,
        )
        receipts = self.everywhere(lambda store: store.jobs.enqueue([batch]))
        if again:
            assert self.everywhere(lambda store: store.jobs.enqueue([batch], in_doubt=True)) == receipts
        told = [(receipt.id, receipt.created) for receipt in receipts]
        assert told == self.model.enqueue(batch)
        if again:
            self.model.record_duplicates(batch, told)

    def promote(self, data: st.DataObject) -> None:
        ties = Counter(row.visible_at for row in self.model.jobs.values() if row.state in ("scheduled", "retrying"))
        bound = 1000 if any(count > 1 for count in ties.values()) else data.draw(st.integers(1, 5))
        assert self.everywhere(lambda store: store.jobs.promote(self.now, bound)) == self.model.promote(self.now, bound)

    # --- nodes --------------------------------------------------------------------------------------------------

    def register(self, data: st.DataObject | None = None) -> None:
        node = a_node(f"node-{len(self.nodes)}", started_at=self.now)
        self.nodes.append(node.id)
        self.admit(node)

    def admit(self, node: Node) -> None:
        self.everywhere(lambda store: store.nodes.register(replace(node, expires_at=self.now + LEASE)))
        self.model.leases[node.id] = self.now + LEASE
        self.model.lost.discard(node.id)

    def beat(self, data: st.DataObject) -> None:
        node = data.draw(st.sampled_from(self.nodes))
        renewed = self.everywhere(lambda store: store.nodes.beat(node, self.now, self.now + LEASE))
        assert renewed == (node in self.model.leases and node not in self.model.lost)
        if renewed:
            self.model.leases[node] = self.now + LEASE

    def bury(self, data: st.DataObject) -> None:
        buried = self.everywhere(lambda store: named(store.nodes.expire(self.now)))
        expected = {node for node, expiry in self.model.leases.items() if expiry <= self.now} - self.model.lost
        assert buried == expected
        self.model.lost |= buried

    def leave(self, data: st.DataObject) -> None:
        if len(self.nodes) < 2:
            return self.register()
        node = data.draw(st.sampled_from(self.nodes))
        self.everywhere(lambda store: store.nodes.leave(node, self.now))
        self.nodes.remove(node)
        self.model.leases.pop(node, None)
        self.model.lost.discard(node)

    # --- work ---------------------------------------------------------------------------------------------------

    def claim(self, data: st.DataObject) -> None:
        if all(row.state != "queued" for row in self.model.jobs.values()):
            return self.enqueue(data)
        queues = data.draw(st.sampled_from([["mail", "web"], ["web", "mail"], ["mail"], ["web"]]))
        tasks = data.draw(st.sampled_from([["send", "fetch"], ["send", "fetch"], ["send"]]))
        limit, few, alone = data.draw(st.tuples(st.integers(1, 5), st.integers(0, 2), st.booleans()))
        node = data.draw(st.sampled_from(self.nodes))
        if not self.model.alive(node, self.now) and data.draw(st.integers(0, 7)) < 7:
            self.admit(replace(a_node(started_at=self.now), id=node))
        since = self.now if alone else None
        claims = self.everywhere(
            lambda store: store.jobs.claim(node, queues, tasks, limit, self.now, few=few, alone=since)
        )
        assert [claim.id for claim in claims] == self.model.claim(node, queues, tasks, limit, self.now, few, alone)
        for claim in claims:
            row = self.model.jobs[claim.id]
            assert (claim.claim_no, claim.attempt, claim.crashes) == (row.claim_no, row.attempt, row.crashes)
            assert claim.cancel_requested == row.cancel_requested
        self.claims += claims

    def settle(self, data: st.DataObject) -> None:
        if not self.claims:
            return self.claim(data)
        started = data.draw(st.booleans())
        chosen = data.draw(st.lists(st.sampled_from(self.claims), min_size=1, max_size=5, unique=True))
        changes = [self.settled(claim, data.draw(st.sampled_from(OUTCOMES)), started) for claim in chosen]
        self.apply(changes)
        self.claims = [claim for claim in self.claims if claim not in chosen]
        self.spent = (self.spent + changes)[-20:]

    def settled(self, claim: Claim, outcome: Outcome, started: bool) -> Change:
        began = self.now if started else None
        return lifecycle.settle(lifecycle.Ended(claim, outcome, began, self.now), self.dice)

    def apply(self, changes: list[Change]) -> None:
        took = self.everywhere(lambda store: store.jobs.apply(changes, self.now))
        assert took == self.model.apply(changes, self.now)

    def settle_again_too_late(self, data: st.DataObject) -> None:
        if self.spent:
            self.apply(data.draw(st.lists(st.sampled_from(self.spent), min_size=1, max_size=3, unique=True)))

    def rescue(self, data: st.DataObject) -> None:
        stranded = self.everywhere(lambda store: ordered(store.jobs.orphaned(self.now, 100)))
        assert {claim.id for claim in stranded} == self.model.stranded(self.now)
        self.apply([lifecycle.settle(lifecycle.lost(claim, self.now), self.dice) for claim in stranded])

    def cut_off_what_overran(self, data: st.DataObject) -> None:
        overdue = self.everywhere(lambda store: ordered(store.jobs.overdue(self.now, 100)))
        rows = self.model.jobs.values()
        assert {claim.id for claim in overdue} == {row.id for row in rows if row.run_until and row.run_until < self.now}
        self.apply([lifecycle.settle(lifecycle.overran(claim, self.now), self.dice) for claim in overdue])

    # --- operators ----------------------------------------------------------------------------------------------

    def cancel(self, data: st.DataObject) -> None:
        if (job := self.chosen(data)) is None:
            return
        if job.state in WAITING:
            change = lifecycle.cancel(job, self.now)
            assert change is not None
            self.apply([change])
        else:
            asked = self.everywhere(lambda store: store.jobs.request_cancel(job.id, job.claim_no, self.now))
            row = self.model.jobs[job.id]
            assert asked == (job.state == "running" and not row.cancel_requested)
            row.cancel_requested |= asked

    def set_by_hand(self, data: st.DataObject) -> None:
        """What runs is taken away from its node: whatever that settles later is rejected."""
        job, wanted = self.chosen(data), data.draw(st.sampled_from(lifecycle.HAND_MADE))
        if job is None or job.state in TERMINAL or (job.cancel_requested_at is not None and wanted == "queued"):
            return
        change = lifecycle.by_hand(job, wanted, self.now)
        if change is not None:
            self.apply([change])

    def revive(self, data: st.DataObject) -> None:
        finished = [row.id for row in self.model.jobs.values() if row.state in TERMINAL]
        if not finished:
            return
        row = self.model.jobs[data.draw(st.sampled_from(finished))]
        change = lifecycle.revive(self.first(row.id), self.now)
        assert change is not None
        if self.model.holder(row.task, row.key) is None:
            self.apply([change])
        else:
            assert self.everywhere(lambda store: refused(store.jobs.apply([change], self.now)))

    def prioritize(self, data: st.DataObject) -> None:
        if (job := self.chosen(data)) is None:
            return
        row, value, known = self.model.jobs[job.id], *data.draw(st.tuples(st.sampled_from([0, 10, 50]), st.booleans()))
        guard = row.priority if known else row.priority + 1
        took = self.everywhere(lambda store: store.jobs.prioritize(row.id, guard, value, self.now))
        assert took == (known and row.state in UNFINISHED)
        row.priority = value if took else row.priority

    def chosen(self, data: st.DataObject) -> Job | None:
        if not self.model.jobs:
            return None
        return self.first(data.draw(st.sampled_from(sorted(self.model.jobs))))

    def first(self, job_id: int) -> Job:
        job: Job = self.everywhere(lambda store: store.jobs.get(job_id))
        return job

    def pause_or_resume(self, data: st.DataObject) -> None:
        queue = data.draw(st.sampled_from(QUEUES))
        if queue in self.model.paused:
            self.everywhere(lambda store: store.queues.resume(queue, self.now))
        else:
            self.everywhere(lambda store: store.queues.pause(queue, self.now))
        self.model.paused ^= {queue}

    # --- upkeep and time ----------------------------------------------------------------------------------------

    def wait(self, data: st.DataObject) -> None:
        self.now += timedelta(seconds=data.draw(st.sampled_from([1, 10, 60, 3600])))

    def age(self, data: st.DataObject) -> None:
        new_round, later = data.draw(st.tuples(st.booleans(), st.booleans()))
        self.round_no += new_round
        self.now += timedelta(hours=later)
        since = self.now - timedelta(hours=1)
        raised = self.everywhere(lambda store: age_all(store, self.round_no, since, self.now))
        assert raised == self.model.age(self.round_no, since, 10)

    def prune(self, data: st.DataObject) -> None:
        before = self.now - timedelta(hours=data.draw(st.integers(1, 4)))
        assert self.everywhere(lambda store: store.jobs.prune(before, 1000)) == self.model.prune(before)

    def fold(self, data: st.DataObject) -> None:
        limit = data.draw(st.integers(1, 5))
        self.everywhere(lambda store: store.counters.fold(limit))

    # --- what always holds --------------------------------------------------------------------------------------

    @invariant()
    def every_row_is_as_the_model_has_it(self) -> None:
        jobs = self.everywhere(lambda store: store.jobs.find(JobFilter(limit=1000)))
        assert {job.id: shown(job) for job in jobs} == {row.id: row.seen() for row in self.model.jobs.values()}

    @invariant()
    def the_counts_are_right(self) -> None:
        queues = self.everywhere(lambda store: store.queues.all())
        for queue in queues:
            states = Counter(row.state for row in self.model.jobs.values() if row.queue == queue.name)
            assert (queue.queued, queue.running) == (states["queued"], states["running"])
            assert queue.later == states["scheduled"] + states["retrying"]
            for state in sorted(TERMINAL):
                assert getattr(queue, state) == self.model.totals[queue.name, state]

    def read_attempts(self, data: st.DataObject) -> None:
        for row in self.model.jobs.values():
            history = self.everywhere(partial(attempts_of, row.id))
            assert [(one.attempt, one.claim_no, one.outcome, one.error) for one in history] == row.attempts


async def empty(store: Store) -> None:
    """PostgreSQL is shared between lives: forget the last one."""
    if store.dialect == "postgres":
        async with store.database.connections.use() as connection:  # type: ignore[attr-defined]
            await connection.execute(EMPTY_TABLES)


async def attempts_of(job_id: int, store: Store) -> list[Attempt]:
    return await store.jobs.attempts(job_id)


async def named(nodes: Any) -> set[UUID]:
    return {node.id for node in await nodes}


async def ordered(claims: Any) -> list[Claim]:
    return sorted(await claims)


async def refused(answer: Any) -> bool:
    try:
        await answer
    except Conflict:
        return True
    return False


@pytest.fixture
def lives(postgres_url: str, runner: asyncio.Runner) -> type[Lives]:
    Lives.url, Lives.runner = postgres_url, runner
    return Lives


def test_sqlite_postgresql_and_the_model_never_disagree(lives: type[Lives]) -> None:
    run_state_machine_as_test(lives, settings=SETTINGS)
