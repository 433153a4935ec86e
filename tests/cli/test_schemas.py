"""`--schema` and ONCUE_SCHEMA: one database, the tables of several applications."""

from __future__ import annotations

import pytest

from tests.cli.agenda import rows
from tests.cli.conftest import SHOP, Shell, Start


@pytest.fixture
def database(empty_postgres: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("ONCUE_APP", SHOP)
    monkeypatch.setenv("DATABASE_URL", empty_postgres)
    return empty_postgres


def test_every_command_looks_into_the_schema_that_it_is_told(
    oncue: Shell, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = oncue("jobs")
    assert (answer.code, "no oncue tables in its schema 'public'" in answer.err) == (1, True)
    made = oncue("migrate", "--schema", "orders", "--views", "--json").json
    assert (made["schema"], made["views"]) == (
        "orders",
        ["job_runs", "executions", "delivery_attempts", "job_nodes", "cluster_jobs"],
    )
    assert "the schema blog of" in oncue("migrate", "--schema", "blog").out
    assert oncue("enqueue", "greet", "name=Ann", "--schema", "orders").code == 0
    assert len(oncue("jobs", "--schema", "orders", "--json").json) == 1
    monkeypatch.setenv("ONCUE_SCHEMA", "blog")
    assert oncue("jobs", "--json").json == []
    assert rows(database, "select count(*) from orders.oncue_jobs") == [(1,)]
    assert rows(database, "select count(*) from orders.job_runs") == [(0,)]
    checks = {check["name"]: check for check in oncue("doctor", "--json").json["checks"]}
    assert checks["schema"]["detail"].endswith("in the schema blog")


def test_a_worker_works_in_its_schema(oncue: Shell, database: str, start: Start) -> None:
    for schema in ("orders", "blog"):
        assert oncue("migrate", "--schema", schema).code == 0
        assert oncue("enqueue", "greet", "name=Ann", "--schema", schema).code == 0
    worker = start(database, "worker", "--schema", "orders")
    worker.until(lambda: oncue("jobs", "--schema", "orders", "--status", "succeeded", "--json").json)
    assert [job["status"] for job in oncue("jobs", "--schema", "blog", "--json").json] == ["queued"]


def test_a_schema_that_cannot_be_one_is_bad_usage(oncue: Shell, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = oncue("jobs", "--schema", "My Shop")
    assert (answer.code, answer.err.startswith("oncue: --schema: expected 1 to 40 lower-case letters")) == (2, True)
    monkeypatch.setenv("ONCUE_SCHEMA", "pg_orders")
    assert oncue("migrate").err.startswith("oncue: ONCUE_SCHEMA: expected")


@pytest.mark.parametrize("command", [("worker",), ("migrate",), ("enqueue", "greet"), ("jobs",)])
def test_on_sqlite_a_schema_is_bad_usage(oncue: Shell, sqlite_shop: str, command: tuple[str, ...]) -> None:
    answer = oncue(*command, "--schema", "orders")
    assert (answer.code, "on SQLite an application has a file of its own" in answer.err) == (2, True)
