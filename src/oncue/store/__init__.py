"""The databases that oncue runs on. `connect` picks one by its address."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from oncue.errors import ConfigError
from oncue.store.addresses import checked_schema, hidden
from oncue.store.statements import DEFAULT_SCHEMA

if TYPE_CHECKING:
    from oncue.store.contract import Store
    from oncue.store.postgres.store import PostgresStore
    from oncue.store.sqlite.store import SqliteStore

__all__ = ["PostgresStore", "SqliteStore", "Store", "connect"]

_HOMES = {"PostgresStore": "postgres.store", "SqliteStore": "sqlite.store", "Store": "contract"}

EXPECTED = "postgresql://user:password@host:5432/database, postgres://…, or sqlite:///path/to/oncue.db"


def connect(
    url: str,
    *,
    schema: str | None = None,
    size: int = 6,
    prepare: bool = True,
    listen: bool = True,
    patience: float | None = None,
) -> Store:
    """The store behind an address; it is not opened yet. `patience` is how long it waits for one answer."""
    scheme, separator, rest = url.partition("://")
    if scheme == "sqlite" and rest.endswith(":memory:"):
        raise ConfigError(
            "DATABASE_URL: expected the path of a file; a database in memory would be gone with its process"
        )
    if scheme == "sqlite" and separator and rest.startswith("/") and len(rest) > 1:
        if schema is not None:
            raise ConfigError(
                f"schema: expected none, not {schema!r}: on SQLite an application has a file of its own. "
                "Set DATABASE_URL to another file"
            )
        from oncue.store.sqlite.database import BUSY_SECONDS
        from oncue.store.sqlite.store import SqliteStore

        return SqliteStore(rest[1:], busy_seconds=patience or BUSY_SECONDS)
    if scheme in ("postgres", "postgresql") and separator:
        from oncue.store.postgres.store import PostgresStore

        home = checked_schema(schema or DEFAULT_SCHEMA)
        return PostgresStore(_checked(url), schema=home, size=size, prepare=prepare, listen=listen, patience=patience)
    raise ConfigError(f"DATABASE_URL: expected {EXPECTED}; got {hidden(url)!r}", exit_code=1)


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        if "," not in parts.netloc:
            _ = parts.port
    except ValueError as error:
        raise ConfigError(f"DATABASE_URL: expected {EXPECTED}; {error}", exit_code=1) from error
    if not parts.path.strip("/"):
        raise ConfigError(f"DATABASE_URL: expected {EXPECTED}; the database name is missing", exit_code=1)
    return url


def __getattr__(name: str) -> Any:
    """Import a store when it is first asked for: who works on a file needs no driver of PostgreSQL."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"oncue.store.{_HOMES[name]}"), name)
    return value
