"""A CSV file with subjects of a window: its rows, and in which line each of them is."""

from __future__ import annotations

import csv
import json
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from oncue.errors import InvalidSubject
from oncue.policy.subjects import MOST_ROWS

COLUMNS = ("subject", "at", "tz", "weekdays", "days_off", "args")
NEEDED = ("subject", "at")


class SubjectTable:
    """Its rows are read as they are asked for: a file may have a million. Raises InvalidSubject."""

    def __init__(self, lines: Iterable[str], name: str) -> None:
        self._reader = csv.DictReader(lines)
        self._name = name
        self._rows = 0
        self._places: deque[tuple[int, int]] = deque(maxlen=MOST_ROWS)
        """The numbers of the last rows, and of their lines."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        try:
            self._check_columns()
            for cells in self._reader:
                self._rows += 1
                self._places.append((self._rows, self._reader.line_num))
                yield self._row(cells)
        except UnicodeDecodeError as error:
            raise InvalidSubject(self._name, f"expected a file in UTF-8; {error.reason}") from None
        except csv.Error as error:
            raise InvalidSubject(self._name, f"line {self._reader.line_num} cannot be read: {error}") from None

    def located(self, error: InvalidSubject) -> InvalidSubject:
        """The same error, told by the line of the file instead of the row."""
        line = dict(self._places).get(error.row or 0)
        if line is None:
            return error
        return InvalidSubject(
            error.field, f"{error.message} (line {line} of {self._name}; mend it and start the import again)"
        )

    def _check_columns(self) -> None:
        found = self._reader.fieldnames or []
        if missing := [name for name in NEEDED if name not in found]:
            raise InvalidSubject(self._name, f"expected a first line with the columns {' and '.join(missing)}")
        if len({*found}) < len(found):
            raise InvalidSubject(self._name, f"expected each column once, not {', '.join(found)}")
        if unknown := [name for name in found if name not in COLUMNS]:
            expected = ", ".join(COLUMNS)
            raise InvalidSubject(self._name, f"expected the columns {expected}, not {', '.join(map(repr, unknown))}")

    def _row(self, cells: dict[str | Any, Any]) -> dict[str, Any]:
        if None in cells:
            few = len(self._reader.fieldnames or ())
            raise InvalidSubject("columns", f"expected {few} values, as the first line has", self._rows)
        row: dict[str, Any] = {name: value for name, value in cells.items() if value}
        row["days_off"] = [day for day in row.get("days_off", "").split(";") if day]
        try:
            row["args"] = read_json(row.get("args", "{}"))
        except InvalidSubject as error:
            raise InvalidSubject(error.field, error.message, self._rows) from None
        return row


def read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidSubject("args", f"expected a JSON object, not {text!r:.60}") from None
