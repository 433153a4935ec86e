"""Random work under random faults on a limited queue: never more jobs at once than its limit, and none is stuck."""

from __future__ import annotations

import pytest

from oncue.policy import seats
from oncue.sim.runs import simulate
from oncue.store.sqlite.queues import SqliteQueues

PROMISE = "a limited queue keeps its limit"
CHUNK = 10


@pytest.mark.parametrize("limit", [1, 4])
@pytest.mark.parametrize("first", range(0, 20, CHUNK))
def test_a_limit_is_kept_under_faults(first: int, limit: int) -> None:
    most = 0
    for seed in range(first, first + CHUNK):
        world, violations = simulate(seed, limit=limit)
        most = max(most, *(member.executor.most_running for member in world.members.values()))
        world.close()
        assert not violations, f"seed {seed}, limit {limit}: " + "\n".join(map(str, violations))
    assert most > 1 or limit == 1, "a cluster that runs one job at a time would keep any limit"


def caught(limit: int = 2, seeds: int = 40) -> set[str]:
    """The promises that are broken, up to the first seed that breaks one."""
    for seed in range(seeds):
        world, violations = simulate(seed, limit=limit)
        world.close()
        if violations:
            return {violation.promise for violation in violations}
    return set()


def test_seats_that_others_hold_are_taken_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seats, "free", lambda limit, name, nodes: limit)
    assert PROMISE in caught()


def test_seats_that_are_given_back_before_the_jobs_in_them_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hasty(self: SqliteQueues, queue: str, version: int, node: object, taken: int, wanted: int) -> bool:
        return await real(self, queue, version, node, min(taken, wanted, 1), wanted)  # type: ignore[arg-type]

    real = SqliteQueues.take_seats
    monkeypatch.setattr(SqliteQueues, "take_seats", hasty)
    assert PROMISE in caught(3)
