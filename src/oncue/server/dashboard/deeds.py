"""What an action is asked for, and what it did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncue.model import Scope as TokenScope
from oncue.server.api.problems import invalid

if TYPE_CHECKING:
    from oncue.app import Oncue


@dataclass(frozen=True, slots=True)
class Deed:
    """What an action is asked for: the fields of its form, and by whom."""

    app: Oncue
    by: str
    scopes: tuple[TokenScope, ...]
    base: str
    fields: Sequence[tuple[str, str]]

    def text(self, name: str) -> str:
        """A field that has to be there, and may not be empty."""
        found = self.maybe(name)
        if found is None:
            raise invalid(name, "expected, and not there")
        return found

    def maybe(self, name: str) -> str | None:
        """A field; None if it is empty or absent."""
        return next((value.strip() or None for key, value in self.fields if key == name), None)

    def many(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key == name]

    def has(self, name: str) -> bool:
        return any(key == name for key, _ in self.fields)

    def number(self, name: str) -> int:
        return whole(name, self.text(name))

    def maybe_number(self, name: str) -> int | None:
        found = self.maybe(name)
        return None if found is None else whole(name, found)


def whole(name: str, text: str) -> int:
    digits = text.removeprefix("-").replace(",", "").replace(" ", "")
    if not digits.isdecimal() or not digits.isascii() or len(digits) > 19:
        raise invalid(name, f"expected a whole number, not {text!r:.60}")
    return -int(digits) if text.startswith("-") else int(digits)


@dataclass(frozen=True, slots=True)
class Done:
    """What an action did."""

    message: str
    go: str | None = None
    """The page to show next, below the prefix, if it is not the one that the action was asked for from."""
    html: str = ""
    """What the form's own target is to show, if it has one."""
    is_change: bool = True
    """Whether the page is to be shown anew."""
