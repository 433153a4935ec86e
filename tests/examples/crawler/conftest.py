"""The crawler's package without its being installed, a database of its own on each back end, and sites to crawl."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Engine, create_engine, text

from tests import postgres
from tests.conftest import BACK_ENDS
from tests.examples.conftest import ROOT

SOURCE = ROOT / "examples/crawler/src"
sys.path.insert(0, str(SOURCE))

from community_crawler import database  # noqa: E402
from community_crawler.site.server import Manners, Site  # noqa: E402
from community_crawler.tables import metadata  # noqa: E402

from tests.examples.crawler.serving import Served  # noqa: E402

Serve = Callable[..., Served]


@pytest.fixture(params=BACK_ENDS)
def crawler_url(request: pytest.FixtureRequest) -> str:
    """The address of an empty database, on each back end."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "empty_postgres")
    return url


@pytest.fixture(scope="session")
def crawler_postgres(postgres_server: postgres.Server, worker_id: str) -> str:
    """The address of a PostgreSQL database for the crawler's tables alone. Emptying it is faster than making one."""
    name = f"crawler_{worker_id}"
    server = create_engine(postgres_server.url().replace("postgresql:", "postgresql+psycopg:"))
    with server.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f"create database {name}"))
    server.dispose()
    return postgres_server.url(name)


@pytest.fixture(params=BACK_ENDS)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """The crawler's tables, empty, on each back end."""
    url = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "crawler_postgres")
    engine = database.connect(url)
    database.create_tables(engine)
    with database.writing(engine) as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
    yield engine
    engine.dispose()


@pytest.fixture
def serve(runner: asyncio.Runner) -> Iterator[Serve]:
    """Serves generated sites in the test's own event loop, for as long as it lasts."""
    served: list[Served] = []

    def start(size: int, manners: Manners | None = None) -> Served:
        one = Served(Site(size, manners=manners))
        runner.run(one.start())
        served.append(one)
        return one

    yield start
    for one in served:
        runner.run(one.stop())
