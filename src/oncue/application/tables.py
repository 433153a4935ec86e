"""The tables of an application as operators' commands look at them: left as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from oncue.store import SqliteStore

if TYPE_CHECKING:
    from oncue.app import Oncue
    from oncue.store import PostgresStore


def unmigrated(app: Oncue) -> SqliteStore | PostgresStore:
    """A store that leaves the tables as they are when it is opened."""
    store = app.internals.make_store()
    if isinstance(store, SqliteStore):
        return SqliteStore(store.path, migrate=False)
    return cast("PostgresStore", store)


def schema_of(store: SqliteStore | PostgresStore) -> str | None:
    """The schema that its tables are in. An SQLite file has none."""
    return None if isinstance(store, SqliteStore) else store.schema
