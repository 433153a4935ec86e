"""A tiny run of every figure of `make bench`. What it measures means nothing; that it measures is what is tested."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import figures
from bench.__main__ import FIGURES, attempt
from bench.database import Server
from bench.figures.context import Bench
from bench.settings import TINY
from tests import postgres
from tests.figures.sound import verify

HELPERS = {"__init__", "context", "peers"}


@pytest.fixture
def tiny(postgres_server: postgres.Server) -> Bench:
    return Bench(Server(postgres_server.url("{}")), TINY)


def test_every_file_of_a_figure_is_in_the_registry() -> None:
    files = {path.stem for path in Path(figures.__path__[0]).glob("*.py")}
    assert files - HELPERS == set(FIGURES)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.contract("HOOK-20")) if name == "hook20" else name for name in FIGURES],
)
def test_a_figure_comes_to_its_verdict(name: str, tiny: Bench, tmp_path: Path) -> None:
    found = attempt(name, FIGURES[name].measure, tiny)
    verify(found, tmp_path)
    assert all(figure.name.startswith(name) for figure in found)
    assert all(figure.bar for figure in found)
    assert name != "hook20" or found[0].value, "deliveries of its schedules have arrived"


@pytest.mark.parametrize("name", FIGURES)
def test_the_bare_loop_of_a_figure_runs_alone(name: str, tiny: Bench, tmp_path: Path) -> None:
    found = attempt(f"bare {name}", FIGURES[name].bare, tiny)
    if found:  # a bar that is an amount has nothing to compare with
        verify(found, tmp_path)
