"""Settings that are missing or wrong: the exit code, and one line that names the variable and what it expects."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import SHOP, Shell, Start

COMMANDS = (("worker",), ("jobs",), ("migrate",))


def one_line(err: str) -> str:
    assert err.count("\n") == 1, err
    assert "Traceback" not in err
    return err


@pytest.mark.contract("HOOK-13")
@pytest.mark.parametrize("command", COMMANDS)
def test_production_asks_for_a_database(oncue: Shell, monkeypatch: pytest.MonkeyPatch, command: tuple[str]) -> None:
    monkeypatch.setenv("ONCUE_ENV", "production")
    answer = oncue(*command)
    assert answer.code == 2
    assert "DATABASE_URL: expected postgresql://" in one_line(answer.err)


@pytest.mark.contract("HOOK-13")
def test_without_production_the_embedded_file_is_used(oncue: Shell) -> None:
    answer = oncue("migrate")
    assert answer.code == 0
    assert "sqlite:///oncue.db is up to date" in answer.out


@pytest.mark.contract("HOOK-13")
@pytest.mark.parametrize("environment", ["development", "production"])
@pytest.mark.parametrize("value", ["soon", "-5s", "0s", "30 parsecs"])
def test_an_invalid_tick_interval_is_2(
    oncue: Shell, monkeypatch: pytest.MonkeyPatch, environment: str, value: str
) -> None:
    monkeypatch.setenv("ONCUE_ENV", environment)
    monkeypatch.setenv("DATABASE_URL", "sqlite:///oncue.db")
    monkeypatch.setenv("TICK_INTERVAL", value)
    answer = oncue("worker", "--app", SHOP)
    assert answer.code == 2
    assert one_line(answer.err).startswith("oncue: TICK_INTERVAL: expected a duration")


@pytest.mark.contract("HOOK-13")
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "url", ["nonsense", "mysql://host/db", "sqlite:oncue.db", "postgresql://host:port/db", "postgres://host"]
)
def test_a_malformed_database_url_is_1(
    oncue: Shell, monkeypatch: pytest.MonkeyPatch, command: tuple[str], url: str
) -> None:
    monkeypatch.setenv("DATABASE_URL", url)
    answer = oncue(*command)
    assert answer.code == 1
    assert one_line(answer.err).startswith("oncue: DATABASE_URL: expected postgresql://user:***@host")


@pytest.mark.contract("HOOK-13")
@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_both_schemes_are_accepted(
    oncue: Shell, monkeypatch: pytest.MonkeyPatch, postgres_url: str, scheme: str
) -> None:
    monkeypatch.setenv("DATABASE_URL", postgres_url.replace("postgresql://", f"{scheme}://"))
    answer = oncue("jobs", "--json")
    assert (answer.code, answer.json) == (0, [])


@pytest.mark.contract("HOOK-13")
@pytest.mark.parametrize("value", ["8080", "localhost", ":http", "::1:80", ":70000"])
def test_an_invalid_address_is_2(oncue: Shell, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("HTTP_ADDR", value)
    answer = oncue("worker", "--app", SHOP)
    assert answer.code == 2
    assert one_line(answer.err).startswith("oncue: HTTP_ADDR: expected an address such as :8080")


def test_passwords_are_never_shown(oncue: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgrse://ada:s3cr3t@db/shop?password=s3cr3t")
    assert "s3cr3t" not in oncue("jobs").err


@pytest.mark.contract("HOOK-12")
@pytest.mark.parametrize(
    "url", ["postgresql://nobody@127.0.0.1:1/nothing", "sqlite:////no/such/folder/oncue.db"], ids=["postgres", "sqlite"]
)
def test_a_worker_without_its_database_ends_with_1(start: Start, url: str) -> None:
    worker = start(url, "worker", ONCUE_START_TIMEOUT="0")
    assert worker.ends() == 1
    assert one_line(worker.said).startswith(("oncue: PostgreSQL does not answer", "oncue: SQLite cannot use its file"))


def test_postgres_asks_for_migrate(oncue: Shell, monkeypatch: pytest.MonkeyPatch, empty_postgres: str) -> None:
    monkeypatch.setenv("DATABASE_URL", empty_postgres)
    refused = oncue("jobs")
    assert refused.code == 1
    assert "run `oncue migrate`" in one_line(refused.err)
    migrated = oncue("migrate", "--json")
    assert migrated.code == 0
    assert migrated.json["applied"][0] == "001_engine"
    assert oncue("migrate", "--json").json["applied"] == []
    assert oncue("jobs").code == 0


def test_flags_win_over_the_environment(oncue: Shell, monkeypatch: pytest.MonkeyPatch, sqlite_url: str) -> None:
    monkeypatch.setenv("DATABASE_URL", "nonsense")
    answer = oncue("doctor", "--json", "--database-url", sqlite_url)
    assert answer.json["settings"]["database_url"] == {"value": sqlite_url, "origin": "--database-url"}


def test_code_wins_over_the_environment_and_flags_over_code(
    oncue: Shell, monkeypatch: pytest.MonkeyPatch, sqlite_url: str
) -> None:
    with open("inline_app.py", "w") as file:
        file.write(f"from oncue import Oncue\nmine = Oncue({sqlite_url!r})\n")
    monkeypatch.setenv("DATABASE_URL", "nonsense")
    origins = [
        oncue("doctor", "--json", "--app", "inline_app:mine", *more).json["settings"]["database_url"]["origin"]
        for more in ((), ("--database-url", sqlite_url))
    ]
    assert origins == ["Oncue(database_url=...)", "--database-url"]


@pytest.mark.parametrize(
    ("place", "complaint"),
    [
        ("no_such_module:app", "there is no module 'no_such_module'"),
        ("tests.cli.shop:nothing", "has no 'nothing'"),
        ("tests.cli.shop:add", "is Task, not Oncue"),
        (":app", "not ':app'"),
        ("broken_app", "importing broken_app failed: NameError: name 'oops' is not defined"),
    ],
)
def test_an_application_that_cannot_be_found_is_2(oncue: Shell, place: str, complaint: str) -> None:
    with open("broken_app.py", "w") as file:
        file.write("oops\n")
    answer = oncue("worker", "--app", place)
    assert answer.code == 2
    assert one_line(answer.err).startswith("oncue: --app: ")
    assert complaint in answer.err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("from oncue import cron\n\nrule = cron('soon')\n", "InvalidSchedule: "),
        ("value = 1\n\nfor\n", "SyntaxError: invalid syntax"),
    ],
    ids=["refused by oncue", "no Python"],
)
def test_a_broken_application_is_told_where(oncue: Shell, text: str, complaint: str) -> None:
    path = Path(f"wrong_app_{len(text)}.py").absolute()
    path.write_text(text)
    answer = oncue("worker", "--app", path.stem)
    assert answer.code == 2
    assert f"importing {path.stem} failed: {complaint}" in one_line(answer.err)
    assert answer.err.endswith(f" ({path}:3)\n")
    assert answer.err.count(path.name) == 1


def test_a_worker_needs_an_application(oncue: Shell) -> None:
    answer = oncue("worker")
    assert answer.code == 2
    assert "--app: expected the place of an application" in one_line(answer.err)


def test_bad_usage_is_2_and_one_line(oncue: Shell) -> None:
    for arguments in (["jobs", "--limit", "many"], ["no-such-command"], ["job"], ["jobs", "--status", "lost"]):
        answer = oncue(*arguments)
        assert answer.code == 2, arguments
        one_line(answer.err)


def test_debug_shows_the_traceback(oncue: Shell) -> None:
    assert "Traceback" in oncue("--debug", "worker").err
    assert "Traceback" in oncue("worker", "--debug").err


def test_version_and_help(oncue: Shell) -> None:
    from oncue import __version__

    assert oncue("--version").out == f"oncue {__version__}\n"
    assert "Exit codes" in oncue().out
    assert oncue("jobs", "--help").code == 0


@pytest.mark.contract("SLOT-2")
def test_a_worker_is_exclusive_if_it_is_told_so(
    oncue: Shell, sqlite_shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[bool, float]] = []
    monkeypatch.setattr(
        "oncue.cli.worker.run_worker",
        lambda app, listening, **_: seen.append((app.settings.exclusive, app.settings.tick_interval)),
    )
    monkeypatch.setattr("oncue.observe.logs.configure", lambda level, format: None)
    assert oncue("worker").code == 0
    assert oncue("worker", "--exclusive", "--tick-interval", "5s").code == 0
    monkeypatch.setenv("ONCUE_EXCLUSIVE", "true")
    assert oncue("worker").code == 0
    assert seen == [(False, 30.0), (True, 5.0), (True, 30.0)]
    assert "--tick-interval: expected a duration" in oncue("worker", "--tick-interval", "soon").err


@pytest.mark.contract("SLOT-2")
def test_the_nodes_tell_who_stands_by(oncue: Shell, shop: str, start: Start) -> None:
    first = start(shop, "worker", "--exclusive", "--name", "first")
    first.says("first is the exclusive worker now")
    second = start(shop, "worker", "--exclusive", "--name", "second")
    second.says("second stands by: first (")
    first.until(lambda: {"leader", "exclusive"} <= {role for node in nodes(oncue) for role in node["holds"]})
    held = {node["name"]: sorted(node["holds"]) for node in nodes(oncue)}
    assert held == {"first": ["exclusive", "leader"], "second": []}
    assert "stands by" in oncue("nodes").out
    first.process.send_signal(signal.SIGTERM)
    assert first.ends() == 0
    second.says("second is the exclusive worker now")


def nodes(oncue: Shell) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = oncue("nodes", "--json").json
    return found
