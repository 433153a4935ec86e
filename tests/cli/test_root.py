"""The command line as a whole: which module has which command, and that one command does not import the others."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer

from oncue.cli.root import COMMANDS, cli
from oncue.cli.summaries import SUMMARIES
from tests.cli.conftest import Shell

ASKED = """
import sys
from oncue.cli import run
code = run(sys.argv[1:])
print("imported", code, *sys.modules, file=sys.stderr)
"""
ENGINE = {"oncue.engine.node", "oncue.engine.executor", "oncue.engine.children"}
REST = {"fastapi", "starlette", "uvicorn", "prometheus_client", "oncue.server.api", "oncue.planning", "oncue.sim"}
DATABASE = {"asyncpg", *ENGINE, *REST}
LOOKING = {"pydantic", "pydantic_core", "rich.progress", "rich.markdown", *DATABASE}
SAYING = {"rich", *LOOKING}
RULES = {"oncue.policy.triggers", "oncue.policy.explain", "oncue.policy.audit"}
SENDING = {"aiohttp", "oncue.testing", "oncue.webhooks.delivery"}
NOTHING = {"asyncio", "oncue.app", "oncue.model", "oncue.store.contract", *LOOKING} - {"rich.progress", "rich.markdown"}
DECLARED = """
from datetime import datetime
from oncue import Oncue, cron
app = Oncue()

@app.task
def add(number: int) -> None: ...

@app.task(schedule=cron("@daily"))
def nightly(slot: datetime) -> None: ...
"""


def commands(made: typer.Typer) -> tuple[str, ...]:
    return tuple(typer.main.get_group(made).commands)


def test_every_command_is_in_the_module_that_the_table_names() -> None:
    for module, words in COMMANDS.items():
        made = typer.Typer()
        import_module(f"oncue.cli.{module}").register(made)
        assert commands(made) == words
        assert {commands(cli(word)) for word in words} == {words}
    assert sorted(commands(cli())) == sorted(word for words in COMMANDS.values() for word in words)


def test_the_help_says_of_each_command_what_its_own_help_begins_with() -> None:
    """`oncue --help` imports no command. If this fails, copy the first paragraph into `cli/summaries.py`."""
    group = typer.main.get_group(cli())
    own = {word: " ".join((found.help or "").split("\n\n")[0].split()) for word, found in group.commands.items()}
    assert own == SUMMARIES
    assert list(own) == list(SUMMARIES)


def imported(folder: Path, *arguments: str) -> set[str]:
    """Every module that a process has imported when it has run this command, on an SQLite file."""
    environment = {**os.environ, "DATABASE_URL": "sqlite:///oncue.db", "PYTHONPATH": str(folder)}
    line = [sys.executable, "-c", ASKED, *arguments]
    done = subprocess.run(line, capture_output=True, text=True, check=True, cwd=folder, env=environment)
    word, code, *modules = done.stderr.splitlines()[-1].split()
    assert (word, code) in {("imported", "0"), ("imported", "4")}, done.stderr  # 4: a doctor misses the worker
    return set(modules)


@pytest.mark.parametrize(
    ("line", "needless"),
    [
        ("--version", NOTHING),
        ("--help", NOTHING),
        ("jobs", LOOKING | RULES),
        ("job 1", LOOKING | RULES),
        ("jobs --json", SAYING | RULES),
        ("schedules", LOOKING),
        ("queues", LOOKING | RULES),
        ("webhooks", LOOKING | SENDING),
        ("webhooks executions --json", SAYING | SENDING),
        ("webhooks secret", SAYING | SENDING),
        ("doctor", LOOKING),
        ("explain 1", LOOKING),
        ("preview @daily", LOOKING),
        ("schedules --app declared:app", LOOKING),
        ("enqueue add number=1 --app declared:app", SAYING),
        ("nodes --help", DATABASE | {"pydantic", "oncue.cli.worker", "oncue.cli.demo"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_command_imports_only_what_it_needs(tmp_path: Path, line: str, needless: set[str]) -> None:
    """To import all of it takes longer than most commands run."""
    (tmp_path / "declared.py").write_text(DECLARED)
    imported(tmp_path, *["enqueue", "add", "number=1", "--app", "declared:app"])
    assert not imported(tmp_path, *line.split()) & needless


LEAVING = """
import atexit, sys, threading, time
from oncue import Oncue
app = Oncue()
atexit.register(lambda: print("at exit", file=sys.stderr))
if sys.argv[-1] == "declared:app":
    threading.Thread(target=lambda: (time.sleep(0.2), print("thread", file=sys.stderr))).start()
"""


@pytest.mark.parametrize(("name", "said"), [("declared:app", ["thread", "at exit"]), ("declared", ["at exit"])])
def test_a_command_ends_with_what_the_application_asked_for(tmp_path: Path, name: str, said: list[str]) -> None:
    """A process leaves without taking its modules apart, but not without its exit handlers and its threads."""
    (tmp_path / "declared.py").write_text(LEAVING)
    line = [sys.executable, "-m", "oncue", "migrate", "--app", name]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stderr.splitlines()) == (0, said)
    assert done.stdout
    if Path("/dev/full").exists():
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False)
        assert done.returncode != 0


def test_a_word_that_is_no_command_is_held_against_all_of_them(oncue: Shell) -> None:
    answer = oncue("schedulse")
    assert answer.code == 2
    assert "schedules" in answer.err
