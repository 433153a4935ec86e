"""A tiny run of every part of `make chaos`: real processes, killed, stopped and cut off."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chaos.__main__ import BARS, measured
from chaos.parts import FULL, PARTS, QUICK, TINY, Order
from tests import postgres
from tests.figures.sound import verify


@pytest.mark.contract("HOOK-12", "QUE-9", "QUE-18")
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
