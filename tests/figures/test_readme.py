"""The README's table of figures is what `python -m bench table` writes: its words, its rows, its form."""

from __future__ import annotations

import re
from typing import Any

import pytest

from bench import readme
from bench.__main__ import FIGURES
from bench.readme import AMOUNTS, BEGIN, END, README, ROWS, Run, amounts_of, incomplete, rewritten, table

RUN = Run(cores=2, postgresql=15, runs=5, amounts=amounts_of(AMOUNTS))
NAMES = (
    *FIGURES, "drain_pg_two / one", "claim_scaling queued", "claim_scaling finished", "tick_scaling statements",
    "tick_scaling pages", "tick_scaling time", "global_limit, most at once",
    "groups drain, limited", "groups drain, of one job", "groups claim without a group", "groups claim of others",
    "groups rate of a group, worst second",
    *(f"{figure} / {peer}" for figure, peer in (
        ("drain_pg", "graphile_worker"), ("drain_pg", "pgqueuer"), ("drain_pg", "procrastinate"),
        ("drain_pg", "celery"), ("pickup_p50", "pgqueuer"), ("pickup_p50", "procrastinate"),
        ("drain_sqlite", "huey"), ("slots_per_second", "apscheduler"))),
)  # fmt: skip
FULL: dict[str, dict[str, Any]] = {
    name: {"name": name, "value": 51_234.0, "reference": 98_765.0, "ratio": 0.52} for name in NAMES
}


def masked(text: str) -> str:
    """The words without their numbers."""
    return re.sub(r"\d[\d,.]*\d|\d", "#", text)


def block() -> str:
    _, _, rest = README.read_text("utf-8").partition(BEGIN)
    found, end, _ = rest.partition(END)
    assert end, "README.md has lost the marks between which its figures are written"
    return found


def test_the_table_in_the_readme_has_the_form_that_the_command_writes() -> None:
    """Peers that did not take part in the run are not in it."""
    shown, written = masked(block()).splitlines(), masked(table(FULL, RUN)).splitlines()
    assert len(shown) == len(written)
    for line, wanted in zip(shown, written, strict=True):
        cells, wanted_cells = line.split("|"), wanted.split("|")
        assert cells[:-2] == wanted_cells[:-2]
        if len(cells) > 2:
            assert set(cells[-2].strip().split("; ")) <= set(wanted_cells[-2].strip().split("; "))


def test_only_what_is_between_the_marks_is_written() -> None:
    before = README.read_text("utf-8")
    after = rewritten(before, table(FULL, RUN))
    assert "| 51,200 a second |" in after
    assert rewritten(after, block()) == before


def test_every_row_is_of_a_figure_and_needs_a_full_run() -> None:
    assert {row.figure for row in ROWS} <= set(FIGURES)
    assert not incomplete(FULL, RUN)
    without = {name: found for name, found in FULL.items() if name != "memory"}
    assert incomplete(without, RUN) == ["memory"]
    quick = Run(2, 15, 5, {**RUN.amounts, "slots": 30_000})
    assert incomplete(FULL, quick) == ["slots=100000"]


def test_a_table_without_a_run_is_refused(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readme, "FIGURES", tmp_path / "bench.json")
    with pytest.raises(SystemExit, match="make bench"):
        readme.main()
