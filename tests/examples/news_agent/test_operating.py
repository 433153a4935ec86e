"""The shell, the unit file, and what the README promises."""

from __future__ import annotations

import re
import shlex
import tomllib
from configparser import ConfigParser
from datetime import UTC, datetime
from pathlib import Path

import pytest
from news_agent import command
from news_agent.jobs import app, forget
from news_agent.settings import Settings

from oncue.policy.durations import seconds
from tests.examples.conftest import ROOT
from tests.examples.news_agent.conftest import MakeProgram

EXAMPLE = ROOT / "examples/news_agent"
README = EXAMPLE / "README.md"


@pytest.fixture
def shell(program_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell in an empty folder, with an empty database."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", program_url)
    forget()


@pytest.fixture(autouse=True)
def _closed() -> object:
    yield
    forget()


def run(*arguments: str) -> int:
    """The command's exit code, in this process."""
    try:
        command.main(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


@pytest.mark.usefixtures("shell")
def test_users_are_added_listed_imported_and_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("users", "add", "ann", "--at", "9:00", "--tz", "Europe/Berlin", "--topics", "space, tea") == 0
    assert "ann: digest by 09:00 in Europe/Berlin, about space, tea" in capsys.readouterr().out
    (tmp_path / "users.csv").write_text('name,at,tz,topics\nbob,18:00,,"tea,space"\nzoë,07:30,Asia/Tokyo,\n', "utf-8")
    assert run("users", "import", "users.csv") == 0
    assert "2 users are signed up." in capsys.readouterr().out
    assert run("users", "remove", "ann") == 0
    capsys.readouterr()
    assert run("users", "list") == 0
    assert [line.split("\t")[:3] for line in capsys.readouterr().out.splitlines()] == [
        ["bob", "18:00", "UTC"], ["zoë", "07:30", "Asia/Tokyo"],
    ]  # fmt: skip
    assert run("users", "remove", "ann") == 3
    assert "there is no user 'ann'" in capsys.readouterr().err


@pytest.mark.usefixtures("shell")
@pytest.mark.parametrize("program_url", ["sqlite"], indirect=True)
def test_bad_input_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "users.csv").write_text("name,at\nbob,18:00\nann,late\n", "utf-8")
    assert run("users", "import", "users.csv") == 2
    assert "news_agent: at: expected a time of day such as '09:00', not 'late' (line 3)" in capsys.readouterr().err
    (tmp_path / "other.csv").write_text("user,time\n", "utf-8")
    assert run("users", "import", "other.csv") == 2
    assert "file: expected the columns name and at" in capsys.readouterr().err
    assert run("users", "import", "none.csv") == 1
    assert run("users", "add", "ann", "--at", "+2d") == 2
    assert "at: expected less than a day from now" in capsys.readouterr().err
    assert run("users", "add", "ann", "--at", "+5m", "--tz", "Mars/Base") == 2
    assert "tz: there is no time zone" in capsys.readouterr().err


@pytest.mark.usefixtures("shell")
@pytest.mark.parametrize("program_url", ["sqlite"], indirect=True)
def test_a_database_that_cannot_be_opened_ends_a_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "mysql://me:s3cret@db/news")
    assert run("users", "list") == 1
    said = capsys.readouterr().err
    assert "news_agent: DATABASE_URL: expected postgresql://" in said
    assert "s3cret" not in said


def test_a_time_from_now_is_the_next_full_minute() -> None:
    now = datetime(2026, 11, 17, 23, 55, 30, tzinfo=UTC)
    assert command._from_now("+10m", "UTC", now) == "00:06"
    assert command._from_now("+4m30s", "Asia/Tokyo", now) == "09:00"


def test_a_setting_that_makes_no_sense_ends_the_start(make_program: MakeProgram, sqlite_url: str) -> None:
    service = make_program(sqlite_url).start(WINDOW_MINUTES="0")
    assert service.process.wait(30) == 2
    assert "news_agent: WINDOW_MINUTES: expected a number from 1 to 1440, not '0'" in service.said


def test_the_unit_starts_the_command_and_gives_it_time_to_drain() -> None:
    unit = ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(EXAMPLE / "systemd/news-agent.service", "utf-8")
    program, verb = shlex.split(unit["Service"]["ExecStart"])
    scripts = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    assert (Path(program).name in scripts, verb) == (True, "serve")
    assert unit["Service"]["RestartPreventExitStatus"] == "2"
    assert seconds(unit["Service"]["TimeoutStopSec"]) > app.settings.drain_timeout


@pytest.mark.contract("WIN-18")
def test_the_readme_has_every_setting_with_its_default_and_every_clause() -> None:
    text = README.read_text("utf-8")
    usual = Settings()
    for name in ("tick_ms", "max_concurrency", "job_timeout_ms", "window_minutes", "retry_delay_minutes"):
        assert f"| `{name.upper()}` | {getattr(usual, name)} |" in text
    for name in ("NEWS_MODEL_URL", "NEWS_MODEL_TIMEOUT_MS", "NEWS_MODEL_TOKEN"):
        assert f"| `{name}` |" in text
    clauses = re.findall(r"^\| (WIN-\d+) \|", text, re.MULTILINE)
    assert clauses == [f"WIN-{number}" for number in range(1, 20)]


@pytest.mark.usefixtures("shell")
@pytest.mark.parametrize("program_url", ["sqlite"], indirect=True)
def test_the_quick_start_works_as_it_stands(make_program: MakeProgram, program_url: str) -> None:
    """Its commands, in a folder without anything: the digest of ann is made when the program starts."""
    block = README.read_text("utf-8").split("## Run it", 1)[1].split("```")[1]
    commands = [shlex.split(line) for line in block.splitlines() if line.startswith("news_agent ")]
    *adding, serving = commands
    assert [run(*one[1:]) for one in adding] == [0, 0]
    assert serving == ["news_agent", "serve"]
    program = make_program(program_url)
    program.serve()
    listed = program.until(lambda: _delivered(program.asked("GET", "/api/users")["users"]), "ann has a digest")
    assert [user["name"] for user in listed] == ["ann"]


def _delivered(users: list[dict[str, object]]) -> list[dict[str, object]]:
    return [user for user in users if user["status"] == "success"]
