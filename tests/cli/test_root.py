"""The command line as a whole: which module has which command, and that one command does not import the others."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import typer

from oncue.cli.root import COMMANDS, cli
from tests.cli.conftest import Shell

ASKED = """
import sys
from oncue.cli import run
assert run(["nodes", "--help"]) == 0
print(*(name for name in sys.modules if name.startswith("oncue.")), file=sys.stderr)
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


def test_a_command_does_not_import_the_others() -> None:
    done = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, text=True, check=True)
    imported = set(done.stderr.split())
    assert "oncue.cli.nodes" in imported
    assert not imported & {"oncue.cli.worker", "oncue.cli.demo", "oncue.planning", "oncue.sim", "oncue.server.api"}


def test_a_word_that_is_no_command_is_held_against_all_of_them(oncue: Shell) -> None:
    answer = oncue("schedulse")
    assert answer.code == 2
    assert "schedules" in answer.err
