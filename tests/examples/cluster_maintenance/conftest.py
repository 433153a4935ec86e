"""The program without its being installed, on each back end; its nodes end with the test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import BACK_ENDS
from tests.examples.conftest import ROOT

SOURCE = ROOT / "examples/cluster_maintenance/src"
sys.path.insert(0, str(SOURCE))

from tests.examples.cluster_maintenance.program import Program  # noqa: E402

MakeProgram = Callable[..., Program]


@pytest.fixture(params=BACK_ENDS)
def program_url(request: pytest.FixtureRequest) -> str:
    """The address of an empty database, on each back end."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "empty_postgres")
    return url


@pytest.fixture
def make_program(tmp_path: Path) -> Iterator[MakeProgram]:
    made: list[Program] = []

    def make(url: str, **environment: str) -> Program:
        made.append(Program(url, tmp_path, **environment))
        return made[-1]

    yield make
    for program in made:
        program.close()


@pytest.fixture
def program(program_url: str, make_program: MakeProgram) -> Program:
    return make_program(program_url)
