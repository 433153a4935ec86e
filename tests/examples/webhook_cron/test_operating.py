"""What operators look with: the origin's SQL, the command for orphans, and the unit file."""

from __future__ import annotations

import shlex
import tomllib
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import psycopg
import pytest

from oncue.policy.durations import seconds
from tests.examples.conftest import ROOT
from tests.examples.webhook_cron.conftest import MakeProgram
from tests.examples.webhook_cron.program import EVERY_SECOND, Program
from tests.examples.webhook_cron.receiver import Receiver

EXAMPLE = ROOT / "examples/webhook_cron"

ORPHANS = """
SELECT e.id, e.job_id, e.scheduled_at, e.created_at
FROM executions e
LEFT JOIN delivery_attempts d ON d.execution_id = e.id
WHERE e.status = 'emitted'
  AND e.created_at < NOW() - INTERVAL '15 minutes'
  AND d.id IS NULL;
"""
STUCK = """
SELECT * FROM executions
WHERE status = 'emitted'
AND created_at < NOW() - INTERVAL '15 minutes';
"""
ATTEMPTS = """
SELECT * FROM delivery_attempts
WHERE execution_id = '<uuid>'
ORDER BY attempt;
"""
AGE = "update oncue_jobs set created_at = created_at - interval '20 minutes' where state in ('queued', 'retrying')"


def asked(program: Program, query: str) -> list[dict[str, Any]]:
    with psycopg.connect(program.url, row_factory=psycopg.rows.dict_row) as connection:
        return connection.execute(query).fetchall()  # type: ignore[arg-type]


@pytest.mark.contract("HOOK-16", "HOOK-11", "HOOK-22")
def test_the_origins_queries_run_unchanged(make_program: MakeProgram, empty_postgres: str, receiver: Receiver) -> None:
    program = make_program(empty_postgres)
    program.serve()
    receiver.answers("/bad", 500)
    job = program.make("a", receiver.url("/a"))
    program.make("bad", receiver.url("/bad"), retry=["1h"])
    done, tried = program.ended(program.trigger("a")), program.trigger("bad")
    program.until(lambda: program.execution(tried)["attempts"], "it is tried")
    program.asked("POST", "/api/admin/queues/webhooks/pause")
    waiting = program.trigger("a")
    assert asked(program, ORPHANS) == asked(program, STUCK) == []
    (row,) = asked(program, f"select * from executions where id = '{done['id']}'")
    assert (str(row["job_id"]), row["status"]) == (job["id"], "delivered")
    assert set(row) == {"id", "job_id", "scheduled_at", "status", "created_at"}
    (attempt,) = asked(program, ATTEMPTS.replace("<uuid>", tried))
    assert (attempt["attempt"], attempt["status_code"], attempt["error"][:8]) == (1, 500, "HTTP 500")
    assert set(attempt) == {"id", "execution_id", "attempt", "status_code", "error", "started_at", "finished_at"}
    assert asked(program, ATTEMPTS.replace("<uuid>", waiting)) == [], "only an attempt that was started has a row"
    with psycopg.connect(program.url) as connection:
        connection.execute(AGE)
    (orphan,) = asked(program, ORPHANS)
    assert str(orphan["job_id"]) == job["id"]
    assert len(asked(program, STUCK)) == 2


@pytest.mark.contract("HOOK-22")
def test_orphans_are_removed_by_a_command(make_program: MakeProgram, empty_postgres: str, receiver: Receiver) -> None:
    program = make_program(empty_postgres)
    program.serve()
    receiver.answers("/bad", 500)
    job = program.make("a", receiver.url("/a"))
    program.make("bad", receiver.url("/bad"), retry=["1h"])
    tried = program.trigger("bad")
    program.until(lambda: program.execution(tried)["attempts"], "it is tried")
    program.asked("POST", "/api/admin/queues/webhooks/pause")
    program.trigger("a")
    with psycopg.connect(program.url) as connection:
        connection.execute(AGE)
    young = program.trigger("a")
    looked = program.run("webhook_cron", "prune-orphans", "--dry-run")
    assert (looked.returncode, looked.stdout.splitlines()[-1]) == (0, "1 orphaned executions found.")
    assert len(asked(program, ORPHANS)) == 1
    pruned = program.run("webhook_cron", "prune-orphans")
    assert (pruned.returncode, pruned.stdout.splitlines()[-1]) == (0, "1 orphaned executions removed.")
    assert asked(program, ORPHANS) == []
    assert program.run("webhook_cron", "prune-orphans").stdout == "0 orphaned executions removed.\n"
    program.asked("POST", "/api/admin/queues/webhooks/resume")
    assert program.ended(young)["status"] == "delivered"
    assert sorted(one["status"] for one in program.executions(job)) == ["delivered", "failed"]
    assert len(receiver.at("/a")) == 1, "what was removed is not delivered"


def test_names_that_the_origins_own_tables_have_are_left_alone(make_program: MakeProgram, empty_postgres: str) -> None:
    with psycopg.connect(empty_postgres) as connection:
        connection.execute("create table executions (id uuid primary key)")
    service = make_program(empty_postgres).start()
    assert service.process.wait(30) == 1
    assert "executions" in service.said
    assert "Traceback" not in service.said


@pytest.mark.contract("HOOK-16")
def test_the_views_are_there_on_sqlite_too(make_program: MakeProgram, sqlite_url: str, receiver: Receiver) -> None:
    import sqlite3

    program = make_program(sqlite_url)
    program.serve()
    job = program.make("a", receiver.url("/a"), schedule=EVERY_SECOND)
    program.until(lambda: receiver.calls, "it is called")
    program.until(lambda: program.executions(job)[-1]["status"] == "delivered", "it is delivered")
    connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
    rows = connection.execute("select id, job_id, status from executions order by created_at").fetchall()
    connection.close()
    assert rows[0] == (program.executions(job)[-1]["id"], job["id"], "delivered")


# --- the unit file ----------------------------------------------------------------------------------------------------


@pytest.mark.contract("HOOK-18")
def test_the_unit_is_as_the_contract_says() -> None:
    parser = ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string((EXAMPLE / "systemd/webhook-cron.service").read_text("utf-8"))
    unit, service = parser["Unit"], parser["Service"]
    assert {"network-online.target", "postgresql.service"} <= set(unit["After"].split())
    assert (service["Type"], service["Restart"], service["RestartSec"]) == ("simple", "on-failure", "5")
    assert service["User"] not in ("", "root")
    assert seconds(service["TimeoutStopSec"]) > 30, "it delivers for 30 seconds"
    command = shlex.split(service["ExecStart"])
    scripts = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    assert Path(command[0]).name in scripts
    assert command[1:] == ["serve"]


@pytest.mark.contract("HOOK-18")
def test_the_guide_has_the_ranges_to_watch() -> None:
    guide = (EXAMPLE / "README.md").read_text("utf-8")
    for figure in ("500", "1000", "50 %", "80 %", "5 s", "15 s"):
        assert figure in guide, figure
    for query in (ORPHANS, STUCK):
        assert query.strip() in guide
