"""The claims of this node that are not settled yet, and the outcomes that wait to be written.

A claim is in flight from the reply that brought it until its outcome is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from oncue.engine.service import Signal
from oncue.model import Claim
from oncue.policy.lifecycle import Ended
from oncue.policy.suspicion import ALONE, isolation_of


class InFlight:
    def __init__(self, batch: int) -> None:
        """`batch`: how many outcomes one write holds."""
        self._batch = batch
        self.claims: dict[tuple[int, int], Claim] = {}
        """By job and claim number: a node may claim a job again before it has settled its last claim of it."""
        self.refused: set[tuple[int, int]] = set()
        """Claims whose outcomes the database refuses. They have ended; their maximum runtime ends them there too."""
        self.ended: list[Ended] = []
        self._taken: dict[str, list[Ended]] = {}
        """What each settler is writing. It keeps it until the database has answered."""
        self.locked: list[Ended] = []
        """Outcomes that cannot be written yet: another session holds the rows."""
        self.isolated: Counter[int] = Counter()
        """How many of the claims run in a cohort or alone, by their isolation."""
        self.closed_since: datetime | None = None
        """When the job was claimed that had this node for itself and was settled last: now others have their turn."""
        self.has_ended = Signal()
        self.has_whole_batch = Signal()
        self.isolation_changed = Signal()
        self.left_group = Signal()
        """A job of a group was settled: there may be room for another one of it."""
        self.flushed = Signal()

    def add(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            self.claims[claim.id, claim.claim_no] = claim
            if claim.crashes:
                self.isolated[isolation_of(claim)] += 1

    def remove(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            self.claims.pop((claim.id, claim.claim_no), None)
            if claim.group is not None:
                self.left_group.set()
            if claim.crashes:
                self.isolated[isolation_of(claim)] -= 1
                if isolation_of(claim) == ALONE:
                    self.closed_since = claim.claimed_at
                self.isolation_changed.set()

    @property
    def closed(self) -> bool:
        """Whether nothing else begins here: there is a job that must run alone."""
        return self.isolated[ALONE] > 0

    @property
    def unwritten(self) -> list[Ended]:
        """The outcomes that the database has not answered for, but for those whose rows are locked."""
        return [*(ended for batch in self._taken.values() for ended in batch), *self.ended]

    @property
    def is_settled(self) -> bool:
        """Whether the database has answered for every outcome."""
        return not (self.ended or self._taken or self.locked)

    def take(self, settler: str, limit: int, *, at_least: int) -> list[Ended]:
        """The next outcomes for a settler to write: the same as before, if it could not write those."""
        batch = self._taken.get(settler)
        if batch is None and len(self.ended) >= at_least:
            batch = self._taken[settler] = self.ended[:limit]
            del self.ended[:limit]
        return batch or []

    def settled(self, settler: str, locked: list[Ended]) -> None:
        """The database has answered for what a settler took, all but what is locked."""
        del self._taken[settler]
        self.locked += locked

    def end(self, ended: Ended) -> None:
        if not self.ended:
            self.has_ended.set()
        self.ended.append(ended)
        if len(self.ended) == self._batch:
            self.has_whole_batch.set()
