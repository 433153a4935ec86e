"""Whose tables are these? One application, one set of tables: two in one set run each other's jobs sooner or later.

An application that was given a name is known by it. One without is known by the place of its code.
"""

from __future__ import annotations

from typing import NamedTuple

from oncue.model import Owner


class ApplicationName(NamedTuple):
    """How an application is known."""

    name: str
    given: bool
    """Whether it was named. Else its name is its place."""
    place: str
    """The package or folder that its code is in."""
    telling: bool = True
    """Whether its place tells it from other applications."""


def is_owner(owner: Owner, application: ApplicationName) -> bool:
    """Whether the tables of this owner are this application's.

    Tables whose owner was not named are also those of an application at the owner's place that has a name by now.
    """
    return owner.name == application.name or (not owner.given and owner.name == application.place)


def is_mistakable(application: ApplicationName) -> bool:
    """Whether another application without a name would be taken for this one."""
    return not application.given and not application.telling


def brings_name(owner: Owner, application: ApplicationName) -> bool:
    """Whether the application has a name for tables that were only known by the place of its code."""
    return application.given and not owner.given


def refusal(owner: Owner, application: ApplicationName, *, own_tables: str) -> str:
    """What a user is told whose application is not the owner: both names, and the two ways out."""
    is_called = "is called" if application.given else "has no name, and is called after the place of its code"
    return (
        f"the tables of this database belong to the application {owner.name!r}, and this application {is_called} "
        f"{application.name!r}: give it tables of its own ({own_tables}), or, if it is a part of {owner.name!r}, the "
        f"same name (ONCUE_NAME={owner.name} or Oncue(name={owner.name!r})). If {owner.name!r} was renamed: "
        f"`oncue migrate --rename {application.name}`"
    )
