"""What the recorder tells of cluster jobs: their parts, and what becomes of these with a call that is about others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, cast
from uuid import UUID

from oncue.model import TERMINAL, Change, Job, State
from oncue.sim.history import micros, micros_or_none, row_event, spread_event
from oncue.sim.watched import WatchedStore
from oncue.store.contract import Store


class Add(Protocol):
    def __call__(self, kind: str, **fields: Any) -> None: ...


class RecordedParts:
    """Beside the database of one recorder. What it reads, it reads in the instant of a commit."""

    def __init__(self, store: Store, labels: Mapping[UUID, str], add: Add) -> None:
        self._store = cast(WatchedStore, store)
        self._labels = labels
        self._add = add
        self._open: list[Job] = []
        self._rows: int | None = None

    @property
    def are_any(self) -> bool:
        return self._store.has_cluster_jobs

    async def note_spread(self, job_id: int, now: datetime, epoch: int) -> None:
        """A cluster job has its parts: each is a job."""
        self._store.has_cluster_jobs = True
        (cluster,) = await self._store.cluster.get([job_id], now)
        self._add("spread", **spread_event(cluster, epoch, self._labels))
        for part in cluster.parts:
            row = None if part.job_id is None else await self._store.jobs.get(part.job_id)
            if row is not None:
                self._add("job", **row_event(row), whole=job_id)

    async def note_addresses(self, node: UUID) -> None:
        """A node has a name, and the parts that were addressed to its id are addressed to that."""
        for job_id, address in await self._store.part_addresses(node) if self.are_any else ():
            self._add("address", id=job_id, address=address)

    async def look(self, verb: str, args: Sequence[Any]) -> None:
        """Before a call: what it may do to parts beside that which it is about."""
        if verb == "jobs.apply":
            self._open = await self._parts_of([change.id for change in args[0] if change.state in TERMINAL])
        elif verb == "jobs.prune":
            self._rows = await self._store.count_jobs()

    async def _parts_of(self, ending: list[int]) -> list[Job]:
        """The open parts of those among these jobs that are cluster jobs."""
        rows = [await self._store.jobs.get(job_id) for job_id in await self._store.parts_of(ending)] if ending else []
        return [row for row in rows if row is not None and not row.finished]

    async def note_ended(self, written: Mapping[int, Change]) -> None:
        """What the ends of cluster jobs have made of their parts: these have ended too, or are asked to stop."""
        found, self._open = self._open, []
        for was in found:
            own, row = written.get(was.id), await self._store.jobs.get(was.id)
            state = was.state if own is None else own.state
            if row is None:
                continue
            if row.deadline_at != was.deadline_at:
                self._add("deadline", id=row.id, deadline_at=micros_or_none(row.deadline_at))
            if row.state != state:
                self._add("change", **_ended(state, row))
            elif row.cancel_requested_at is not None and was.cancel_requested_at is None:
                self._add("cancel", id=row.id, claim_no=row.claim_no)

    async def pruned(self, gone: int) -> int:
        """How many jobs were deleted: the parts go with their cluster job, and are not counted by the call."""
        return gone if self._rows is None else self._rows - await self._store.count_jobs()


def _ended(state: State, row: Job) -> dict[str, Any]:
    names = ("claim_no", "state", "reason", "retry_count", "attempt", "crashes", "error")
    return {
        "id": row.id,
        "from_state": state,
        "outcome": None,
        "visible_at": micros(row.visible_at),
        "started_at": micros_or_none(row.started_at),
        "ended_at": micros_or_none(row.finished_at),
        "accepted": True,
        **{name: getattr(row, name) for name in names},
    }
