"""Parts of a page that a form asks for while it is filled in: what they need to make links, and how they complain."""

from __future__ import annotations

from starlette.datastructures import QueryParams

from oncue.server.api.problems import Problem, of
from oncue.server.dashboard.deeds import Deed
from oncue.server.dashboard.view import View


def part_view(deed: Deed) -> View:
    """What a template of a part needs to make links and buttons."""
    return View(deed.app, "/schedules", {}, QueryParams(), deed.scopes, deed.base)


def page_of(deed: Deed, name: str) -> str:
    """The page of a schedule, below the prefix."""
    return View(deed.app, "/schedules", {}, QueryParams(), deed.scopes, "").link("/schedules", name)


def complaint(error: Exception) -> Problem:
    """A complaint that is shown where the form is. Every other error goes the way of all errors."""
    problem = of(error)
    if problem.kind.status >= 500:
        raise error
    return problem
