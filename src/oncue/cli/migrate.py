"""`oncue migrate`: brings the tables up to date, and makes the views that people query."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, cast

import typer

from oncue.app import Oncue
from oncue.cli import output
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, find
from oncue.cli.output import JsonOption
from oncue.errors import SchemaMismatch
from oncue.store import SqliteStore
from oncue.store.addresses import hidden
from oncue.store.statements import check_version

if TYPE_CHECKING:
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


def migrate(
    views: Annotated[
        bool, typer.Option("--views", help="Also make the views for people and reports, such as job_runs.")
    ] = False,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Create oncue's tables, or bring them up to date. Safe to repeat, and from several places at once."""
    found = find(app, may_create=True, database_url=database_url, schema=schema)
    store = unmigrated(found)
    steps, version, made = asyncio.run(_migrated(store, views=views))
    address, schema = hidden(found.settings.database_url), schema_of(store)
    if as_json:
        told = {"database_url": address, "schema": schema, "version": version, "applied": steps, "views": made}
        output.show_json(told)
        return
    for step in steps:
        output.show(f"applied {step}")
    where = "" if schema is None else f"the schema {schema} of "
    output.show(f"{where}{output.escape(address)} is up to date (schema version {version}).")
    for view in made:
        output.show(f"The view {view} is there.")


async def _migrated(store: SqliteStore | PostgresStore, *, views: bool) -> tuple[list[str], int, list[str]]:
    try:
        with suppress(SchemaMismatch):  # that is what we came for
            await store.open()
        steps = await store.migrate()
        version = await store.version()
        check_version(store.dialect, version)
        return steps, version, await store.create_views() if views else []
    finally:
        await store.close()


def register(cli: typer.Typer) -> None:
    cli.command("migrate")(migrate)
