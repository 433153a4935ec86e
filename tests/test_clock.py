"""The bounds of the database's time, whatever the trips of its answers took and wherever its clock went."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from oncue.clock import DatabaseClock

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class Bench:
    """A database whose clock we set, asked over trips whose length we set."""

    def __init__(self) -> None:
        self.elapsed = 1000.0
        self.ahead = 0.0
        self.clock = DatabaseClock(lambda: self.elapsed)

    @property
    def true_time(self) -> datetime:
        return NOON + timedelta(seconds=self.elapsed - 1000.0 + self.ahead)

    def ask(self, there: float = 0.01, back: float = 0.01) -> None:
        sent = self.clock.sent()
        self.elapsed += there
        told = self.true_time
        self.elapsed += back
        self.clock.learn(told, sent)

    def off(self) -> tuple[float, float]:
        """How far the two readings are from the truth."""
        lower, upper = self.clock.now() - self.true_time, self.clock.latest() - self.true_time
        return lower.total_seconds(), upper.total_seconds()


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize(("there", "back"), [(0.0, 0.0), (0.5, 0.01), (0.01, 0.5), (3.0, 3.0)])
def test_now_is_never_ahead_and_latest_never_behind(bench: Bench, there: float, back: float) -> None:
    for _ in range(3):
        bench.ask(there, back)
        bench.elapsed += 7.0
        lower, upper = bench.off()
        assert -back - 1e-6 <= lower <= 1e-6
        assert -1e-6 <= upper <= there + 1e-6


def test_a_slow_answer_does_not_spoil_what_a_fast_one_told(bench: Bench) -> None:
    bench.ask(0.001, 0.001)
    bench.ask(2.0, 2.0)
    lower, upper = bench.off()
    assert (lower, upper) == pytest.approx((-0.001, 0.001), abs=1e-6)


@pytest.mark.parametrize("step", [-86400.0, -20.0, 20.0, 86400.0])
def test_when_the_databases_clock_steps_ours_follows_at_the_next_answer(bench: Bench, step: float) -> None:
    bench.ask()
    bench.ahead += step
    bench.ask()
    lower, upper = bench.off()
    assert (lower, upper) == pytest.approx((-0.01, 0.01), abs=1e-6)


def test_readings_can_be_dated_back(bench: Bench) -> None:
    bench.ask(0.0, 0.0)
    then = bench.clock.monotonic()
    bench.elapsed += 60.0
    assert bench.clock.now() - bench.clock.at(then) == timedelta(seconds=60)
