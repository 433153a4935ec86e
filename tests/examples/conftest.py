"""The example's package without its being installed, a database with its tables, and feeds on a local port."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, text

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "examples/daily_brief/src"
sys.path.insert(0, str(SOURCE))

import uvicorn  # noqa: E402
from k2_daily_brief import database  # noqa: E402
from k2_daily_brief.settings import Settings  # noqa: E402
from k2_daily_brief.tables import metadata  # noqa: E402

from tests import postgres  # noqa: E402
from tests.conftest import BACK_ENDS  # noqa: E402
from tests.examples.feed_server import FeedServer  # noqa: E402

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


@pytest.fixture
def now() -> datetime:
    return NOW


@pytest.fixture(scope="session")
def brief_postgres(postgres_server: postgres.Server, worker_id: str) -> str:
    """The address of a PostgreSQL database for the example alone, with its tables."""
    name = f"brief_{worker_id}"
    server = create_engine(postgres_server.url().replace("postgresql:", "postgresql+psycopg:"))
    with server.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f"create database {name}"))
    server.dispose()
    url = postgres_server.url(name)
    engine = database.connect(url)
    database.create_tables(engine)
    engine.dispose()
    return url


@pytest.fixture(params=BACK_ENDS)
def brief_url(request: pytest.FixtureRequest) -> str:
    """The address of a database for the example, on each back end."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "brief_postgres")
    return url


@pytest.fixture
def engine(brief_url: str) -> Iterator[Engine]:
    """The example's tables, empty, on each back end."""
    engine = database.connect(brief_url)
    database.create_tables(engine)
    empty(engine)
    yield engine
    engine.dispose()


def empty(engine: Engine) -> None:
    with database.writing(engine) as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())


@pytest.fixture
def feed_server(runner: asyncio.Runner) -> Iterator[FeedServer]:
    """A server of feeds that behaves as a test says."""
    server = FeedServer()
    runner.run(server.start())
    yield server
    runner.run(server.stop())


@pytest.fixture
def settings(feed_server: FeedServer) -> Settings:
    return Settings(feeds=(), feed_timeout=5.0)


@pytest.fixture
def site(brief_url: str, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The web application, served for real on a free port; its address."""
    from k2_daily_brief.web import app, samples

    monkeypatch.setenv("DATABASE_URL", brief_url)
    monkeypatch.setattr(samples, "SLOW_SECONDS", 0.2)
    started = datetime.now(UTC)
    monkeypatch.setattr(samples, "_now", lambda: started)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app.app, log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join()
    listening.close()
