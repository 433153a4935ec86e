"""The program without its being installed, its tables on each back end, and a model behind HTTP."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests import postgres
from tests.conftest import BACK_ENDS
from tests.examples.conftest import ROOT

SOURCE = ROOT / "examples/news_agent/src"
sys.path.insert(0, str(SOURCE))

from news_agent import database, jobs  # noqa: E402
from news_agent.model import Prompt  # noqa: E402
from news_agent.tables import metadata  # noqa: E402

from oncue.settings import load  # noqa: E402
from oncue.testing import Kit, use  # noqa: E402
from tests.examples.news_agent.endpoint import Endpoint  # noqa: E402
from tests.examples.news_agent.program import Program  # noqa: E402

MakeProgram = Callable[..., Program]
NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)


class Scripted:
    """A model that does what a test says: each script is a text, an error, or a function that makes the text."""

    name = "scripted"

    def __init__(self) -> None:
        self.asked: list[Prompt] = []
        self.script: list[str | Exception | Callable[[], str]] = ["Today's news"]
        """The last one is used again and again."""

    async def answer(self, prompt: Prompt) -> str:
        self.asked.append(prompt)
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(step, Exception):
            raise step
        return step if isinstance(step, str) else step()


@pytest.fixture(scope="session")
def news_postgres(postgres_server: postgres.Server, worker_id: str) -> str:
    """The address of a PostgreSQL database for the program's tables alone. Emptying it is faster than making one."""
    name = f"news_{worker_id}"
    server = create_engine(postgres_server.url().replace("postgresql:", "postgresql+psycopg:"))
    with server.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f"create database {name}"))
    server.dispose()
    return postgres_server.url(name)


@pytest.fixture(params=BACK_ENDS)
def news_url(request: pytest.FixtureRequest) -> str:
    """The address of a database for the program's tables, empty, on each back end."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "news_postgres")
    engine = database.connect(url)
    database.create_tables(engine)
    with database.writing(engine) as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
    engine.dispose()
    return url


@pytest.fixture
def kit(news_url: str) -> Iterator[Kit]:
    """The program's jobs in the test kit, under a clock that the test moves; its own tables on each back end."""
    jobs.forget()
    jobs.app.configure(load(environment={}, code={"database_url": news_url}))
    with use(jobs.app, now=NOON) as kit:
        yield kit
    jobs.forget()


@pytest.fixture
def scripted(kit: Kit) -> Iterator[Scripted]:
    """The model of the test kit's handlers."""
    with jobs.the_model.replaced(Scripted()) as model:
        yield model


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as endpoint:
        yield endpoint


@pytest.fixture(params=BACK_ENDS)
def program_url(request: pytest.FixtureRequest) -> str:
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
