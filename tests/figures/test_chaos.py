"""A tiny run of every part of `make chaos`: real processes, killed, stopped and cut off."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from chaos.__main__ import BARS, measured
from chaos.parts import FULL, PARTS, QUICK, TINY, Order
from chaos.witness import Lead, Step, elected, stale_ends, wrong_ends, wrong_epochs
from tests import postgres
from tests.figures.sound import verify


@pytest.mark.contract("HOOK-12", "QUE-9", "QUE-18", "CLUS-9", "CLUS-12", "CLUS-15")
@pytest.mark.parametrize("order", TINY, ids=[order.part for order in TINY])
def test_a_part_comes_to_its_verdict(order: Order, postgres_server: postgres.Server, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        figures, faults = measured(pool, postgres_server, (order,), seed=1)
    verify(figures, tmp_path)
    assert not faults, "\n".join(f"{promise}: {told}" for promise, told in faults)
    assert all(figure.holds is not False for figure in figures)


def test_every_part_has_its_tiny_run() -> None:
    for orders in (FULL, QUICK, TINY):
        assert {order.part for order in orders} == set(PARTS) == set(BARS)


A, B = UUID(int=1), UUID(int=2)
NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)


def lead(seconds: float, epoch: int, holder: UUID, lasts: float = 2.0) -> Lead:
    at = NOON + timedelta(seconds=seconds)
    return Lead(at, epoch, holder, at + timedelta(seconds=lasts))


def test_the_witness_knows_a_takeover_from_a_wrong_epoch() -> None:
    first, lost, second = lead(0, 1, A), lead(2.1, 2, A, 0.0), lead(2.2, 3, B)
    assert elected([first, lost, second], first) == second
    assert not list(wrong_epochs([first, lead(0.7, 1, A), lead(2.8, 2, A, 0.0), lead(2.9, 3, B)]))
    assert list(wrong_epochs([lead(0, 2, A), lead(3, 1, B)])), "it went back"
    assert list(wrong_epochs([lead(0, 1, A), lead(3, 1, B)])), "two holders"
    assert list(wrong_epochs([lead(0, 1, A), lead(1, 2, B)])), "the lease before it lasted"


def test_the_witness_knows_an_action_that_was_recorded_under_a_stale_epoch() -> None:
    claimed = Step(7, 1, "queued", "running", 1)
    assert not list(stale_ends([claimed, Step(7, 1, "running", "succeeded", 1)]))
    assert list(stale_ends([claimed, Step(7, 1, "running", "succeeded", 2)]))
    assert list(stale_ends([claimed, Step(7, 2, "running", "succeeded", 1)])), "nothing is known of this claim"


def test_the_witness_knows_a_job_that_ended_twice() -> None:
    end = Step(7, 1, "running", "succeeded", 1)
    assert not list(wrong_ends([Step(7, 1, "queued", "running", 1), end]))
    assert list(wrong_ends([end, end]))
    assert list(wrong_ends([end, Step(7, 1, "succeeded", "running", 1)]))
