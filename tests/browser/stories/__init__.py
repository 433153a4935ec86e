"""What the dashboard can show, a file for each kind of page: a story fills a database with all that its pages know.

A story has two functions:

    def declare(app: Oncue) -> None             tasks, schedules, webhooks; before the application is connected
    async def tell(app: Oncue) -> list[str]     writes what there is to see; the addresses of the pages that show it

Names in a story begin with the name of its file, so that stories do not meet. While stories are told a worker runs.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from oncue import Oncue


def stories(*names: str) -> list[ModuleType]:
    """These stories, or all of them."""
    found = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return [importlib.import_module(f"{__name__}.{name}") for name in names or found]


def declare(app: Oncue, *names: str) -> None:
    for story in stories(*names):
        story.declare(app)


async def tell(app: Oncue, *names: str) -> list[str]:
    """Addresses of pages, below the prefix."""
    addresses = ["/"]
    for story in stories(*names):
        addresses += await story.tell(app)
    return list(dict.fromkeys(addresses))
