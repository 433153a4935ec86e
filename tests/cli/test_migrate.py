"""`oncue migrate --views`: the ledger in words that a report understands."""

from __future__ import annotations

import pytest

from tests.cli.agenda import execute, rows, worked_off
from tests.cli.conftest import DIARY, Shell

VIEWS = ["job_runs", "executions", "delivery_attempts", "job_nodes", "cluster_jobs"]


@pytest.fixture(params=["sqlite_url", "empty_postgres"])
def own_database(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database of its own: its views go with it."""
    url: str = request.getfixturevalue(request.param)
    monkeypatch.setenv("ONCUE_APP", DIARY)
    monkeypatch.setenv("DATABASE_URL", url)
    return url


@pytest.mark.contract("SLOT-6")
def test_runs_can_be_queried(oncue: Shell, own_database: str) -> None:
    assert oncue("migrate", "--json").json["views"] == []
    made = oncue("migrate", "--views").out
    assert all(f"The view {name} is there." in made for name in VIEWS)
    oncue("schedules", "add", "daily", "0 3 * * *", "note", "text=hello")
    oncue("schedules", "add", "broken", "0 4 * * *", "forget")
    oncue("trigger", "daily", "--at", "2026-01-15T03:00:00Z")
    oncue("trigger", "broken", "--at", "2026-01-15T04:00:00Z")
    query = "select job_name, scheduled_for, status, worker_instance, error_message from job_runs order by job_name"
    assert rows(own_database, query) == [], "they have not started yet"
    worked_off(own_database)
    for _ in range(2):
        (broken, *failed), (daily, *succeeded) = rows(own_database, query)
        assert (broken, daily) == ("broken", "daily")
        assert (failed[1], succeeded[1]) == ("failed", "success")
        assert str(succeeded[0]).startswith("2026-01-15 03:00:00")
        assert "what was it?" in failed[3]
        assert (succeeded[3], succeeded[2] is not None) == (None, True)
        oncue("prune", "--older-than", "0s", "--yes")  # and once more from what the ledger kept


@pytest.mark.contract("SLOT-6")
def test_views_can_be_made_again_but_take_no_name_of_others(oncue: Shell, own_database: str) -> None:
    assert oncue("migrate", "--views", "--json").json["views"] == VIEWS
    assert oncue("migrate", "--views").code == 0
    execute(own_database, "drop view job_runs")
    execute(own_database, "create table job_runs (id integer)")
    answer = oncue("migrate", "--views")
    assert answer.code == 1
    assert answer.err == "oncue: job_runs: the database has a table or view of this name that is not oncue's\n"
    assert rows(own_database, "select count(*) from job_runs") == [(0,)]
