"""Every example of docs/testing.md runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
BLOCK = re.compile(r"```(?:python|ini)\n# (\S+)\n(.*?)```", re.DOTALL)


def test_every_example_of_the_page_runs(pytester: pytest.Pytester) -> None:
    page = PAGE.read_text("utf-8")
    files = dict(BLOCK.findall(page))
    assert len(files) == page.count("```") / 2, "a block without a file name is not run"
    for name, text in files.items():
        (pytester.path / name).write_text(text, "utf-8")
    tests = sum(text.count("\ndef test_") for text in files.values())
    pytester.runpytest("-p", "no:hypothesispytest").assert_outcomes(passed=tests)
    assert tests >= 6
