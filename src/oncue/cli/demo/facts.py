"""What the demo's database says: while it runs, and at the end.

The account at the end does not trust the engine. A trigger, which the engine knows nothing of, writes down every
write that gives a job a terminal state; a job with two of them was settled twice. A job is lost if its enqueue was
acknowledged and it is not there, or not in a terminal state. Scheduled jobs are counted apart, by their slots.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from oncue.model import TERMINAL, WAITING
from oncue.policy.audit import Audit

WITNESS = """
create table demo_settlements (job_id integer not null, claim_no integer not null, state text not null);
create trigger demo_settled after update of state on oncue_jobs
    when new.state in ('succeeded', 'failed', 'cancelled', 'skipped')
    begin insert into demo_settlements values (new.id, new.claim_no, new.state); end;
"""


@dataclass(frozen=True, slots=True)
class DemoCounts:
    """The jobs of the demo, counted at one instant."""

    tasks: dict[str, Counter[str]] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    done_by: dict[str, int] = field(default_factory=dict)
    nodes: frozenset[str] = frozenset()
    retried: int = 0
    cut_short: int = 0

    def total(self, states: Iterable[str]) -> int:
        return sum(counts[state] for counts in self.tasks.values() for state in states)

    @property
    def done(self) -> int:
        return self.total(TERMINAL)

    @property
    def waiting(self) -> int:
        return self.total(WAITING)

    @property
    def running(self) -> int:
        return self.total(("running",))


@dataclass(frozen=True, slots=True)
class Account:
    """What became of every job."""

    enqueued: int
    done: int
    states: dict[str, int]
    retried: int
    cut_short: int
    repeated: int
    lost: list[int]
    settled_twice: list[int]
    slots: Audit | None = None

    @property
    def holds(self) -> bool:
        return not self.lost and not self.settled_twice and (self.slots is None or self.slots.holds)


class Facts:
    """Reads the demo's database directly, beside the engine."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, timeout=30, isolation_level=None)
        self._names: dict[str, str] = {}

    def close(self) -> None:
        self._connection.close()

    def place_witness(self) -> None:
        self._connection.executescript(WITNESS)

    def _rows(self, statement: str) -> list[tuple[str, ...]]:
        return self._connection.execute(statement).fetchall()

    def _number(self, statement: str) -> int:
        number: int = self._connection.execute(statement).fetchone()[0]
        return number

    # --- while it runs ------------------------------------------------------------------------------------------

    def moment(self) -> DemoCounts:
        alive = self._rows("select id, name from oncue_nodes where lost_at is null")
        self._names.update((node, name) for node, name in alive)
        tasks: dict[str, Counter[str]] = {}
        for task, state, jobs in self._connection.execute(
            "select task, state, count(*) from oncue_jobs where schedule_id is null group by task, state"
        ):
            tasks.setdefault(task, Counter())[state] = jobs
        return DemoCounts(
            tasks=tasks,
            held=self._by_node("state = 'running'"),
            done_by=self._by_node("state in ('succeeded', 'failed', 'cancelled', 'skipped')"),
            nodes=frozenset(name for _, name in alive),
            retried=self._retried(),
            cut_short=self._cut_short(),
        )

    def _by_node(self, condition: str) -> dict[str, int]:
        found = self._connection.execute(
            f"select node_id, count(*) from oncue_jobs where {condition} and schedule_id is null group by node_id"
        )
        return {self._names.get(node, "?"): jobs for node, jobs in found}

    def held_by(self, name: str) -> list[int]:
        """The jobs that a worker is running."""
        found = self._connection.execute(
            "select j.id from oncue_jobs j join oncue_nodes n on n.id = j.node_id "
            "where j.state = 'running' and j.schedule_id is null and n.name = ?",
            (name,),
        )
        return [job_id for (job_id,) in found]

    def unfinished(self, ids: Iterable[int]) -> list[int]:
        finished = self._finished()
        return [job_id for job_id in ids if job_id not in finished]

    def _finished(self) -> set[int]:
        found = self._connection.execute(
            "select id from oncue_jobs where state in ('succeeded', 'failed', 'cancelled', 'skipped')"
        )
        return {job_id for (job_id,) in found}

    def settled_twice(self) -> int:
        """How many jobs were given a final state more than once so far."""
        return self._number("select count(*) from (select 1 from demo_settlements group by job_id having count(*) > 1)")

    def _retried(self) -> int:
        return self._number("select count(*) from oncue_attempts where outcome = 'failed'")

    def _cut_short(self) -> int:
        return self._number("select count(*) from oncue_attempts where outcome = 'node_lost'")

    # --- at the end ---------------------------------------------------------------------------------------------

    def account(self, acknowledged: Iterable[int]) -> Account:
        """`acknowledged` are the jobs whose enqueue was confirmed, as their caller remembers them."""
        ids = list(acknowledged)
        states: Counter[str] = Counter(
            state for (state,) in self._rows("select state from oncue_jobs where schedule_id is null")
        )
        twice = self._connection.execute(
            "select job_id from demo_settlements group by job_id having count(*) > 1 order by job_id"
        )
        repeated = self._number(
            "select count(*) from oncue_jobs where state = 'succeeded' and id in "
            "(select job_id from oncue_attempts where outcome = 'node_lost')"
        )
        return Account(
            enqueued=len(ids),
            done=sum(jobs for state, jobs in states.items() if state in TERMINAL),
            states=dict(states),
            retried=self._retried(),
            cut_short=self._cut_short(),
            repeated=repeated,
            lost=self.unfinished(ids),
            settled_twice=[job_id for (job_id,) in twice],
        )
