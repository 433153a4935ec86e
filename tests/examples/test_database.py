"""The database: oncue's address is ours too, and the tables appear once, whoever comes first."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest
from k2_daily_brief import database
from k2_daily_brief.tables import metadata
from sqlalchemy import inspect

from oncue import ConfigError
from tests.examples.conftest import ROOT, SOURCE

CREATE = "import sys; from k2_daily_brief import database; database.create_tables(database.connect(sys.argv[1]))"


@pytest.mark.parametrize("back_end", ["sqlite_url", "empty_postgres"])
def test_many_processes_create_the_tables_at_once(request: pytest.FixtureRequest, back_end: str) -> None:
    url: str = request.getfixturevalue(back_end)
    environment = {**os.environ, "PYTHONPATH": f"{SOURCE}:{ROOT / 'src'}"}
    processes = [subprocess.Popen([sys.executable, "-c", CREATE, url], env=environment) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    engine = database.connect(url)
    assert set(metadata.tables) <= set(inspect(engine).get_table_names())
    engine.dispose()


def test_oncue_and_the_example_share_one_sqlite_file(sqlite_url: str, runner: asyncio.Runner) -> None:
    from oncue.store import connect

    engine = database.connect(sqlite_url)
    database.create_tables(engine)
    store = connect(sqlite_url)

    async def opened() -> None:
        await store.open()
        await store.close()

    runner.run(opened())
    tables = inspect(engine).get_table_names()
    assert {"raw_articles", "oncue_jobs"} <= set(tables)
    engine.dispose()


def test_another_database_is_refused() -> None:
    with pytest.raises(ConfigError, match="DATABASE_URL"):
        database.connect("mysql://localhost/brief")
