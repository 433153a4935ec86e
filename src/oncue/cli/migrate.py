"""`oncue migrate`: brings the tables up to date, and makes the views that people query."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from oncue.application.tables import schema_of, unmigrated
from oncue.cli import output
from oncue.cli.actor import actor
from oncue.cli.finding import AppOption, DatabaseOption, SchemaOption, find
from oncue.cli.output import JsonOption
from oncue.errors import SchemaMismatch
from oncue.model import Owner
from oncue.policy import audit_entries
from oncue.policy.checks import checked_name
from oncue.store import SqliteStore
from oncue.store.addresses import hidden
from oncue.store.statements import check_version
from oncue.verbs.base import compare_and_set

if TYPE_CHECKING:
    from oncue.store import PostgresStore


def migrate(
    views: Annotated[
        bool, typer.Option("--views", help="Also make the views for people and reports, such as job_runs.")
    ] = False,
    rename: Annotated[
        str | None,
        typer.Option(
            "--rename", metavar="NAME", help="Give the tables to the application of this name: it was renamed."
        ),
    ] = None,
    as_json: JsonOption = False,
    app: AppOption = None,
    database_url: DatabaseOption = None,
    schema: SchemaOption = None,
) -> None:
    """Create oncue's tables, or bring them up to date. Safe to repeat, and from several places at once."""
    found = find(app, may_create=True, database_url=database_url, schema=schema)
    if rename is not None:
        checked_name(rename, "--rename")
    store = unmigrated(found)
    steps, version, made, owner = asyncio.run(_migrated(store, views=views, rename=rename))
    address, schema = hidden(found.settings.database_url), schema_of(store)
    if as_json:
        told = {"database_url": address, "schema": schema, "version": version, "applied": steps, "views": made}
        output.show_json({**told, "application": None if owner is None else owner.name})
        return
    for step in steps:
        output.show(f"applied {step}")
    where = "" if schema is None else f"the schema {schema} of "
    output.show(f"{where}{output.escape(address)} is up to date (schema version {version}).")
    for view in made:
        output.show(f"The view {view} is there.")
    if owner is not None:
        output.show(f"The tables belong to the application {output.escape(owner.name)}.")


async def _migrated(
    store: SqliteStore | PostgresStore, *, views: bool, rename: str | None
) -> tuple[list[str], int, list[str], Owner | None]:
    try:
        with suppress(SchemaMismatch):  # that is what we came for
            await store.open()
        steps = await store.migrate()
        version = await store.version()
        check_version(store.dialect, version)
        made = await store.create_views() if views else []
        if rename is not None:
            await compare_and_set("the owner of the tables", lambda: _renamed(store, rename))
        return steps, version, made, await store.application.owner()
    finally:
        await store.close()


async def _renamed(store: SqliteStore | PostgresStore, name: str) -> bool | None:
    """Write that the tables belong to the application of this name; None if another process wrote meanwhile."""
    now, before = await store.time(), await store.application.owner()
    if before is not None and (before.name, before.given) == (name, True):
        return True
    note = audit_entries.of_owner(actor(), before, name)
    return await store.application.own(Owner(name, True, now), before, now, note=note) or None


def register(cli: typer.Typer) -> None:
    cli.command("migrate")(migrate)
