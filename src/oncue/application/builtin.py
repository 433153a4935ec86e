"""The tasks that oncue brings itself: every worker runs them, without code of the application's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncue.task import Task

if TYPE_CHECKING:
    from oncue.app import Oncue

PREFIX = "oncue."
"""What the names of these tasks begin with, and no name that an application gives."""
PING = f"{PREFIX}ping"


async def ping() -> None:
    """Nothing. That it ran tells that a worker takes jobs and that their outcomes are written."""


def builtin_tasks(app: Oncue) -> dict[str, Task[Any, Any]]:
    return {PING: Task(app, ping, name=PING, timeout="10s", max_retries=0)}
