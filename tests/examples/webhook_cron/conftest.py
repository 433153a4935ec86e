"""The program without its being installed, a database of its own on each back end, and a server that it calls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import BACK_ENDS
from tests.examples.conftest import ROOT

SOURCE = ROOT / "examples/webhook_cron/src"
sys.path.insert(0, str(SOURCE))

from tests.examples.webhook_cron.program import Program  # noqa: E402
from tests.examples.webhook_cron.receiver import Receiver  # noqa: E402

MakeProgram = Callable[..., Program]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture(params=BACK_ENDS)
def cron_url(request: pytest.FixtureRequest) -> str:
    """The address of an empty database, on each back end."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "empty_postgres")
    return url


@pytest.fixture
def make_program(tmp_path: Path) -> Iterator[MakeProgram]:
    """Makes programs on a database, whose processes end with the test."""
    made: list[Program] = []

    def make(url: str, **environment: str) -> Program:
        made.append(Program(url, tmp_path, **environment))
        return made[-1]

    yield make
    for program in made:
        program.close()


@pytest.fixture
def program(make_program: MakeProgram, cron_url: str) -> Program:
    """The program on each back end, serving."""
    program = make_program(cron_url)
    program.serve()
    return program
