"""What a page is asked for: its path, its query, and where links lead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlencode

from starlette.datastructures import QueryParams

from oncue.model import Scope as TokenScope
from oncue.policy.scopes import allows
from oncue.server.api.problems import invalid

if TYPE_CHECKING:
    from oncue.app import Oncue


@dataclass(frozen=True, slots=True)
class View:
    """What a page is asked for. It does not know the visitor: tabs that show the same are rendered once."""

    app: Oncue
    path: str
    """Below the prefix."""
    parameters: Mapping[str, str]
    query: QueryParams
    scopes: tuple[TokenScope, ...]
    base: str
    """The prefix that links begin with."""

    def may(self, needs: TokenScope) -> bool:
        return allows(self.scopes, needs)

    @property
    def name(self) -> str:
        """The name of what is shown: what is left of the path, or `?name=` where a path could not say it."""
        return self.parameters.get("name") or self.query.get("name", "")

    @property
    def address(self) -> str:
        """The page with its query, below the prefix."""
        asked = str(self.query)
        return f"{quoted(self.path)}?{asked}" if asked else quoted(self.path)

    def link(self, path: str, name: str | int | None = None, **query: Any) -> str:
        """The address of another page. A name may have slashes, or be one that a browser would take out of a path."""
        if name is not None and {"", ".", ".."} & set(str(name).split("/")):
            query, name = {"name": name, **query}, None
        tail = "" if name is None else f"/{quoted(str(name))}"
        asked = urlencode({key: value for key, value in query.items() if value not in (None, "")}, doseq=True)
        return f"{self.base}{path}{tail}" + (f"?{asked}" if asked else "")

    def with_query(self, **query: Any) -> str:
        """The same page with some parameters of its query changed; None takes one out."""
        kept = [(key, value) for key, value in self.query.multi_items() if key not in query]
        added = [(key, str(value)) for key, value in query.items() if value is not None]
        asked = urlencode([*kept, *added])
        return f"{self.base}{quoted(self.path)}" + (f"?{asked}" if asked else "")

    def number(self, name: str, default: int | None = None, *, least: int = 1, most: int = 2**63 - 1) -> int | None:
        """A whole number of the query."""
        text = self.query.get(name, "")
        if not text:
            return default
        if not text.isdecimal() or len(text) > 20 or not least <= int(text) <= most:
            raise invalid(name, f"expected a whole number from {least:,} to {most:,}, not {text!r:.60}")
        return int(text)

    def text(self, name: str) -> str | None:
        """A text of the query; None if it is empty."""
        return self.query.get(name, "").strip() or None


def quoted(path: str) -> str:
    """A path as it stands in an address."""
    return quote(path, safe="/:@")


def parted(address: str) -> tuple[str, QueryParams]:
    """The path and the query of an address."""
    path, _, asked = address.partition("?")
    return unquote(path), QueryParams(asked)
