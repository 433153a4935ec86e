"""A task's arguments as people type them: `name=value` or a JSON object, fitted to what the task takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import typer

from oncue.errors import InvalidJob

Pairs = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME=VALUE]...", help="Arguments; a value is JSON or text.", show_default=False),
]
ArgsOption = Annotated[str | None, typer.Option("--args", metavar="JSON", help="Arguments as a JSON object.")]


class Typed(str):
    """A value that was typed after `name=`: what its JSON means, unless the task wants the text itself."""

    __slots__ = ()

    def meant(self) -> Any:
        try:
            return json.loads(self)
        except ValueError:
            return str(self)


def named(pairs: list[str] | None, args: str | None) -> dict[str, Any]:
    """What was typed, by name. A pair wins over the JSON object."""
    found: dict[str, Any] = {} if args is None else _object(args)
    for pair in pairs or []:
        name, separator, value = pair.partition("=")
        if not separator or not name.isidentifier():
            raise typer.BadParameter(f"expected name=value, not {pair!r}", param_hint="NAME=VALUE")
        found[name] = Typed(value)
    return found


def fitting(given: dict[str, Any], check: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """The values that `check` accepts. `42` is a number, but the text '42' to a parameter that wants text."""
    meant = {name: value.meant() if isinstance(value, Typed) else value for name, value in given.items()}
    while True:
        try:
            check(meant)
        except InvalidJob as error:
            name = error.field.split(".")[0]
            if not isinstance(given.get(name), Typed) or meant[name] == str(given[name]):
                raise
            meant[name] = str(given[name])
        else:
            return meant


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        wanted = "expected a JSON object such as '{\"order_id\": 42}'"
        raise typer.BadParameter(f"{wanted}; {error}", param_hint="--args") from None
    if not isinstance(value, dict):
        raise typer.BadParameter(f"expected a JSON object, not {text[:60]!r}", param_hint="--args")
    return value
