"""The descriptions of a record's fields: the texts that stand below them in the code, those of its bases included."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from oncue.records.documents import ALIAS


def of_fields(kind: Any) -> dict[str, str]:
    """Descriptions by the names that the fields have in documents."""
    found = {name: text for base in reversed(kind.__mro__) if is_dataclass(base) for name, text in _below(base)}
    told_as = {known.name: known.metadata.get(ALIAS, known.name) for known in fields(kind)}
    return {told_as[name]: text for name, text in found.items() if name in told_as}


def _below(kind: Any) -> Iterator[tuple[str, str]]:
    (written,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(written, ast.ClassDef)
    for before, after in zip(written.body, written.body[1:], strict=False):
        if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name):
            match after:
                case ast.Expr(ast.Constant(str() as text)):
                    yield before.target.id, " ".join(text.split())
