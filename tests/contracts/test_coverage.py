"""A clause of the contracts counts as kept only when a test that can fail cites it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CLAUSE = re.compile(r"(SLOT|CLUS|HOOK|WIN|QUE)-[1-9][0-9]?")

KEPT = (
    "QUE-1",
    "QUE-2",
    "QUE-3",
    "QUE-4",
    "QUE-5",
    "QUE-6",
    "QUE-7",
    "QUE-8",
    "QUE-9",
    "QUE-10",
    "QUE-11",
    "QUE-12",
    "QUE-13",
    "QUE-14",
    "QUE-15",
    "QUE-16",
    "QUE-17",
    "QUE-18",
    "QUE-19",
    "QUE-20",
    "QUE-21",
    "QUE-22",
    "QUE-23",
    "HOOK-1",
    "HOOK-2",
    "HOOK-3",
    "HOOK-4",
    "HOOK-5",
    "HOOK-6",
    "HOOK-7",
    "HOOK-8",
    "HOOK-9",
    "HOOK-10",
    "HOOK-11",
    "HOOK-12",
    "HOOK-13",
    "HOOK-14",
    "HOOK-15",
    "HOOK-16",
    "HOOK-17",
    "HOOK-18",
    "HOOK-19",
    "HOOK-21",
    "HOOK-22",
    "CLUS-1",
    "CLUS-2",
    "CLUS-3",
    "CLUS-4",
    "CLUS-5",
    "CLUS-6",
    "CLUS-7",
    "CLUS-8",
    "CLUS-9",
    "CLUS-10",
    "CLUS-11",
    "CLUS-12",
    "CLUS-13",
    "CLUS-14",
    "CLUS-15",
    "SLOT-1",
    "SLOT-2",
    "SLOT-3",
    "SLOT-4",
    "SLOT-5",
    "SLOT-6",
    "SLOT-7",
    "SLOT-8",
    "SLOT-9",
    "SLOT-10",
    "SLOT-11",
    "SLOT-12",
    "SLOT-13",
    "SLOT-14",
    "SLOT-15",
    "SLOT-16",
    "WIN-1",
    "WIN-2",
    "WIN-3",
    "WIN-4",
    "WIN-5",
    "WIN-6",
    "WIN-7",
    "WIN-8",
    "WIN-9",
    "WIN-10",
    "WIN-11",
    "WIN-12",
    "WIN-13",
    "WIN-14",
    "WIN-15",
    "WIN-16",
    "WIN-17",
    "WIN-18",
    "WIN-19",
)
"""What the engine keeps now. A clause joins the list with the code that keeps it, and never leaves it."""


def citations(source: str) -> Iterator[str]:
    """What the `contract` markers of a file name; an argument that is not a text is given as it is written."""
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "contract"):
            continue  # to write down every call as text takes ten times as long
        if ast.unparse(node.func) == "pytest.mark.contract":
            yield from (
                str(argument.value) if isinstance(argument, ast.Constant) else ast.unparse(argument)
                for argument in node.args
            )


@pytest.fixture(scope="module")
def cited() -> dict[str, set[str]]:
    """Each citation with the files that make it."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted(TESTS.rglob("test_*.py")):
        for citation in citations(path.read_text("utf-8")):
            found[citation].add(str(path.relative_to(TESTS)))
    return found


@pytest.mark.parametrize("clause", KEPT)
def test_a_clause_that_is_kept_has_a_test(cited: dict[str, set[str]], clause: str) -> None:
    assert cited.get(clause), f"no test carries @pytest.mark.contract({clause!r})"


def test_what_is_cited_looks_like_a_clause(cited: dict[str, set[str]]) -> None:
    strange = {citation: sorted(files) for citation, files in cited.items() if not CLAUSE.fullmatch(citation)}
    assert strange == {}


def test_the_list_names_each_clause_once() -> None:
    assert len(set(KEPT)) == len(KEPT)
    assert all(CLAUSE.fullmatch(clause) for clause in KEPT)


def test_the_scan_reads_what_pytest_reads() -> None:
    source = """
import pytest
pytestmark = pytest.mark.contract("QUE-1")

@pytest.mark.contract("QUE-2", "SLOT-3")
def test_one(): ...

class TestTwo:
    @pytest.mark.parametrize("n", [1])
    @pytest.mark.contract(f"WIN-{4}")
    async def test_two(self, n): ...

# pytest.mark.contract("QUE-5") in a comment, and in a text:
TEXT = "pytest.mark.contract('QUE-6')"
"""
    assert sorted(citations(source)) == ["QUE-1", "QUE-2", "SLOT-3", "f'WIN-{4}'"]
