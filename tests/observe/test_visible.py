"""Text from elsewhere on its way to a screen: what would act on it is shown, everything else stays as it is."""

from __future__ import annotations

import ast
import json
import sys
import unicodedata
from pathlib import Path

import pytest

import oncue
from oncue.observe.visible import visible, visible_json, visible_lines

SEEN_FORMATS = set(map(chr, [*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD]))
"""Format characters that have a shape: signs that stand before a number."""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, ünïcode, 漢字 and 🎂", "plain, ünïcode, 漢字 and 🎂"),
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("\x9b31m \x7f \x00", r"\x9b31m \x7f \x00"),
        ("one\rtwo\nthree\tfour\bfive", r"one\rtwo\nthree\tfour\x08five"),
        ("abc\u202egnp.exe\u2066", r"abc\u202egnp.exe\u2066"),
        ("zero\u200bwidth\ufeff \U000e0041 \udc80", r"zero\u200bwidth\ufeff \U000e0041 \udc80"),
    ],
)
def test_what_would_act_on_a_screen_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_every_control_and_invisible_format_character_is_among_them() -> None:
    for number in range(sys.maxunicode + 1):
        character = chr(number)
        if unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp", "Cs") and character not in SEEN_FORMATS:
            assert visible(character).startswith("\\"), hex(number)


def test_lines_may_be_kept_and_set_off() -> None:
    assert visible_lines("Traceback\n\tline\r\nerror \x1b[0m\rx", "  ") == "Traceback\n      line\n  error \\x1b[0m\\rx"


def test_json_stays_the_same_data() -> None:
    document = {"a\x1b": ["\x7f\x85\x9b", "\u2028\u202e", "\U000e0041", "ü🎂", "\udc80"], "b": "x\ny"}
    for indent in (None, 2):
        text = visible_json(document, indent)
        assert json.loads(text) == document
        assert all(line.isprintable() for line in text.split("\n"))
        assert "ü🎂" in text


CLI = Path(oncue.__file__).parent / "cli"
SEAMS = {"output.py", "failures.py"}
HELP = {"root.py"}  # it prints the version and the help


@pytest.mark.parametrize("path", sorted(CLI.rglob("*.py")), ids=lambda path: path.relative_to(CLI).as_posix())
def test_no_command_goes_past_the_place_where_text_is_made_visible(path: Path) -> None:
    """`output` and `failures` print. Printing elsewhere, or rich's own console and escape, goes past them."""
    if path.name in SEAMS:
        return
    tree = ast.parse(path.read_text("utf-8"))
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    past = {"print", "typer.echo", "typer.secho", "sys.stdout.write", "sys.stderr.write", "Console"}
    assert not called & (past - {"print"} if path.name in HELP else past)
    assert "rich.markup" not in {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
