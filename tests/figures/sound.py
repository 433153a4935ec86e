"""What every verdict has, however small the run was that it came of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import isclose, isfinite
from pathlib import Path

from bench import verdict
from bench.verdict import Figure


def verify(figures: Sequence[Figure], folder: Path) -> None:
    """Each figure was measured, its fields go together, and the whole can be shown and written."""
    assert figures
    assert len({figure.name for figure in figures}) == len(figures)
    for figure in figures:
        _verify(figure)
    verdict.show(figures)
    verdict.write(figures, folder / "verdict.json")
    assert json.loads((folder / "verdict.json").read_text()) == [figure.record() for figure in figures]


def _verify(figure: Figure) -> None:
    assert figure.value is not None, f"{figure.name} was not measured: {figure.note}"
    assert isfinite(figure.value), figure
    assert (figure.bar is None) == (figure.holds is None), figure
    assert (figure.reference is None) == (figure.ratio is None), figure
    if figure.reference is not None and figure.ratio is not None:
        assert figure.reference > 0, figure
        assert isclose(figure.ratio, figure.value / figure.reference, rel_tol=0.02, abs_tol=0.002), figure
