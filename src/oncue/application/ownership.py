"""A worker takes the tables for its application, or is refused: they are another application's."""

from __future__ import annotations

import logging
from datetime import datetime

from oncue.errors import ConfigError, WrongApplication
from oncue.model import Owner
from oncue.policy import ownership
from oncue.policy.ownership import ApplicationName
from oncue.store.contract import Store
from oncue.verbs.base import compare_and_set

OWN_TABLES = {
    "postgres": "a schema: ONCUE_SCHEMA=… or Oncue(schema=…), then `oncue migrate`",
    "sqlite": "a file: DATABASE_URL=sqlite:///…",
}

_log = logging.getLogger("oncue")


def check_name(application: ApplicationName, dialect: str, *, production: bool) -> None:
    """Ask for a name where nothing else tells applications apart. A file of SQLite is seldom shared by accident."""
    if dialect == "sqlite" or not ownership.is_mistakable(application):
        return
    why = (
        f"ONCUE_NAME: this application has no name, and the code of many applications is in a place called "
        f"{application.place!r}: one of those on the same tables would be taken for this one"
    )
    if production:
        raise ConfigError(f"{why}. A name must be set in production, here or by Oncue(name=…)")
    _log.warning("%s", why)


async def take_tables(store: Store, application: ApplicationName, now: datetime) -> None:
    """Make the tables this application's, if they are no other's. Raises WrongApplication."""

    async def take() -> bool | None:
        owner = await store.application.owner()
        refuse(owner, application, store.dialect)
        if owner is not None and not ownership.brings_name(owner, application):
            return True
        if not await store.application.own(Owner(application.name, application.given, now), owner, now):
            return None
        _log.info("the tables belong to the application %r from now on", application.name)
        return True

    await compare_and_set("the owner of the tables", take)


def refuse(owner: Owner | None, application: ApplicationName, dialect: str) -> None:
    """Raise WrongApplication if the tables of this owner are not this application's."""
    if owner is not None and not ownership.is_owner(owner, application):
        raise WrongApplication(ownership.refusal(owner, application, own_tables=OWN_TABLES[dialect]))
