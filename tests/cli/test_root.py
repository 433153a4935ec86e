"""The command line as a whole: which module has which command, and that one command does not import the others."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer

from oncue.cli.root import COMMANDS, cli
from oncue.cli.summaries import SUMMARIES
from oncue.store import connect
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
LOOKING = {"pydantic", "rich.progress", "rich.markdown", *DATABASE}
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
    assert (word, code) == ("imported", "0"), done.stderr
    return set(modules)


@pytest.mark.parametrize(
    ("line", "needless"),
    [
        ("--version", NOTHING),
        ("--help", NOTHING),
        ("jobs", LOOKING),
        ("schedules", LOOKING),
        ("queues", LOOKING),
        ("preview @daily", LOOKING),
        ("schedules --app declared:app", LOOKING),
        ("enqueue add number=1 --app declared:app", DATABASE),
        ("nodes --help", DATABASE | {"pydantic", "oncue.cli.worker", "oncue.cli.demo"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_command_imports_only_what_it_needs(tmp_path: Path, line: str, needless: set[str]) -> None:
    """To import all of it takes longer than most commands run."""
    (tmp_path / "declared.py").write_text(DECLARED)
    asyncio.run(_made(f"sqlite:///{tmp_path / 'oncue.db'}"))
    assert not imported(tmp_path, *line.split()) & needless


async def _made(url: str) -> None:
    store = connect(url)
    await store.open()
    await store.close()


def test_a_word_that_is_no_command_is_held_against_all_of_them(oncue: Shell) -> None:
    answer = oncue("schedulse")
    assert answer.code == 2
    assert "schedules" in answer.err
