"""Where jobs wait that have a seat and may not begin yet: those whose process died under them before.

Such a job begins only once the database knows that it does. If the process dies again, the database tells which jobs
had begun, and the others are not charged. A job that must run alone waits until nothing else runs in this process. Its
node claims nothing meanwhile, and gives the job back if that takes too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

from oncue.clock import Clock
from oncue.engine.service import Signal
from oncue.model import Claim, Started
from oncue.policy.suspicion import ALONE, ROOM, isolation_of
from oncue.store.contract import Store

Answer: TypeAlias = Callable[[bool | None], None]
"""What a job that waits is told: to begin, or that it is no longer this node's; None if it was withdrawn."""

IDLE_SECONDS = 60.0


class PendingStarts:
    """The jobs that wait to begin. Here none does: each begins at once."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, int], tuple[Claim, Answer]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Claim]:
        return (claim for claim, _ in self._waiting.values())

    def request(self, claim: Claim, answer: Answer) -> None:
        """There is a seat for this claim."""
        answer(True)

    def remove(self, job_id: int, claim_no: int) -> list[Claim]:
        """Withdraw a claim, if it waits here. The caller says what becomes of it."""
        found = self._waiting.pop((job_id, claim_no), None)
        if found is None:
            return []
        claim, answer = found
        answer(None)
        return [claim]

    def drop(self, claimed_before: datetime | None = None) -> list[Claim]:
        """Withdraw everything, or what was claimed by then. A job that is to run alone may wait for much longer."""
        late = [claim for claim in self if claimed_before is None or _is_late(claim, claimed_before)]
        return [withdrawn for claim in late for withdrawn in self.remove(claim.id, claim.claim_no)]


class RecordedStarts(PendingStarts):
    """Records the begin of a job before it lets the job begin. `running`: how many attempts run in this process."""

    name = "recorded_starts"

    def __init__(self, store: Store, clock: Clock, running: Callable[[], int], *, poll: float) -> None:
        super().__init__()
        self.signal = Signal()
        self._store = store
        self._clock = clock
        self._running = running
        self._poll = timedelta(seconds=poll)

    def request(self, claim: Claim, answer: Answer) -> None:
        self._waiting[claim.id, claim.claim_no] = claim, answer
        self.signal.set()

    def look(self) -> None:
        """An attempt has ended: perhaps that was the last one beside a job that must run alone."""
        if self._waiting:
            self.signal.set()

    async def tick(self, now: datetime) -> datetime:
        ready = self._ready()
        if ready:
            await self._record(ready)
        return now + (self._poll if self._waiting else timedelta(seconds=IDLE_SECONDS))

    async def quiet_until(self, now: datetime, store: Store) -> datetime | None:
        return now if self._waiting else None

    def _ready(self) -> list[Claim]:
        """The jobs that may run beside others; or the job that must run alone, once nothing else runs."""
        beside_others = [claim for claim in self if isolation_of(claim) < ALONE]
        return beside_others or (list(self) if not self._running() else [])

    async def _record(self, ready: Sequence[Claim]) -> None:
        began = self._clock.now()
        still_ours = await self._store.jobs.begin([Started(claim.id, claim.claim_no, began) for claim in ready])
        for claim, may in zip(ready, still_ours, strict=True):
            if may is None:  # another session holds its row: it waits for the next look
                continue
            _, answer = self._waiting.pop((claim.id, claim.claim_no), (claim, None))
            if answer is not None:
                answer(may)


def _is_late(claim: Claim, claimed_before: datetime) -> bool:
    return claim.claimed_at <= (claimed_before - ROOM if isolation_of(claim) == ALONE else claimed_before)
