"""A tiny run of `make dst`: one change of the clock, and one zone that has none."""

from __future__ import annotations

from multiprocessing.pool import ThreadPool
from pathlib import Path

from dst.__main__ import KINDS, TINY, measured
from tests.figures.sound import verify


def test_clock_changes_come_to_their_verdict(tmp_path: Path) -> None:
    with ThreadPool(1) as workers:
        figures, differences = measured(workers, ["Europe/Berlin", "Etc/UTC"], TINY)
    verify(figures, tmp_path)
    assert not differences
    found = {figure.name: figure for figure in figures}
    assert all(found[f"differences_{kind}"].holds for kind in KINDS)
    assert (found["rule_sets"].value, found["transitions"].value) == (2, 1)
