"""From what the command line says to an application that is ready to be asked."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

import oncue
from oncue.app import Oncue
from oncue.cli import failures
from oncue.errors import ConfigError, JobNotFound
from oncue.settings import app_name
from oncue.store import SqliteStore

T = TypeVar("T")

EXPECTED = "expected the place of an application, such as shop.jobs:app"
OURS = Path(oncue.__file__).parent

AppOption = Annotated[
    str | None,
    typer.Option("--app", "-A", metavar="MODULE:NAME", help="The application (also ONCUE_APP).", show_default=False),
]
DatabaseOption = Annotated[
    str | None,
    typer.Option("--database-url", metavar="URL", help="The database (also DATABASE_URL).", show_default=False),
]
SchemaOption = Annotated[
    str | None,
    typer.Option(
        "--schema",
        metavar="NAME",
        help="The application's schema on PostgreSQL (also ONCUE_SCHEMA).",
        show_default=False,
    ),
]


def find(app: str | None, *, needs_tasks: bool = False, may_create: bool = False, **flags: Any) -> Oncue:
    """The application with these flags over its settings. Without a name: an application without tasks.

    A command that only needs the database goes on without an application that ONCUE_APP names and that is broken:
    that is when an operator needs it most.
    """
    name = app or app_name()
    found = Oncue()
    try:
        if name is not None:
            found = imported(name, "--app" if app else "ONCUE_APP")
    except ConfigError as error:
        if needs_tasks or app is not None:
            raise
        failures.say(f"{error}; going on without it")
    found.override({"app": app, **flags})
    store = found.internals.make_store()  # a malformed address is told before anything else
    if needs_tasks and name is None:
        raise ConfigError(f"--app: {EXPECTED}; or set ONCUE_APP")
    if isinstance(store, SqliteStore) and not may_create and not Path(store.path).exists():
        raise JobNotFound(f"there is no database at {store.path} yet; the first job or worker makes it")
    return found


def has_database(app: Oncue) -> bool:
    """Whether there is something to ask: an SQLite file may not be there yet."""
    store = app.internals.make_store()
    return not isinstance(store, SqliteStore) or Path(store.path).exists()


def imported(name: str, origin: str) -> Oncue:
    """Import `module:name` (by default `:app`), from the current folder too."""
    module_name, _, attribute = name.partition(":")
    if not module_name:
        raise ConfigError(f"{origin}: {EXPECTED}, not {name!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    found: Any = _module(module_name, origin)
    for part in (attribute or "app").split("."):
        if not hasattr(found, part):
            raise ConfigError(f"{origin}: {EXPECTED}; the module {module_name} has no {attribute or 'app'!r}")
        found = getattr(found, part)
    if not isinstance(found, Oncue):
        raise ConfigError(f"{origin}: {EXPECTED}; {name} is {type(found).__name__}, not Oncue")
    return found


def _module(name: str, origin: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigError(f"{origin}: {EXPECTED}; there is no module {name!r} in {os.getcwd()}") from error
        raise ConfigError(_broken(name, origin, error)) from error
    except Exception as error:
        raise ConfigError(_broken(name, origin, error)) from error


def _broken(name: str, origin: str, error: Exception) -> str:
    what = error.msg if isinstance(error, SyntaxError) else error
    return f"{origin}: importing {name} failed: {type(error).__name__}: {what}{_where(error)}"


def _where(error: Exception) -> str:
    """The place to look at: the last frame outside of oncue, whose own code only refused what was written there."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f" ({error.filename}:{error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not _is_machinery(frame.filename)]
    return "".join(f" ({frame.filename}:{frame.lineno})" for frame in (theirs or frames)[-1:])


def _is_machinery(filename: str) -> bool:
    if filename == importlib.__file__ or filename.startswith("<frozen importlib"):
        return True
    return Path(filename).is_relative_to(OURS)


def ask(app: Oncue, work: Callable[[], Awaitable[T]]) -> T:
    """Run something asynchronous on the application's database, and close it."""

    async def asked() -> T:
        try:
            return await work()
        finally:
            await app.aclose()

    return asyncio.run(asked())
